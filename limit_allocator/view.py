"""What the controller knows of one application at one moment: what its status is written from."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ContainerView", "View"]


@dataclass(frozen=True, slots=True)
class ContainerView:
    pod: str
    container: str
    node: str
    cpu_limit_us: int  # as written to its cgroup, per period
    cpu_used_us: int  # mean of the window
    throttled: float  # share of the window's periods
    memory_limit_bytes: int
    memory_used_bytes: int
    changed_at_s: float = 0.0  # Unix time of the last change of a limit; 0: none yet
    reason: str = ""  # of that change, a sentence


@dataclass(frozen=True, slots=True)
class View:
    allocated_cpu_us: int = 0  # the sum of limits as written, that must hold
    allocated_memory_bytes: int = 0  # with the reserves of agents
    events_survived: int = 0  # memory events after which the container lived, since the controller's start
    oom_kills: int = 0
    waiting: int = 0  # containers that no agent has registered yet
    nodes: frozenset[str] = frozenset()  # that hold limits or reserves of it, or are about to
    silent_nodes: frozenset[str] = frozenset()
    container_count: int = 0
    used_cpu_us: int = 0
    used_memory_bytes: int = 0
    containers: tuple[ContainerView, ...] = ()  # those that need attention most, by name
