"""FCMA's problem and solution (tables 1 and 2 of the paper). Plain values, units in the names.

A `Problem` has apps with a workload, instance classes with a price, and for every (app, root family) the
app's minimum-size container there. A solution has nodes, each with a class and a number of minimum-size
containers per app. `Container.aggregation` tells which containers really run, and so how much memory they
take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cluster_autoscaler_hook.solver.aggregation import Aggregation
from surgekit.errors import UserError

__all__ = [
    "TOLERANCE",
    "Allocation",
    "App",
    "Container",
    "InfeasibleProblem",
    "InstanceClass",
    "InvalidProblem",
    "Node",
    "Problem",
    "Solution",
]

# An exact fit counts as a fit: sizes are decimal fractions, so their sums are compared with this tolerance,
# relative to the capacity or the workload.
TOLERANCE = 1e-9


class InvalidProblem(UserError, ValueError):
    """The problem is not well formed; the message names the field and the value."""


class InfeasibleProblem(UserError, ValueError):
    """The problem has no answer; the message names the app that fits nowhere, and why."""


@dataclass(frozen=True, slots=True)
class InstanceClass:
    """I_i: c_i, m_i, p_i. `family` is the root family; all its classes run a container alike."""

    name: str
    family: str
    cores: float
    memory_gib: float
    price_per_hour: float
    # Kubernetes' limit of pods on a node; the paper has none.
    max_containers: int | None = None


@dataclass(frozen=True, slots=True)
class App:
    """A_a with its workload w_a, in the unit its containers' performance has."""

    name: str
    workload: float
    # SFMPL: losing one node should lose at most this share of the app's performance; 1.0 means no preference.
    sfmpl: float = 1.0
    # A hard limit of minimum-size containers on one node (required anti-affinity); the paper has none.
    max_per_node: int | None = None


@dataclass(frozen=True)
class Container:
    """C_0,a,i, the minimum-size container of an app in a family, and how it aggregates.

    `levels` ascend from 1. A level-n container has n times the cores and performance; `memory_gib` has
    the memory of one container of each level.
    """

    cores: float
    performance: float
    levels: tuple[int, ...]
    memory_gib: tuple[float, ...]

    @cached_property
    def aggregation(self) -> Aggregation:
        return Aggregation(self.levels, self.memory_gib)

    @cached_property
    def least_memory_gib(self) -> float:
        """The memory of one minimum-size container, aggregated at the thriftiest level."""
        return min(memory / level for level, memory in zip(self.levels, self.memory_gib, strict=True))


@dataclass(frozen=True)
class Problem:
    """Validated when it is made, so that the solvers never see a problem without an answer."""

    apps: tuple[App, ...]
    classes: tuple[InstanceClass, ...]
    containers: Mapping[tuple[str, str], Container]  # (app, root family); a missing pair cannot run

    def __post_init__(self) -> None:
        from cluster_autoscaler_hook.solver.validation import validate  # noqa: PLC0415  # it reads this module's types

        validate(self)

    @cached_property
    def class_by_name(self) -> dict[str, InstanceClass]:
        return {instance_class.name: instance_class for instance_class in self.classes}

    @cached_property
    def app_by_name(self) -> dict[str, App]:
        return {app.name: app for app in self.apps}


@dataclass(frozen=True, slots=True)
class Node:
    """One node to rent, with the number of minimum-size containers per app; no number is 0."""

    instance_class: str
    containers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Allocation:
    nodes: tuple[Node, ...]

    def cost_per_hour(self, problem: Problem) -> float:
        return sum(problem.class_by_name[node.instance_class].price_per_hour for node in self.nodes)


@dataclass(frozen=True, slots=True)
class Solution:
    """An allocation that passed the verifier, its cost, and a lower bound of every allocation's cost."""

    allocation: Allocation
    cost_per_hour: float
    lower_bound_per_hour: float
    # What each step gained and why the search stopped, for `explain`; no code depends on it.
    steps: tuple[str, ...] = field(default=())
    # The deadline or a step's share of it ran out, so another run may give another answer.
    deadline_reached: bool = False
