"""Decides whether a function's plan still holds. Pure; time is an argument."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from combofunc.pods.assignment import broken
from combofunc.pods.memory_in_use import RECHECK_S, next_try_s, with_refusals
from combofunc.pods.pod import FunctionPod, Resizing
from combofunc.reconcile.function_state import FunctionState, Observation, basis_of
from combofunc.reconcile.held_target import ends_at_s
from combofunc.settings import Settings
from surgekit.process.modes import Mode

__all__ = ["REFUSED_FOR_S", "next_check_s", "note_refusals", "replan_reason", "stuck_pods"]

# How long a pod is not resized after its resize waited too long, or was refused. The planner only knows
# whether a pod can be resized at all; the kubelet refused one size at one time. That is mostly the same: a
# plan keeps to the node's capacity, so an Infeasible resize is so for every size (static CPU or memory
# manager, or swap). Only after a Deferred growth a shrink would have been granted meanwhile.
_DEFERRED_FOR_S, REFUSED_FOR_S = 60.0, 300.0


def stuck_pods(seen: Observation, state: FunctionState, settings: Settings) -> frozenset[str]:
    """uids of pods that no node took for too long. The time doubles with each plan made for such pods."""
    before_s = seen.now_s - settings.unschedulable_s * 2.0 ** min(state.stuck_plans, 6)
    return frozenset(
        pod.uid
        for pod in seen.pods
        if pod.live and not pod.node and not pod.gated
        if pod.unschedulable_since_s is not None and pod.unschedulable_since_s < before_s
    )


def note_refusals(seen: Observation, state: FunctionState, settings: Settings) -> FunctionState:
    """Remember which resizes kubelets refused or kept waiting, and forget pods that are gone."""
    now_s, uids = seen.now_s, {pod.uid for pod in seen.pods}
    known = {uid: end_s for uid, end_s in state.no_resize_until_s.items() if end_s > now_s and uid in uids}
    waited_since_s = _wait_limit_s(seen, settings)
    for pod in seen.pods:
        waiting = pod.resizing in (Resizing.DEFERRED, Resizing.FAILING)
        if pod.resizing is Resizing.INFEASIBLE:
            known[pod.uid] = now_s + REFUSED_FOR_S
        elif waiting and pod.resizing_since_s < waited_since_s:
            known[pod.uid] = now_s + _DEFERRED_FOR_S
    memory = with_refusals(state.memory_refusals, seen.pods, now_s)
    return replace(state, no_resize_until_s=known, memory_refusals=memory)


def _wait_limit_s(seen: Observation, settings: Settings) -> float:
    """Unix time. A resize that waits since before then has waited too long."""
    return seen.now_s - settings.resize_wait_limit_s - seen.function.drain_s


def replan_reason(
    seen: Observation,
    state: FunctionState,
    stuck: frozenset[str],
    least_memory: Mapping[str, float],
    settings: Settings,
) -> str:
    """Why another plan is needed; empty if the present one holds."""
    function, pods, now_s, assignment = seen.function, seen.pods, seen.now_s, state.assignment
    if assignment is None:
        return "the last plan failed" if state.planner_failure else "there was no plan"
    basis = basis_of(function, state, now_s)
    if state.basis != basis:
        less_held = state.basis[2:] == basis[2:] and state.basis[0] >= basis[0] and function.keep_warm_s
        return "less is kept warm" if less_held else "the spec or the target changed"
    if stuck:
        return "no node took a pod"
    reason = ""
    if function.mode is not Mode.SHADOW:
        current = [pod for pod in pods if pod.template == function.template_hash]
        limit_s = _wait_limit_s(seen, settings)
        reason = broken(assignment, current, function.container, least_memory, limit_s)
        for pod in current:
            more = least_memory.get(pod.uid, 0.0) > state.least_memory.get(pod.uid, 0.0)
            if pod.resizing is Resizing.MEMORY_IN_USE and more:
                reason = reason or f"pod {pod.name} uses more memory than its planned size has"
    if not reason and assignment.short:
        gone = state.outdated_pods - {pod.name for pod in pods}
        reason = "pods of an earlier template have left room" if gone else ""
        if not reason and now_s >= state.retry_short_at_s and not _waits_for_room(pods):
            reason = "the last plan was short and there may be room now"
    return reason


def _waits_for_room(pods: Sequence[FunctionPod]) -> bool:
    """Whether a gated pod waits for others to leave its node.

    Another plan would find both and keep both, again and again. The gate has a time limit, so this ends.
    """
    return any(pod.live and pod.gated for pod in pods)


def next_check_s(seen: Observation, state: FunctionState) -> float:
    """Seconds until time alone may need a new plan: a shortage, a pod without a node, containers kept for
    long enough, or memory that a pod may have given up."""
    now_s = seen.now_s
    short = state.assignment is not None and state.assignment.short and not _waits_for_room(seen.pods)
    waits = [state.retry_short_at_s - now_s] if short else []
    waits += [1.0 for pod in seen.pods if pod.unschedulable_since_s is not None and pod.live]
    waits.append(ends_at_s(state.recent_targets, seen.function.keep_warm_s) - now_s)
    waits += [state.idle_until_s - now_s] if now_s < state.idle_until_s else []
    waits.append(next_try_s(state.memory_refusals, now_s) - now_s)
    waits += [RECHECK_S] if state.least_memory else []
    return max(min(waits, default=math.inf), 0.05)
