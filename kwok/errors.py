"""Errors of a lab. Users can act on each message.

LabError
├── BinariesError    a binary is missing and could not be built
├── ClusterError     the control plane did not come up
├── ImageError       a container image could not be built
├── NodesNotReady    emulated nodes did not become Ready
├── ProcessError     a process of the lab did not start
├── ScenarioError    a scenario is invalid
└── TrafficError     the traffic model refuses a function, pod or request
"""

from __future__ import annotations

from surgekit.errors import UserError

__all__ = [
    "BinariesError",
    "ClusterError",
    "ImageError",
    "LabError",
    "NodesNotReady",
    "ProcessError",
    "ScenarioError",
    "TrafficError",
]


class LabError(UserError):
    """The lab cannot do what was asked; the message names the lab and the reason."""


class BinariesError(LabError):
    """A binary is missing and could not be built; the message names it."""


class ClusterError(LabError):
    """The control plane did not come up; the message ends with kwokctl's log."""


class ImageError(LabError):
    """A container image could not be built; the message names it and what is missing."""


class NodesNotReady(LabError):
    """Some nodes did not become Ready; the message names one."""


class ProcessError(LabError):
    """A process of the lab did not start; the message ends with its last log lines."""


class ScenarioError(LabError):
    """A scenario is invalid; the message names key and value."""


class TrafficError(LabError):
    """The traffic model refuses a function, pod or request; the message names it and the value."""
