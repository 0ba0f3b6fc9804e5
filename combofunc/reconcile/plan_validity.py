"""What is remembered of a function's plan, and whether the plan still stands. Pure; time is an argument."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from combofunc.planner.model import Plan
from combofunc.pods.assignment import Assignment, broken
from combofunc.pods.memory_in_use import AGAIN_S, Refused, noting, until_s
from combofunc.pods.pod import FunctionPod, Resizing
from combofunc.reconcile.spec import ComboFunc
from combofunc.settings import Settings
from surgekit.kube.conditions import Condition
from surgekit.process.modes import Mode

__all__ = [
    "REFUSED_FOR_S",
    "Memory",
    "basis_of",
    "next_look_s",
    "noting_refusals",
    "stuck_pods",
    "why_another",
]

# How long a pod whose resize waited too long, or was refused, is not asked again. To a planner a pod can be
# resized or not, while what was refused was one size at one time. Mostly that is right: a plan keeps to the
# node's capacity, so what is Infeasible is so for every size (a kubelet with static CPU or memory manager, or
# swap); only of a Deferred growth a shrink would be granted meanwhile.
_DEFERRED_FOR_S, REFUSED_FOR_S = 60.0, 300.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one function in a term. All of it can be lost: then a plan is made from what there is."""

    basis: tuple[Any, ...] = ()  # what the plan was made for
    assignment: Assignment | None = None
    plan: Plan | None = None
    planned_at_s: float = 0.0
    took_s: float = 0.0  # to plan
    overtaken: int = 0  # plans in a row that came too late
    usable: Condition | None = None
    outdated: frozenset[str] = frozenset()  # pods of earlier templates at that time
    refused: Mapping[str, float] = field(default_factory=dict)  # pod's uid -> not resized until then
    in_use: Mapping[str, Refused] = field(default_factory=dict)  # pod's uid -> memory it would not give up
    least_memory: Mapping[str, float] = field(default_factory=dict)  # the plan's, by pod's uid
    failure: str = ""  # the planner's
    trouble: str = ""  # the API server's
    wait_s: float = 0.0  # before what failed, or fell short, is tried again; doubles
    not_before_s: float = 0.0  # of another plan for the same basis
    short_until_s: float = 0.0  # when there may be room for what was short
    idle_since: Mapping[str, float] = field(default_factory=dict)  # pods that are only kept warm
    stuck: int = 0  # plans in a row for pods that found no node


def basis_of(function: ComboFunc, target: int) -> tuple[Any, ...]:
    replicas = tuple(sorted((function.replicas or {}).items()))
    return (
        *(target, replicas, function.sizes, function.template_hash, function.container),
        *(function.in_place, function.price_weight, function.mode),
    )


def stuck_pods(
    pods: Sequence[FunctionPod], memory: Memory, settings: Settings, now_s: float
) -> frozenset[str]:
    before_s = now_s - settings.unschedulable_s * 2.0 ** min(memory.stuck, 6)
    return frozenset(
        pod.uid
        for pod in pods
        if pod.live and not pod.node and not pod.gated
        if pod.unschedulable_since_s is not None and pod.unschedulable_since_s < before_s
    )


def noting_refusals(
    memory: Memory, pods: Sequence[FunctionPod], function: ComboFunc, settings: Settings, now_s: float
) -> Memory:
    uids = {pod.uid for pod in pods}
    known = {uid: until_s for uid, until_s in memory.refused.items() if until_s > now_s and uid in uids}
    for pod in pods:
        if pod.resizing is Resizing.INFEASIBLE:
            known[pod.uid] = now_s + REFUSED_FOR_S
        elif pod.resizing in (
            Resizing.DEFERRED,
            Resizing.FAILING,
        ) and pod.resizing_since_s < _deferred_before_s(function, settings, now_s):
            known[pod.uid] = now_s + _DEFERRED_FOR_S
    return replace(memory, refused=known, in_use=noting(memory.in_use, pods, now_s))


def _deferred_before_s(function: ComboFunc, settings: Settings, now_s: float) -> float:
    return now_s - settings.deferred_s - function.drain_s


def why_another(
    function: ComboFunc,
    target: int,
    pods: Sequence[FunctionPod],
    memory: Memory,
    stuck: frozenset[str],
    least_memory: Mapping[str, float],
    now_s: float,
    settings: Settings,
) -> str:
    """Why there must be another plan; empty: the one there is stands."""
    assignment = memory.assignment
    gone = memory.outdated - {pod.name for pod in pods}
    if assignment is None:
        return "the last one failed" if memory.failure else "there was none"
    if memory.basis != basis_of(function, target):
        return "the spec or the target changed"
    if stuck:
        return "a pod found no node"
    reason = ""
    if function.mode is not Mode.SHADOW:
        current = [pod for pod in pods if pod.template == function.template_hash]
        deferred_before_s = _deferred_before_s(function, settings, now_s)
        reason = broken(assignment, current, function.container, least_memory, deferred_before_s)
        for pod in current:
            new = least_memory.get(pod.uid, 0.0) > memory.least_memory.get(pod.uid, 0.0)
            if pod.resizing is Resizing.MEMORY_IN_USE and new:
                reason = reason or f"pod {pod.name} uses more memory than it was to have"
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


def _makes_room(pods: Sequence[FunctionPod]) -> bool:
    """Whether a pod is held back until others have left its node. Another plan would find both there and keep
    both, again and again; the gate comes off in time, whatever becomes of it."""
    return any(pod.live and pod.gated for pod in pods)


def next_look_s(function: ComboFunc, memory: Memory, pods: Sequence[FunctionPod], now_s: float) -> float:
    """Besides what the steps wait for: a shortage, a pod that finds no node, one that is kept warm, memory
    that may be given up by now."""
    short = memory.assignment is not None and memory.assignment.short and not _makes_room(pods)
    waits = [memory.short_until_s - now_s] if short else []
    waits += [1.0 for pod in pods if pod.unschedulable_since_s is not None and pod.live]
    waits.append(_warm_until_s(function, memory) - now_s)
    waits.append(until_s(memory.in_use, now_s) - now_s)
    waits += [AGAIN_S] if memory.least_memory else []
    return max(min(waits, default=math.inf), 0.05)
