"""What a look at a function says in its status. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from combofunc.pods.memory_in_use import keeps_memory
from combofunc.pods.pod import FunctionPod
from combofunc.pods.resources import of_size
from combofunc.reconcile import status
from combofunc.reconcile.decision import Decision
from combofunc.reconcile.spec import ComboFunc

__all__ = ["elsewhere", "keeping_memory", "ready_concurrency", "report", "turned"]

Json = dict[str, Any]
_LISTED = 5


def report(
    function: ComboFunc,
    before: Json,
    decision: Decision,
    pods: Sequence[FunctionPod],
    target: int | None,
    no_data: str,
    now_s: float,
) -> Json:
    """A merge patch's `status`. `pods`: all that count; `before`: the status so far."""
    memory, plan = decision.memory, decision.memory.plan
    ready = ready_concurrency(pods)
    said = [
        status.target_known(function, target, no_data),
        *([memory.usable] if memory.usable else []),
        status.planned(function, plan, memory.failure, held=decision.held, rolling=bool(memory.outdated)),
        status.ready(function, plan, ready, decision.waiting, decision.held or memory.trouble),
        status.resized(keeping_memory(function, pods, decision.least_memory)),
    ]
    if plan and (words := elsewhere(pods)):
        plan = replace(plan, reasons=(*plan.reasons, words))
    there = Counter(pod.size for pod in pods if pod.live and pod.draining_since_s is None)
    serving = Counter(pod.size for pod in pods if pod.serves)
    counts = {size: status.Pods(there[size], serving[size]) for size in there | serving}
    return status.status_of(function, before, target, plan, memory.planned_at_s, counts, ready, said, now_s)


def ready_concurrency(pods: Sequence[FunctionPod]) -> int:
    return sum(pod.concurrency for pod in pods if pod.serves)


def elsewhere(pods: Sequence[FunctionPod]) -> str:
    """Which pods the scheduler bound to another node than planned; empty when none."""
    moved = [p for p in pods if p.live and p.node and p.planned_node and p.node != p.planned_node]
    listed = ", ".join(f"{p.name} planned for {p.planned_node} went to {p.node}" for p in moved[:_LISTED])
    return listed if len(moved) <= _LISTED else f"{listed} and {len(moved) - _LISTED} more"


def keeping_memory(
    function: ComboFunc, pods: Sequence[FunctionPod], least_memory: Mapping[str, float]
) -> str:
    """Which pods keep memory that their size does not have, because they use it; empty when none."""
    sizes = {size.name: of_size(size, function.container) for size in function.sizes}
    kept = [
        pod
        for pod in pods
        if pod.size in sizes and keeps_memory(pod, sizes[pod.size], least_memory.get(pod.uid, 0.0))
    ]
    if not kept:
        return ""
    listed = ", ".join(f"{pod.name} ({pod.size}) on {pod.node}" for pod in kept[:_LISTED])
    more = f" and {len(kept) - _LISTED} more" if len(kept) > _LISTED else ""
    return f"memory in use is not taken away, only cpu: {listed}{more}; asked for again later"


def turned(before: Json, patch: Json) -> bool:
    """Whether a condition has another reason: somebody may wait for that."""
    reasons = [[(c["type"], c["reason"]) for c in of.get("conditions") or ()] for of in (before, patch)]
    return reasons[0] != reasons[1]
