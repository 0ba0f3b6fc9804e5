"""How a pod becomes another size. The load balancer believes the marks, so that it never sends more than the
container can take: marked after a growth took effect, and before a shrink is asked for."""

from __future__ import annotations

from combofunc.planner.model import Size
from combofunc.pods.actions import Action, Mark, Resize
from combofunc.pods.memory_in_use import attainable
from combofunc.pods.pod import FunctionPod
from combofunc.pods.resources import includes, of_size

__all__ = ["become"]


def become(pod: FunctionPod, size: Size, container: str, least_bytes: float) -> Action | None:
    """The next step; None: it is that size, or what comes next is the node's. `least_bytes`: memory it is not
    asked to give up."""
    wanted = attainable(pod, of_size(size, container), least_bytes)
    marked = pod.size == size.name and pod.concurrency == size.concurrency
    if not marked and (size.concurrency <= pod.concurrency or pod.is_as(wanted)):
        return Mark(pod.name, pod.uid, size.name, size.concurrency)
    if pod.has is not None and not includes(pod.asked, wanted):
        return Resize(pod.name, pod.uid, wanted)
    return None
