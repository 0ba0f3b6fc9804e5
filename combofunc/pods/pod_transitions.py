"""The next step of one pod that is to leave, or to change its size. Pure; time is an argument.

A pod leaves in three steps: no new requests (`Drain`), time to finish those it has, then `Delete`.

The load balancer trusts a pod's labels and must never send more than the container can take. So a pod is
labelled after a growth took effect, and before a shrink is requested.
"""

from __future__ import annotations

from combofunc.planner.model import Size
from combofunc.pods.actions import Action, Delete, Drain, Mark, Resize
from combofunc.pods.memory_in_use import attainable
from combofunc.pods.pod import FunctionPod
from combofunc.pods.resources import includes, of_size

__all__ = ["drain_left_s", "remove_step", "resize_step"]


def remove_step(pod: FunctionPod, drain_s: float, now_s: float, why: str) -> Action | None:
    """The next step to remove a pod; None while it drains or is being deleted."""
    if pod.deleting:
        return None
    if pod.finished or not pod.ready or drain_s <= 0:
        return Delete(pod.name, pod.uid, why)
    if pod.draining_since_s is None:
        return Drain(pod.name, pod.uid, now_s)
    return Delete(pod.name, pod.uid, why) if drain_left_s(pod, drain_s, now_s) <= 0 else None


def drain_left_s(pod: FunctionPod, drain_s: float, now_s: float) -> float:
    """Seconds it still has to finish its requests."""
    if pod.draining_since_s is None:
        return drain_s
    # If the clock was set back, do not wait longer than drain_s.
    return min(pod.draining_since_s + drain_s - now_s, drain_s)


def resize_step(pod: FunctionPod, size: Size, container: str, least_bytes: float) -> Action | None:
    """The next step to give a pod this size; None if it has it, or if the kubelet acts next.

    `least_bytes`: memory that the pod is not asked to give up.
    """
    wanted = attainable(pod, of_size(size, container), least_bytes)
    labelled = pod.size == size.name and pod.concurrency == size.concurrency
    if not labelled and (size.concurrency <= pod.concurrency or pod.is_as(wanted)):
        return Mark(pod.name, pod.uid, size.name, size.concurrency)
    if pod.has is not None and not includes(pod.asked, wanted):
        return Resize(pod.name, pod.uid, wanted)
    return None
