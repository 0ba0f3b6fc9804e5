"""What a scaler sees of the cluster and what it may do."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from experiments.combofunc.workload import Size

__all__ = [
    "Action", "Bound", "Container", "Create", "Decision", "NodeLoad", "NodeView", "Remove", "Resize",
    "Scaler", "State",
]  # fmt: skip


@dataclass(frozen=True)
class NodeView:
    name: str
    cpu_millicores: int
    memory_bytes: int
    cpu_free_millicores: int
    memory_free_bytes: int
    pods_free: int
    creating: int  # pods being created there now
    tau_create_s: float  # as of the last creation that was seen there
    tau_resize_s: float

    def fits(self, size: Size) -> bool:
        return (
            self.cpu_free_millicores >= size.cpu_millicores
            and self.memory_free_bytes >= size.memory_bytes
            and self.pods_free >= 1
        )

    def with_pod(self, size: Size) -> NodeView:
        """The node with one more such pod, which is being created."""
        return replace(
            self,
            cpu_free_millicores=self.cpu_free_millicores - size.cpu_millicores,
            memory_free_bytes=self.memory_free_bytes - size.memory_bytes,
            pods_free=self.pods_free - 1,
            creating=self.creating + 1,
        )


@dataclass(frozen=True)
class Container:
    pod: str
    node: str
    size: Size  # what it is, or is becoming
    ready: bool
    resizing: bool
    age: int  # the higher the younger


@dataclass(frozen=True)
class Bound:
    """A pod that was bound to a node lately."""

    at_s: float
    cpu_millicores: int | None  # None: it requests nothing


@dataclass(frozen=True)
class NodeLoad:
    """What was measured of a node, as shares of it; Trimaran alone looks at it."""

    window_end_s: float
    cpu: float  # the last value
    cpu_mean: float
    cpu_std: float
    memory_mean: float
    memory_std: float
    bound: Collection[Bound] = ()  # known at once, while the load follows later


@dataclass(frozen=True)
class State:
    """The cluster as one function's scaler finds it."""

    nodes: Sequence[NodeView]
    containers: Sequence[Container]
    now_s: float = 0.0
    others_short: bool = False  # another function has less than its target for want of room
    loads: Mapping[str, NodeLoad] = field(default_factory=dict)  # by node

    @property
    def concurrency(self) -> int:
        return sum(container.size.concurrency for container in self.containers)


@dataclass(frozen=True)
class Create:
    node: str
    size: Size


@dataclass(frozen=True)
class Resize:
    pod: str
    size: Size


@dataclass(frozen=True)
class Remove:
    pod: str


Action = Create | Resize | Remove


@dataclass(frozen=True)
class Decision:
    actions: Sequence[Action]
    decided_s: float = field(default=0.0, compare=False)  # how long deciding took, in seconds of a core
    again_at_s: float = math.inf  # when time alone changes the decision
    keeps_warm: bool = False  # containers that are removed when another function lacks room


class Scaler(Protocol):
    """Scales one function. Called when its target changes, when it lacks room and some became free, when
    another function lacks room, and at `again_at_s`."""

    def decide(self, state: State, target: int) -> Decision: ...
