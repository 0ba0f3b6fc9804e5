"""A function as it runs in virtual time: its target, its pods, and what they serve."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from experiments.combofunc.model import Action, Remove, Resize, Scaler
from experiments.combofunc.node_load import Serving
from experiments.combofunc.track import Track
from experiments.combofunc.workload import Size

__all__ = ["Pod", "Running", "difference", "releases", "serving"]


@dataclass
class Pod:
    name: str
    node: str
    size: Size  # what it holds
    age: int
    serving: int = 0  # the concurrency it can take now
    ready: bool = False
    growing_to: int = 0  # what it can take once it has grown
    resizing: bool = False
    generation: int = 1


@dataclass
class Running:
    name: str
    scaler: Scaler
    track: Track = field(default_factory=Track)
    target: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    releases: list[Remove | Resize] = field(default_factory=list)  # that wait for something in their place
    again_at_s: float = math.inf
    keeps_warm: bool = False

    @property
    def ready(self) -> int:
        return sum(pod.serving for pod in self.pods.values())

    @property
    def coming(self) -> bool:
        return any(not pod.ready or pod.growing_to for pod in self.pods.values())

    @property
    def concurrency(self) -> int:
        return sum(pod.size.concurrency for pod in self.pods.values())


def serving(functions: Iterable[Running]) -> list[Serving]:
    """Requests spread over what is ready, in proportion to what each can take."""
    found: list[Serving] = []
    for function in functions:
        busy = min(function.target / function.ready, 1.0) if function.ready else 0.0
        found += [
            (p.node, function.name, p.size, busy * p.serving / p.size.concurrency)
            for p in function.pods.values()
        ]
    return found


def difference(to: Size, had: Size) -> tuple[int, int]:
    return to.cpu_millicores - had.cpu_millicores, to.memory_bytes - had.memory_bytes


def releases(action: Action, pods: Mapping[str, Pod]) -> bool:
    """Whether the action takes concurrency away."""
    if isinstance(action, Resize):
        return action.size.concurrency <= pods[action.pod].size.concurrency
    return isinstance(action, Remove)
