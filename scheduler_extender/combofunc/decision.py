"""One look at a function: is there need of a plan, and what is to be done next. Pure; time is an argument.

A plan is carried out as it is until the target, the sizes or the template change, or until it cannot be: a
pod of it is gone, a resize is refused for good or waits too long, a pod finds no node, or what was kept warm
has been so for long enough. Then another is made from what there is. A planner that fails touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from scheduler_extender.combofunc.question import Shape, body_of, containers_of, shape_of
from scheduler_extender.combofunc.settings import Settings
from scheduler_extender.combofunc.spec import ComboFunc
from scheduler_extender.combofunc.status import sizes_usable
from scheduler_extender.function_pods.actions import Action, Delete
from scheduler_extender.function_pods.assignment import Assignment, assign, broken, with_created
from scheduler_extender.function_pods.explicit import plan_replicas
from scheduler_extender.function_pods.pod import FunctionPod, Resizing
from scheduler_extender.function_pods.steps import Room, Steps, next_steps, released
from scheduler_extender.planner.model import Node, Plan, Planner, Weights
from scheduler_extender.planner.warm import plan_keeping_warm
from surgekit.conditions import Condition
from surgekit.modes import Mode

__all__ = ["REFUSED_FOR_S", "ClusterView", "Decision", "Memory", "decide"]

Json = dict[str, Any]
_DEBOUNCE_S = 0.3  # several pods lost at once are one reason for one plan
# How long a pod whose resize waited too long, or was refused, is not asked again. To a planner a pod can be
# resized or not, while what was refused was one size at one time. Mostly that is right: a plan keeps to the
# node's capacity, so what is Infeasible is so for every size (a kubelet with static CPU or memory manager, or
# swap); only of a Deferred growth a shrink would be granted meanwhile.
_DEFERRED_FOR_S, REFUSED_FOR_S = 60.0, 300.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0


class ClusterView(Protocol):
    def planner_nodes(self, pod_spec: Json) -> list[Node]: ...

    def room(self, name: str) -> Room | None: ...

    def lost(self, node: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one function in a term. All of it can be lost: then a plan is made from what there is."""

    basis: tuple[Any, ...] = ()  # what the plan was made for
    assignment: Assignment | None = None
    plan: Plan | None = None
    planned_at_s: float = 0.0
    usable: Condition | None = None
    outdated: frozenset[str] = frozenset()  # pods of earlier templates at that time
    refused: Mapping[str, float] = field(default_factory=dict)  # pod's uid -> not resized until then
    failure: str = ""  # the planner's
    trouble: str = ""  # the API server's
    wait_s: float = 0.0  # before what failed, or fell short, is tried again; doubles
    not_before_s: float = 0.0  # of another plan for the same basis
    short_until_s: float = 0.0  # when there may be room for what was short
    idle_since: Mapping[str, float] = field(default_factory=dict)  # pods that are only kept warm
    stuck: int = 0  # plans in a row for pods that found no node


@dataclass(frozen=True, slots=True)
class Decision:
    memory: Memory
    actions: tuple[Action, ...] = ()
    waiting: str = ""
    why: str = ""  # a new plan was made because
    again_in_s: float = math.inf


def decide(
    function: ComboFunc,
    target: int | None,
    pods: Sequence[FunctionPod],
    memory: Memory,
    cluster: ClusterView,
    planner: Planner,
    settings: Settings,
    now_s: float,
) -> Decision:
    """`pods`: all it owns. `target`: concurrency; None where none is known."""
    counted = [pod for pod in pods if not (pod.node and cluster.lost(pod.node))]
    idle = Decision(memory, tuple(_freed(counted, cluster, settings, function, now_s)))
    if function.paused or target is None:
        return idle
    if memory.assignment:
        memory = replace(memory, assignment=with_created(memory.assignment, counted))
    stuck = _stuck(counted, memory, settings, now_s)
    memory = _note_refusals(memory, counted, function, settings, now_s)
    why = _why(function, target, counted, memory, stuck, now_s, settings)
    if why and now_s < memory.not_before_s and memory.basis == _basis(function, target):
        return replace(idle, memory=memory, again_in_s=memory.not_before_s - now_s)
    if why:
        remaining = [pod for pod in counted if pod.uid not in stuck]
        memory = _plan(function, target, remaining, memory, cluster, planner, settings, now_s)
        if memory.failure:
            return replace(idle, memory=memory, why=why, again_in_s=memory.not_before_s - now_s)
        memory = replace(memory, stuck=memory.stuck + 1 if stuck else memory.stuck)
    if function.mode is Mode.SHADOW or memory.assignment is None:
        return replace(idle, memory=memory, why=why)
    steps = _steps(function, memory.assignment, counted, cluster, settings, bool(memory.trouble), now_s)
    if not steps.waiting and not stuck:
        # What failed was done all the same (only its answer was lost), or is not wanted any more.
        trouble = memory.trouble if steps.actions else ""
        memory = replace(memory, stuck=0, trouble=trouble)
    gone = [Delete(pod.name, pod.uid, "no node takes it") for pod in counted if pod.uid in stuck]
    again_in_s = min(steps.again_in_s, _next_look_s(function, memory, counted, now_s))
    return Decision(memory, (*gone, *steps.actions), steps.waiting, why, again_in_s)


def _basis(function: ComboFunc, target: int) -> tuple[Any, ...]:
    replicas = tuple(sorted((function.replicas or {}).items()))
    return (
        *(target, replicas, function.sizes, function.template_hash, function.container),
        *(function.in_place, function.price_weight, function.mode),
    )


def _freed(
    pods: Sequence[FunctionPod],
    cluster: ClusterView,
    settings: Settings,
    function: ComboFunc,
    now_s: float,
) -> list[Action]:
    """Whatever else: a pod is never held back for good because of us."""
    gate_s = settings.gate_s + function.drain_s
    return released(pods, _rooms({p.planned_node for p in pods if p.gated}, cluster), gate_s, now_s)


def _rooms(names: set[str], cluster: ClusterView) -> dict[str, Room]:
    return {name: room for name in names if (room := cluster.room(name)) is not None}


def _stuck(pods: Sequence[FunctionPod], memory: Memory, settings: Settings, now_s: float) -> frozenset[str]:
    before_s = now_s - settings.unschedulable_s * 2.0 ** min(memory.stuck, 6)
    return frozenset(
        pod.uid
        for pod in pods
        if pod.live and not pod.node and not pod.gated
        if pod.unschedulable_since_s is not None and pod.unschedulable_since_s < before_s
    )


def _note_refusals(
    memory: Memory, pods: Sequence[FunctionPod], function: ComboFunc, settings: Settings, now_s: float
) -> Memory:
    uids = {pod.uid for pod in pods}
    known = {uid: until_s for uid, until_s in memory.refused.items() if until_s > now_s and uid in uids}
    for pod in pods:
        if pod.resizing is Resizing.INFEASIBLE:
            known[pod.uid] = now_s + REFUSED_FOR_S
        elif pod.resizing is Resizing.DEFERRED and pod.resizing_since_s < _deferred_before_s(
            function, settings, now_s
        ):
            known[pod.uid] = now_s + _DEFERRED_FOR_S
    return replace(memory, refused=known)


def _deferred_before_s(function: ComboFunc, settings: Settings, now_s: float) -> float:
    return now_s - settings.deferred_s - function.drain_s


def _why(
    function: ComboFunc,
    target: int,
    pods: Sequence[FunctionPod],
    memory: Memory,
    stuck: frozenset[str],
    now_s: float,
    settings: Settings,
) -> str:
    """Why there must be another plan; empty: the one there is stands."""
    assignment = memory.assignment
    gone = memory.outdated - {pod.name for pod in pods}
    if assignment is None:
        return "the last one failed" if memory.failure else "there was none"
    if memory.basis != _basis(function, target):
        return "the spec or the target changed"
    if stuck:
        return "a pod found no node"
    reason = ""
    if function.mode is not Mode.SHADOW:
        current = [pod for pod in pods if pod.template == function.template_hash]
        deferred_before_s = _deferred_before_s(function, settings, now_s)
        reason = broken(assignment, current, function.container, deferred_before_s)
    if not reason and _warm_until_s(function, memory) <= now_s:
        reason = "nothing needed a container that was kept warm"
    if not reason and assignment.short:
        reason = "pods of an earlier template have left room" if gone else ""
        if not reason and now_s >= memory.short_until_s and not _makes_room(pods):
            reason = "it was short: there may be room"
    return reason


def _warm_until_s(function: ComboFunc, memory: Memory) -> float:
    """When the first of those that are kept warm has been so for long enough."""
    staying = memory.assignment.sizes if memory.assignment else {}
    since_s = [since_s for pod, since_s in memory.idle_since.items() if pod in staying]
    return min(since_s, default=math.inf) + function.keep_warm_s


def _plan(
    function: ComboFunc,
    target: int,
    pods: Sequence[FunctionPod],
    memory: Memory,
    cluster: ClusterView,
    planner: Planner,
    settings: Settings,
    now_s: float,
) -> Memory:
    basis = _basis(function, target)
    same = memory.basis == basis
    wait_s = min(max(2 * memory.wait_s, _FIRST_WAIT_S), _LONGEST_WAIT_S) if same else _FIRST_WAIT_S
    try:
        shape = shape_of(function)
        nodes = cluster.planner_nodes(function.template["spec"])
        plan, assignment, idle_since = _answer(
            function, target, pods, memory, shape, nodes, planner, settings, now_s
        )
    except Exception as error:  # whatever it is, the pods stay as they are
        return replace(
            memory, basis=basis, assignment=None, failure=f"{type(error).__name__}: {error}",
            wait_s=wait_s, not_before_s=now_s + wait_s,
        )  # fmt: skip
    better = same and memory.plan is not None and plan.concurrency > memory.plan.concurrency
    wait_s = _FIRST_WAIT_S if better else wait_s
    return replace(
        memory,
        basis=basis,
        assignment=assignment,
        plan=plan,
        planned_at_s=now_s,
        idle_since=idle_since,
        usable=sizes_usable(shape.sizes, nodes),
        outdated=frozenset(p.name for p in pods if p.template != function.template_hash),
        failure="",
        trouble="" if not same else memory.trouble,
        wait_s=wait_s if assignment.short else 0.0,
        not_before_s=now_s + _DEBOUNCE_S,
        short_until_s=now_s + wait_s,
    )


def _answer(
    function: ComboFunc,
    target: int,
    pods: Sequence[FunctionPod],
    memory: Memory,
    shape: Shape,
    nodes: Sequence[Node],
    planner: Planner,
    settings: Settings,
    now_s: float,
) -> tuple[Plan, Assignment, Mapping[str, float]]:
    containers = containers_of(function, shape, pods, memory.refused)
    lam = settings.price_weight if function.price_weight is None else function.price_weight
    weights = Weights(lam, settings.price_swing, function.in_place)
    idle_since: Mapping[str, float] = {}
    if function.replicas is not None:
        plan = plan_replicas(function.replicas, shape.sizes, nodes, containers, weights, planner)
    else:
        question = (shape.sizes, nodes, containers, target, weights)
        plan, idle_since = plan_keeping_warm(
            planner, *question, memory.idle_since, function.keep_warm_s, now_s
        )
    # Every pod there is, so that a name is not taken by one that is still going.
    salt = f"{function.uid}/{function.template_hash}/{','.join(sorted(pod.name for pod in pods))}"
    return plan, assign(plan, containers, function.sizes, function.name, salt), idle_since


def _steps(
    function: ComboFunc,
    assignment: Assignment,
    pods: Sequence[FunctionPod],
    cluster: ClusterView,
    settings: Settings,
    creations_fail: bool,
    now_s: float,
) -> Steps:
    shape = shape_of(function)
    names = {new.node for new in assignment.new} | {pod.node or pod.planned_node for pod in pods}
    return next_steps(
        assignment,
        pods,
        function.template_hash,
        function.container,
        _rooms(names, cluster),
        lambda new: body_of(function, new),
        shape.whole,
        function.drain_s,
        settings.gate_s + function.drain_s,
        creations_fail,
        now_s,
    )


def _makes_room(pods: Sequence[FunctionPod]) -> bool:
    """Whether a pod is held back until others have left its node. Another plan would find both there and keep
    both, again and again; the gate comes off in time, whatever becomes of it."""
    return any(pod.live and pod.gated for pod in pods)


def _next_look_s(function: ComboFunc, memory: Memory, pods: Sequence[FunctionPod], now_s: float) -> float:
    """Besides what the steps wait for: a shortage, a pod that finds no node, one that is kept warm."""
    short = memory.assignment is not None and memory.assignment.short and not _makes_room(pods)
    waits = [memory.short_until_s - now_s] if short else []
    waits += [1.0 for pod in pods if pod.unschedulable_since_s is not None and pod.live]
    waits.append(_warm_until_s(function, memory) - now_s)
    return max(min(waits, default=math.inf), 0.05)
