"""One look at a function: is there need of a plan, and what is to be done next. Pure; time is an argument.

A plan is carried out as it is until the target, the sizes or the template change, or until it cannot be: a
pod of it is gone, a resize is refused for good or waits too long, a pod finds no node, or what was kept warm
has been so for long enough. Then another is asked for, from what there is; until it is there, nothing is
done. A planner that fails touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

from combofunc.planner.model import Node, Weights
from combofunc.pods.actions import Action, Delete
from combofunc.pods.assignment import Assignment, with_created
from combofunc.pods.memory_in_use import least_memory
from combofunc.pods.pod import FunctionPod
from combofunc.pods.steps import Room, Steps, next_steps, released
from combofunc.reconcile.plan_result import Answer, Ask, Question, overtaken
from combofunc.reconcile.plan_validity import (
    Memory,
    basis_of,
    next_look_s,
    noting_refusals,
    stuck_pods,
    why_another,
)
from combofunc.reconcile.planner_input import body_of, containers_of, shape_of
from combofunc.reconcile.spec import ComboFunc
from combofunc.settings import Settings
from surgekit.process.modes import Mode

__all__ = ["ClusterView", "Decision", "decide"]

Json = dict[str, Any]
_DEBOUNCE_S = 0.3  # several pods lost at once are one reason for one plan
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0
# Plans in a row that came too late. The next is carried out: a pod without room waits behind its gate, then
# goes elsewhere.
_MOST_OVERTAKEN = 3
_LISTED = 5


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
    held: str = ""  # nothing is planned or changed because
    again_in_s: float = math.inf
    planning: bool = False  # a plan is needed and not there yet
    least_memory: Mapping[str, float] = field(default_factory=dict)  # bytes by pod's uid, not asked back


def decide(
    function: ComboFunc,
    target: int | None,
    pods: Sequence[FunctionPod],
    memory: Memory,
    cluster: ClusterView,
    ask: Ask,
    settings: Settings,
    now_s: float,
    measured: Mapping[str, float] = MappingProxyType({}),
    unread: Sequence[str] = (),
) -> Decision:
    """`pods`: all it owns, but for those of `unread`, which cannot be read. `target`: concurrency; None where
    none is known. `measured`: bytes of memory that pods use, by name, where that is known."""
    counted = [pod for pod in pods if not (pod.node and cluster.lost(pod.node))]
    least = least_memory(memory.in_use, counted, measured, now_s)
    freed = tuple(_freed(counted, cluster, settings, function, now_s))
    idle = Decision(memory, freed, least_memory=least)
    if unread or function.paused or target is None:
        return replace(idle, held=_held_by(unread))
    if memory.assignment:
        memory = replace(memory, assignment=with_created(memory.assignment, counted))
    stuck = stuck_pods(counted, memory, settings, now_s)
    memory = noting_refusals(memory, counted, function, settings, now_s)
    least = least_memory(memory.in_use, counted, measured, now_s)
    idle = replace(idle, least_memory=least)
    why = why_another(function, target, counted, memory, stuck, least, now_s, settings)
    if why and now_s < memory.not_before_s and memory.basis == basis_of(function, target):
        return replace(idle, memory=memory, again_in_s=memory.not_before_s - now_s)
    if why:
        remaining = [pod for pod in counted if pod.uid not in stuck]
        found, memory = _ask(function, target, remaining, memory, cluster, ask, settings, least, now_s)
        if found is None:
            return replace(idle, memory=memory, planning=True)
        memory = _planned(memory, found, now_s)
        if memory.failure:
            return replace(idle, memory=memory, why=why, again_in_s=memory.not_before_s - now_s)
        memory = replace(memory, stuck=memory.stuck + 1 if stuck else memory.stuck)
    if function.mode is Mode.SHADOW or memory.assignment is None:
        look_s = next_look_s(function, memory, counted, now_s)
        return replace(idle, memory=memory, why=why, again_in_s=look_s)
    fails = bool(memory.trouble)
    steps = _steps(function, memory.assignment, counted, cluster, settings, fails, least, now_s)
    if not steps.waiting and not stuck:
        # What failed was done all the same (only its answer was lost), or is not wanted any more.
        trouble = memory.trouble if steps.actions else ""
        memory = replace(memory, stuck=0, trouble=trouble)
    gone = [Delete(pod.name, pod.uid, "no node takes it") for pod in counted if pod.uid in stuck]
    again_in_s = min(steps.again_in_s, next_look_s(function, memory, counted, now_s))
    actions = (*gone, *steps.actions)
    return replace(
        idle, memory=memory, actions=actions, waiting=steps.waiting, why=why, again_in_s=again_in_s
    )


def _held_by(unread: Sequence[str]) -> str:
    """What these pods are is not known: a plan without them would replace pods that are there."""
    if not unread:
        return ""
    listed = ", ".join(unread[:_LISTED]) + (" and others" if len(unread) > _LISTED else "")
    return f"{len(unread)} of its pods cannot be read ({listed})"


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


def _ask(
    function: ComboFunc,
    target: int,
    pods: Sequence[FunctionPod],
    memory: Memory,
    cluster: ClusterView,
    ask: Ask,
    settings: Settings,
    least: Mapping[str, float],
    now_s: float,
) -> tuple[Answer | None, Memory]:
    """A plan that holds by now; None: it is not there yet."""

    def question() -> Question:
        shape = shape_of(function)
        lam = settings.price_weight if function.price_weight is None else function.price_weight
        return Question(
            function,
            target,
            shape,
            cluster.planner_nodes(function.template["spec"]),
            containers_of(function, shape, pods, memory.refused, least),
            Weights(lam, settings.price_swing, function.in_place),
            memory.idle_since,
            [pod.name for pod in pods],
            frozenset(p.name for p in pods if p.template != function.template_hash),
            least,
            now_s,
        )

    basis = basis_of(function, target)
    found = ask(basis, question)
    if found is None or found.plan is None or memory.overtaken >= _MOST_OVERTAKEN:
        return found, memory
    containers = containers_of(function, shape_of(function), pods, memory.refused, least)
    if overtaken(found, containers, cluster.room):
        memory = replace(memory, overtaken=memory.overtaken + 1)
        return ask(basis, question), memory
    return found, memory


def _planned(memory: Memory, found: Answer, now_s: float) -> Memory:
    same = memory.basis == found.basis
    wait_s = min(max(2 * memory.wait_s, _FIRST_WAIT_S), _LONGEST_WAIT_S) if same else _FIRST_WAIT_S
    plan, assignment = found.plan, found.assignment
    if plan is None or assignment is None:
        return replace(
            memory, basis=found.basis, assignment=None, failure=found.failure,
            wait_s=wait_s, not_before_s=now_s + wait_s,
        )  # fmt: skip
    better = same and memory.plan is not None and plan.concurrency > memory.plan.concurrency
    wait_s = _FIRST_WAIT_S if better else wait_s
    return replace(
        memory,
        basis=found.basis,
        assignment=assignment,
        plan=plan,
        planned_at_s=found.asked_at_s,
        took_s=found.took_s,
        idle_since=found.idle_since,
        usable=found.usable,
        outdated=found.outdated,
        least_memory=found.least_memory,
        overtaken=0,
        failure="",
        trouble="" if not same else memory.trouble,
        wait_s=wait_s if assignment.short else 0.0,
        not_before_s=now_s + _DEBOUNCE_S,
        short_until_s=now_s + wait_s,
    )


def _steps(
    function: ComboFunc,
    assignment: Assignment,
    pods: Sequence[FunctionPod],
    cluster: ClusterView,
    settings: Settings,
    creations_fail: bool,
    least: Mapping[str, float],
    now_s: float,
) -> Steps:
    shape = shape_of(function)
    names = {new.node for new in assignment.new} | {pod.node or pod.planned_node for pod in pods}
    return next_steps(
        assignment,
        pods,
        function.template_hash,
        function.container,
        least,
        _rooms(names, cluster),
        lambda new: body_of(function, new),
        shape.whole,
        function.drain_s,
        settings.gate_s + function.drain_s,
        creations_fail,
        now_s,
    )
