"""Memory that a pod uses is not asked back. Pure; time is an argument.

A kubelet carries out nothing of a resize that would set a memory limit below the use, cpu included, for as
long as it stays so. So a pod is not asked for less memory than it uses and some headroom, where the use is
known: its cpu is lowered alone. Where it was not known, the kubelet says it by refusing; the memory is asked
for again later, less and less often, and then no more.

The pod is then left at the memory it has, not replaced: a new pod with less may run out of memory under the
same load, and what the old one has in memory would be lost. To have it replaced all the same, delete it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from combofunc.pods.pod import FunctionPod, Resizing
from combofunc.pods.resources import Resources
from surgekit.process.back_off import back_off_s

__all__ = [
    "AGAIN_S", "MemoryUse", "Refused", "attainable", "keeps_memory", "least_memory", "noting", "unknown",
    "until_s",
]  # fmt: skip

# Of a namespace: bytes that pods use, by name.
MemoryUse = Callable[[str], Mapping[str, float]]

# Beyond the use. A kubelet counts the page cache in, metrics do not.
_HEADROOM = 1.1
# Between two times that the same pod is asked; the wait doubles. After the last it is left alone.
_FIRST_WAIT_S, _LONGEST_WAIT_S, _TIMES = 300.0, 3600.0, 5
# How often a pod that holds more than its size is looked at: its use may have fallen.
AGAIN_S = 60.0
_MEMORY = (("requests", "memory"), ("limits", "memory"))


def unknown(_namespace: str) -> Mapping[str, float]:
    """Where nothing measures."""
    return {}


@dataclass(frozen=True, slots=True)
class Refused:
    """What a kubelet would not take away."""

    least_bytes: float
    until_s: float
    times: int


def noting(known: Mapping[str, Refused], pods: Iterable[FunctionPod], now_s: float) -> dict[str, Refused]:
    """By pod's uid: what was known of those that are there, and what is refused now."""
    found = {}
    for pod in pods:
        before = known.get(pod.uid)
        if pod.resizing is Resizing.MEMORY_IN_USE and (before is None or before.until_s <= now_s):
            times = before.times + 1 if before else 1
            wait_s = back_off_s(times, _FIRST_WAIT_S, _LONGEST_WAIT_S) if times < _TIMES else math.inf
            least_bytes = pod.memory_used_bytes * _HEADROOM or math.inf
            found[pod.uid] = Refused(least_bytes, now_s + wait_s, times)
        elif before:
            found[pod.uid] = before
    return found


def least_memory(
    known: Mapping[str, Refused], pods: Iterable[FunctionPod], measured: Mapping[str, float], now_s: float
) -> dict[str, float]:
    """By pod's uid: the memory limit below which it is not asked to go. `measured`: use in bytes, by name."""
    found = {uid: refused.least_bytes for uid, refused in known.items() if refused.until_s > now_s}
    for pod in pods:
        if pod.name in measured:
            found[pod.uid] = max(found.get(pod.uid, 0.0), measured[pod.name] * _HEADROOM)
    return found


def until_s(known: Mapping[str, Refused], now_s: float) -> float:
    """When the next may be asked again."""
    return min((refused.until_s for refused in known.values() if refused.until_s > now_s), default=math.inf)


def attainable(pod: FunctionPod, wanted: Resources, least_bytes: float) -> Resources:
    """`wanted`, but with the memory that containers have where less would be in use."""
    found = {}
    for name, amounts in wanted.items():
        has = (pod.has or {}).get(name, {})
        limit, held = amounts.get(("limits", "memory")), has.get(("limits", "memory"))
        lowers = limit is not None and held is not None and limit < held and limit < least_bytes
        found[name] = {**amounts, **{key: has[key] for key in _MEMORY if lowers and key in has}}
    return found


def keeps_memory(pod: FunctionPod, wanted: Resources, least_bytes: float) -> bool:
    """Whether it is not asked for all that is wanted."""
    return pod.live and attainable(pod, wanted, least_bytes) != wanted
