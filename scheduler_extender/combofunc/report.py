"""What a look at a function says in its status. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scheduler_extender.combofunc import status
from scheduler_extender.combofunc.decision import Decision
from scheduler_extender.combofunc.spec import ComboFunc
from scheduler_extender.function_pods.pod import FunctionPod

__all__ = ["elsewhere", "ready_concurrency", "report", "turned"]

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
        status.planned(function, plan, memory.failure, rolling=bool(memory.outdated)),
        status.ready(function, plan, ready, decision.waiting, memory.trouble),
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


def turned(before: Json, patch: Json) -> bool:
    """Whether a condition has another reason: somebody may wait for that."""
    reasons = [[(c["type"], c["reason"]) for c in of.get("conditions") or ()] for of in (before, patch)]
    return reasons[0] != reasons[1]
