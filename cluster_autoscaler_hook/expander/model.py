"""What the expander is asked and answers, as plain values.

Whole millicores and bytes, as the scheduler counts: whether the last pod fits is no matter of rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Decision", "Demand", "Kind", "Offer", "Option", "Price", "Score", "Template"]


@dataclass(frozen=True, slots=True)
class Demand:
    """What one pod takes from a node."""

    cpu_millis: int
    memory_bytes: int
    # Ephemeral storage, GPUs and whatever else is counted, by name.
    others: tuple[tuple[str, int], ...] = ()
    # Required anti-affinity to its own kind by host name, or a host port: one of them on a node.
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods that are the same to a plan: the same demand, and helped by the same node groups."""

    demand: Demand
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Template:
    """What a new node of a group has for pods."""

    group: str
    instance_class: str  # "" where the node does not say
    cpu_millis: int
    memory_bytes: int
    max_pods: int
    others: Mapping[str, int] = field(default_factory=dict)
    # Before what the kubelet keeps; the caller's least-waste and price expanders look at these.
    capacity_cpu_millis: int = 0
    capacity_memory_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Option:
    """A group the caller could grow: by `nodes`, which it worked out, for `pods` of each kind."""

    group: str
    nodes: int
    pods: Mapping[int, int]  # index of the kind -> pods
    debug: str = ""

    @property
    def pod_count(self) -> int:
        return sum(self.pods.values())


@dataclass(frozen=True, slots=True)
class Offer:
    """One question: all the options, and all the pods that any of them helps."""

    options: tuple[Option, ...]
    templates: Mapping[str, Template]
    kinds: tuple[Kind, ...]
    pending: tuple[int, ...]  # pods of each kind


@dataclass(frozen=True, slots=True)
class Price:
    per_hour: float
    source: str


@dataclass(frozen=True, slots=True)
class Score:
    """What an option leads to, in the catalogue's currency per hour."""

    group: str
    step_per_hour: float  # the nodes the caller would add now
    to_go_per_hour: float  # what the pods left then cost at best
    at_least: bool = False  # only a lower bound: enough to know that it is not the best

    @property
    def total_per_hour(self) -> float:
        return self.step_per_hour + self.to_go_per_hour


@dataclass(frozen=True, slots=True)
class Decision:
    """The groups to answer with: one, or all of them where the choice is left to the caller."""

    groups: tuple[str, ...]
    reasons: tuple[str, ...]
    # Why it is not the full decision; None where it is.
    fallback: str | None = None
    scores: tuple[Score, ...] = ()
    plan_per_hour: float | None = None
    plan_bound_per_hour: float | None = None
    unpriced: tuple[str, ...] = ()
