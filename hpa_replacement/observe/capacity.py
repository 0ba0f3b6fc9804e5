"""Eq. (4): how many replicas the cluster can hold.

The paper divides the free resources of all nodes together; a replica cannot span two nodes, so whole replicas
are counted node by node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Resources", "capacity", "replicas_that_fit"]


@dataclass(frozen=True, slots=True)
class Resources:
    """Whole numbers: an exact fit does not depend on rounding."""

    cpu_millis: int
    memory_bytes: int
    pods: int = 1


def replicas_that_fit(free: Resources, request: Resources) -> int:
    """Eq. (4) for one node. A resource that is not requested is no limit."""
    if request.cpu_millis < 0 or request.memory_bytes < 0 or request.pods < 1:
        raise ValueError(f"request: must be at least 0 of everything and one pod, is {request}")
    limits = [max(free.pods, 0) // request.pods]
    if request.cpu_millis:
        limits.append(max(free.cpu_millis, 0) // request.cpu_millis)
    if request.memory_bytes:
        limits.append(max(free.memory_bytes, 0) // request.memory_bytes)
    return min(limits)


def capacity(free: Iterable[Resources], request: Resources, running: int = 0, addable: int = 0) -> int:
    """Running replicas, those that fit beside them, and those on nodes the node autoscaler could add."""
    if running < 0 or addable < 0:
        raise ValueError(f"running, addable: must be >= 0, are {running}, {addable}")
    return running + addable + sum(replicas_that_fit(node, request) for node in free)
