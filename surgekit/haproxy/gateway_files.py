"""The files in the directory that HAProxy, the load balancer and the placement share. Pure."""

from __future__ import annotations

__all__ = [
    "CONTROL",
    "FUNCTIONS_MAP",
    "OVERFLOW_MAP",
    "PLACEMENT",
    "PLACEMENT_LOG",
    "STATISTICS",
]

CONTROL = "control.sock"  # HAProxy's socket of level admin: the load balancer's
STATISTICS = "statistics.sock"  # HAProxy's socket that only reads: for who wants statistics
FUNCTIONS_MAP = "functions.map"  # a function's host -> the backend it has here
OVERFLOW_MAP = "overflow.map"  # hosts whose requests may go to the emergency track
PLACEMENT = "placement.sock"  # POST /place: HAProxy asks for an emergency instance
PLACEMENT_LOG = "placement-log.sock"  # a stream of HAProxy's: a line when a request that asked has ended
