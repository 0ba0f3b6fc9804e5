"""The status of a function after a reconcile. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from combofunc.pods.memory_in_use import keeps_memory
from combofunc.pods.pod import FunctionPod
from combofunc.pods.resources import of_size
from combofunc.reconcile import status
from combofunc.reconcile.decision import FunctionUpdate
from combofunc.reconcile.function_state import FunctionState, Observation
from combofunc.reconcile.held_target import held_target
from combofunc.reconcile.spec import ComboFunc
from surgekit.decision import Decision

__all__ = ["memory_note", "moved_note", "ready_concurrency", "reason_changed", "report", "warm_note"]

Json = dict[str, Any]
_LISTED = 5


def report(seen: Observation, before: Json, decision: Decision[FunctionUpdate], no_data: str) -> Json:
    """The `status` of a merge patch. `before`: the status so far. `no_data`: why there is no target."""
    function, pods, update = seen.function, seen.pods, decision.action
    state, ready = update.state, ready_concurrency(seen.pods)
    plan, rolling = state.plan, bool(state.outdated_pods)
    demand = (update.awaiting_nodes, update.node_demand)
    unreadable = decision.reasons[0] if seen.unreadable_pods else ""
    said = [
        status.target_known(function, seen.target, no_data),
        *([state.sizes_usable] if state.sizes_usable else []),
        status.planned(function, plan, state.planner_failure, unreadable, rolling, demand),
        status.ready(function, plan, ready, update.waiting, unreadable or state.api_failure),
        status.resized(memory_note(function, pods, update.least_memory)),
    ]
    if plan:
        notes = (warm_note(seen, state), moved_note(pods))
        plan = replace(plan, reasons=(*plan.reasons, *filter(None, notes)))
    there = Counter(pod.size for pod in pods if pod.live and pod.draining_since_s is None)
    serving = Counter(pod.size for pod in pods if pod.serves)
    return status.status_of(
        function,
        before,
        status.Facts(
            target=seen.target,
            plan=plan,
            planned_at_s=state.planned_at_s,
            pods={size: status.Pods(there[size], serving[size]) for size in there | serving},
            ready_concurrency=ready,
        ),
        said,
        seen.now_s,
    )


def ready_concurrency(pods: Sequence[FunctionPod]) -> int:
    return sum(pod.concurrency for pod in pods if pod.serves)


def warm_note(seen: Observation, state: FunctionState) -> str:
    """Says how much is kept for a target that was higher; empty if nothing is. Plans name idle containers."""
    recent, target = state.recent_targets, seen.target
    if target is None or not recent or held_target(recent) <= target:
        return ""
    return f"kept warm: concurrency {held_target(recent)}, for {seen.function.keep_warm_s:g} s"


def moved_note(pods: Sequence[FunctionPod]) -> str:
    """Names the pods that the scheduler bound to another node than planned; empty if there are none."""
    moved = [p for p in pods if p.live and p.node and p.planned_node and p.node != p.planned_node]
    listed = ", ".join(f"{p.name} planned for {p.planned_node} went to {p.node}" for p in moved[:_LISTED])
    return listed if len(moved) <= _LISTED else f"{listed} and {len(moved) - _LISTED} more"


def memory_note(function: ComboFunc, pods: Sequence[FunctionPod], least_memory: Mapping[str, float]) -> str:
    """Names the pods that use, and so keep, more memory than their size has; empty if there are none."""
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
    return f"pods keep memory that they use and give up only cpu: {listed}{more}; tried again later"


def reason_changed(before: Json, patch: Json) -> bool:
    """Whether a condition has another reason. Somebody may wait for that, so it is written at once."""
    reasons = [[(c["type"], c["reason"]) for c in of.get("conditions") or ()] for of in (before, patch)]
    return reasons[0] != reasons[1]
