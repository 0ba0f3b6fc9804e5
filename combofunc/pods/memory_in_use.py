"""Keeps pods from being shrunk below the memory they use. Pure; time is an argument.

If a resize sets a memory limit below the use, the kubelet carries out no part of it, not even the cpu. So if
the use is known, only the cpu is lowered and the pod keeps its memory, with some headroom. If the use is not
known, the kubelet refuses; then the shrink is tried again later, less and less often, and finally given up.

Such a pod keeps its memory and is not replaced: a new pod with less may run out of memory under the same
load, and the old pod's data in memory would be lost. To replace it anyway, delete it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from combofunc.pods.pod import FunctionPod, Resizing
from combofunc.pods.resources import Resources
from surgekit.process.back_off import back_off_s

__all__ = [
    "RECHECK_S", "MemoryUse", "Refused", "attainable", "keeps_memory", "least_memory", "next_try_s",
    "unknown", "with_refusals",
]  # fmt: skip

# For a namespace: bytes in use, by name of pod.
MemoryUse = Callable[[str], Mapping[str, float]]

# Times the use. A kubelet counts the page cache, metrics do not.
_HEADROOM = 1.1
# Time between two tries with the same pod; it doubles. After the last try the pod is left alone.
_FIRST_WAIT_S, _LONGEST_WAIT_S, _TIMES = 300.0, 3600.0, 5
# How often to check a pod that holds more than its size: its use may have fallen.
RECHECK_S = 60.0
_MEMORY = (("requests", "memory"), ("limits", "memory"))


def unknown(_namespace: str) -> Mapping[str, float]:
    """No pod's memory use is known."""
    return {}


@dataclass(frozen=True, slots=True)
class Refused:
    """A shrink that the kubelet refused because the memory is in use."""

    least_bytes: float  # do not shrink below this
    until_s: float  # before this time
    times: int  # that it was refused


def with_refusals(
    known: Mapping[str, Refused], pods: Iterable[FunctionPod], now_s: float
) -> dict[str, Refused]:
    """Refusals by pod's uid: those known, without pods that are gone, and new ones.

    A refusal is new if the last wait is over, or if more is in use than the last one said: the pod was asked
    for a size that was large enough then.
    """
    found = {}
    for pod in pods:
        before = known.get(pod.uid)
        least_bytes = pod.memory_used_bytes * _HEADROOM or math.inf
        new = before is None or before.until_s <= now_s or before.least_bytes < least_bytes
        if pod.resizing is Resizing.MEMORY_IN_USE and new:
            times = before.times + 1 if before else 1
            wait_s = back_off_s(times, _FIRST_WAIT_S, _LONGEST_WAIT_S) if times < _TIMES else math.inf
            found[pod.uid] = Refused(least_bytes, now_s + wait_s, times)
        elif before:
            found[pod.uid] = before
    return found


def least_memory(
    known: Mapping[str, Refused], pods: Iterable[FunctionPod], measured: Mapping[str, float], now_s: float
) -> dict[str, float]:
    """Pod's uid -> bytes that it is not shrunk below. `measured`: bytes in use, by name of pod."""
    found = {uid: refused.least_bytes for uid, refused in known.items() if refused.until_s > now_s}
    for pod in pods:
        if pod.name in measured:
            found[pod.uid] = max(found.get(pod.uid, 0.0), measured[pod.name] * _HEADROOM)
    return found


def next_try_s(known: Mapping[str, Refused], now_s: float) -> float:
    """When the next pod may be tried again."""
    return min((refused.until_s for refused in known.values() if refused.until_s > now_s), default=math.inf)


def attainable(pod: FunctionPod, wanted: Resources, least_bytes: float) -> Resources:
    """`wanted`, except that containers keep their memory if the wanted limit is below `least_bytes`."""
    found = {}
    for name, amounts in wanted.items():
        has = (pod.has or {}).get(name, {})
        limit, held = amounts.get(("limits", "memory")), has.get(("limits", "memory"))
        lowers = limit is not None and held is not None and limit < held and limit < least_bytes
        found[name] = {**amounts, **{key: has[key] for key in _MEMORY if lowers and key in has}}
    return found


def keeps_memory(pod: FunctionPod, wanted: Resources, least_bytes: float) -> bool:
    """Whether the pod keeps more memory than `wanted`."""
    return pod.live and attainable(pod, wanted, least_bytes) != wanted
