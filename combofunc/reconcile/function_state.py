"""One function as the controller sees it now, and the state it keeps for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from combofunc.planner.model import Plan
from combofunc.pods.assignment import Assignment
from combofunc.pods.memory_in_use import Refused
from combofunc.pods.pod import FunctionPod
from combofunc.reconcile.held_target import RecentTargets, held_target
from combofunc.reconcile.node_demand import NO_CHOICES, ChosenSizes, NodeDemand
from combofunc.reconcile.spec import ComboFunc
from surgekit.kube.conditions import Condition

__all__ = ["Basis", "FunctionState", "Observation", "basis_of"]

Json = dict[str, Any]
Basis = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """One function as seen now."""

    function: ComboFunc
    target: int | None  # concurrency to reach; None: not known
    pods: Sequence[FunctionPod]  # every readable pod that the function owns
    now_s: float  # Unix time
    memory_use: Mapping[str, float] = field(default_factory=dict)  # pod's name -> bytes in use, if measured
    unreadable_pods: Sequence[str] = ()  # names
    inputs_age_s: Mapping[str, float] = field(default_factory=dict)  # by watched kind
    chosen_sizes: ChosenSizes = field(default_factory=lambda: NO_CHOICES)  # for its pods that wait for nodes


@dataclass(frozen=True, slots=True)
class FunctionState:
    """Per-function state while this replica leads. A new leader starts without it and plans from the pods."""

    # The plan in force.
    basis: Basis = ()  # the spec and target it was made for
    plan: Plan | None = None
    assignment: Assignment | None = None
    planned_at_s: float = 0.0
    planning_s: float = 0.0  # how long the planner took
    sizes_usable: Condition | None = None
    outdated_pods: frozenset[str] = frozenset()  # names of pods with an earlier template, at that time
    least_memory: Mapping[str, float] = field(default_factory=dict)  # pod's uid -> bytes, at that time
    planner_failure: str = ""  # why the last plan failed
    # When to plan again.
    retry_wait_s: float = 0.0  # after a failed or short plan; doubles
    replan_not_before_s: float = 0.0  # for the same basis
    retry_short_at_s: float = 0.0  # a plan that was short is tried again then
    stale_plans: int = 0  # plans in a row that were out of date when they arrived
    stuck_plans: int = 0  # plans in a row because no node took a pod
    lacks_room: bool = False  # other functions may hold the room it lacks
    nodes: NodeDemand = NodeDemand()  # noqa: RUF009  # frozen
    # What kubelets refused.
    no_resize_until_s: Mapping[str, float] = field(default_factory=dict)  # pod's uid -> Unix time
    memory_refusals: Mapping[str, Refused] = field(default_factory=dict)  # pod's uid -> memory it keeps
    # Writes that failed.
    api_failure: str = ""  # what the API server said
    api_failures: int = 0  # in a row
    retry_writes_at_s: float = 0.0
    # The target.
    target: int | None = None
    recent_targets: RecentTargets = ()  # what keepWarm holds
    idle_until_s: float = 0.0  # Unix time: containers that are not needed stay until then, shrunk
    target_changed_at_s: float | None = None  # monotonic; None: the target is Ready since
    # What was reported already.
    status_written: Json = field(default_factory=dict)  # fields the watch may not show yet
    status_written_at_s: float = 0.0
    plan_event: str = ""
    moved_pods: frozenset[str] = frozenset()  # names of pods on another node than planned
    memory_event: str = ""


def basis_of(function: ComboFunc, state: FunctionState, now_s: float) -> Basis:
    """Everything a plan is made for. Another basis needs another plan."""
    held, keep_idle = held_target(state.recent_targets), now_s < state.idle_until_s
    replicas = tuple(sorted((function.replicas or {}).items()))
    return (
        *(held, keep_idle, replicas, function.sizes, function.template_hash, function.container),
        *(function.in_place, function.price_weight, function.mode),
    )
