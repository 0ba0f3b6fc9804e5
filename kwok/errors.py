"""What can go wrong with a lab. Each message is one a user can act on.

LabError
├── BinariesError    a binary is missing and could not be made
├── ClusterError     the control plane did not come up
├── NodesNotReady    emulated nodes did not become Ready
├── ProcessError     a process of the lab did not start
├── ScenarioError    a scenario cannot be used
└── TrafficError     functions, pods or requests that the traffic model cannot take
"""

from __future__ import annotations

from surgekit.errors import UserError

__all__ = [
    "BinariesError",
    "ClusterError",
    "LabError",
    "NodesNotReady",
    "ProcessError",
    "ScenarioError",
    "TrafficError",
]


class LabError(UserError):
    """The lab cannot do what was asked; the message says which lab and why."""


class BinariesError(LabError):
    """A binary is missing and could not be made; the message names it."""


class ClusterError(LabError):
    """The control plane did not come up; the message ends with what kwokctl said."""


class NodesNotReady(LabError):
    """Some nodes did not become Ready; the message names one."""


class ProcessError(LabError):
    """A process of the lab did not start; the message ends with its last log lines."""


class ScenarioError(LabError):
    """A scenario cannot be used; the message names key and value."""


class TrafficError(LabError):
    """A function, pod or request cannot be taken as it is; the message names it and the value."""
