"""One look at a function: is there need of a plan, and what is to be done next. Pure; time is an argument.

A plan is carried out as it is until the target, the sizes or the template change, or until it cannot be: a
pod of it is gone, a resize is refused for good or waits too long, a pod finds no node, or what was kept warm
has been so for long enough. Then another is made from what there is. A planner that fails touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from scheduler_extender.combofunc.question import Shape, body_of, containers_of, shape_of
from scheduler_extender.combofunc.settings import Settings
from scheduler_extender.combofunc.spec import ComboFunc
from scheduler_extender.combofunc.standing import (
    Memory,
    basis_of,
    next_look_s,
    noting_refusals,
    stuck_pods,
    why_another,
)
from scheduler_extender.combofunc.status import sizes_usable
from scheduler_extender.function_pods.actions import Action, Delete
from scheduler_extender.function_pods.assignment import Assignment, assign, with_created
from scheduler_extender.function_pods.explicit import plan_replicas
from scheduler_extender.function_pods.pod import FunctionPod
from scheduler_extender.function_pods.steps import Room, Steps, next_steps, released
from scheduler_extender.planner.model import Node, Plan, Planner, Weights
from scheduler_extender.planner.warm import plan_keeping_warm
from surgekit.modes import Mode

__all__ = ["ClusterView", "Decision", "decide"]

Json = dict[str, Any]
_DEBOUNCE_S = 0.3  # several pods lost at once are one reason for one plan
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0


class ClusterView(Protocol):
    def planner_nodes(self, pod_spec: Json) -> list[Node]: ...

    def room(self, name: str) -> Room | None: ...

    def lost(self, node: str) -> bool: ...


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
    stuck = stuck_pods(counted, memory, settings, now_s)
    memory = noting_refusals(memory, counted, function, settings, now_s)
    why = why_another(function, target, counted, memory, stuck, now_s, settings)
    if why and now_s < memory.not_before_s and memory.basis == basis_of(function, target):
        return replace(idle, memory=memory, again_in_s=memory.not_before_s - now_s)
    if why:
        remaining = [pod for pod in counted if pod.uid not in stuck]
        memory = _plan(function, target, remaining, memory, cluster, planner, settings, now_s)
        if memory.failure:
            return replace(idle, memory=memory, why=why, again_in_s=memory.not_before_s - now_s)
        memory = replace(memory, stuck=memory.stuck + 1 if stuck else memory.stuck)
    if function.mode is Mode.SHADOW or memory.assignment is None:
        look_s = next_look_s(function, memory, counted, now_s)
        return replace(idle, memory=memory, why=why, again_in_s=look_s)
    steps = _steps(function, memory.assignment, counted, cluster, settings, bool(memory.trouble), now_s)
    if not steps.waiting and not stuck:
        # What failed was done all the same (only its answer was lost), or is not wanted any more.
        trouble = memory.trouble if steps.actions else ""
        memory = replace(memory, stuck=0, trouble=trouble)
    gone = [Delete(pod.name, pod.uid, "no node takes it") for pod in counted if pod.uid in stuck]
    again_in_s = min(steps.again_in_s, next_look_s(function, memory, counted, now_s))
    return Decision(memory, (*gone, *steps.actions), steps.waiting, why, again_in_s)


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
    basis = basis_of(function, target)
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
