"""How a pod leaves: no new requests (`Drain`), time for those it has, then `Delete`."""

from __future__ import annotations

from combofunc.pods.actions import Action, Delete, Drain
from combofunc.pods.pod import FunctionPod

__all__ = ["leave", "left_s"]


def leave(pod: FunctionPod, drain_s: float, now_s: float, why: str) -> Action | None:
    """The next step of a pod that is to go; None: there is time left, or it is going already."""
    if pod.deleting:
        return None
    if pod.finished or not pod.ready or drain_s <= 0:
        return Delete(pod.name, pod.uid, why)
    if pod.draining_since_s is None:
        return Drain(pod.name, pod.uid, now_s)
    return Delete(pod.name, pod.uid, why) if left_s(pod, drain_s, now_s) <= 0 else None


def left_s(pod: FunctionPod, drain_s: float, now_s: float) -> float:
    """Of the time it has to finish what it serves."""
    if pod.draining_since_s is None:
        return drain_s
    # A clock that was set back must not keep it for longer than that.
    return min(pod.draining_since_s + drain_s - now_s, drain_s)
