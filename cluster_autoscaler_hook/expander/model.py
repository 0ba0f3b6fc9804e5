"""The expander's requests and answers as plain values.

Millicores and bytes are whole numbers, as in kube-scheduler: rounding must not decide whether a pod fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Demand", "GroupChoice", "Kind", "Offer", "Option", "Price", "Score", "Template"]


@dataclass(frozen=True, slots=True)
class Demand:
    """The resources that one pod takes on a node."""

    cpu_millis: int
    memory_bytes: int
    # Ephemeral storage, GPUs and other resources, by name.
    others: tuple[tuple[str, int], ...] = ()
    # At most one on a node: required anti-affinity to its own kind by host name, or a host port.
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods that look the same to a plan: equal demand, helped by the same node groups."""

    demand: Demand
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Template:
    """The resources for pods on a new node of a group."""

    group: str
    instance_class: str  # "" if the node has no such label
    cpu_millis: int
    memory_bytes: int
    max_pods: int
    others: Mapping[str, int] = field(default_factory=dict)
    # Capacity, before kubelet's reservations; the caller's least-waste and price expanders use it.
    capacity_cpu_millis: int = 0
    capacity_memory_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Option:
    """A group that the caller could grow by `nodes` nodes, for `pods` of each kind."""

    group: str
    nodes: int
    pods: Mapping[int, int]  # index of the kind -> pods
    debug: str = ""

    @property
    def pod_count(self) -> int:
        return sum(self.pods.values())


@dataclass(frozen=True, slots=True)
class Offer:
    """One request: all options, and all pods that any of them helps."""

    options: tuple[Option, ...]
    templates: Mapping[str, Template]
    kinds: tuple[Kind, ...]
    pending: tuple[int, ...]  # number of pods of each kind


@dataclass(frozen=True, slots=True)
class Price:
    per_hour: float
    source: str


@dataclass(frozen=True, slots=True)
class Score:
    """The cost of an option, in the catalogue's currency per hour."""

    group: str
    step_per_hour: float  # the nodes the caller would add now
    to_go_per_hour: float  # the lowest cost of the pods that it leaves
    at_least: bool = False  # a lower bound, which shows that it is not the best

    @property
    def total_per_hour(self) -> float:
        return self.step_per_hour + self.to_go_per_hour


@dataclass(frozen=True, slots=True)
class GroupChoice:
    """The groups to answer with: one, or all if the choice is left to the caller."""

    groups: tuple[str, ...]
    # Why a simpler rule chose; None if every option was compared. The inputs are sound either way, so a
    # fallback is a valid decision: only a request that offers nothing to choose from is not.
    fallback: str | None = None
    scores: tuple[Score, ...] = ()
    plan_per_hour: float | None = None
    plan_bound_per_hour: float | None = None
    unpriced: tuple[str, ...] = ()
