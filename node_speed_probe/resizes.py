"""Measure tau_u of eq. (6): from a change of a running pod's resources until the node has applied it.

Resizes on one node slow each other down. A virtual clock per node takes that out, as for creations.

Owned by one thread. Time is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster_model.contention import Sharing
from node_speed_probe.model import PodGone, PodSeen, PodsListed, Resources, Sample, Stage
from node_speed_probe.sharing import VirtualClock

__all__ = ["ResizeTracker"]

# A resize that takes longer waits (the kubelet retries what failed), so it slows nobody down.
_HUNG_AFTER_S = 10.0


@dataclass(frozen=True, slots=True)
class _Resize:
    node: str
    began_s: float
    mark_s: float  # the node's virtual time then


class ResizeTracker:
    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._wanted: dict[str, Resources] = {}  # running pods, by uid
        self._resizes: dict[str, _Resize] = {}  # in progress, by the pod's uid, in order of their start
        self._clocks: dict[str, VirtualClock] = {}  # by node, while a resize is in progress

    def observe(self, fact: object, now_s: float) -> tuple[str, Sample] | None:
        """The node and the sample, if the fact ends a resize."""
        match fact:
            case PodSeen():
                return self._pod(fact, now_s)
            case PodGone():
                self._forget(fact.uid, now_s)
            case PodsListed():
                # The watch missed the start or the end of a resize.
                self._resizes, self._clocks = {}, {}
                self._wanted = {p.uid: p.wanted for p in fact.pods if p.stage is Stage.STARTED}
        return None

    def _pod(self, seen: PodSeen, now_s: float) -> tuple[str, Sample] | None:
        if seen.stage is not Stage.STARTED:
            self._forget(seen.uid, now_s)
            return None
        self._give_up_hung(now_s)
        if self._wanted.setdefault(seen.uid, seen.wanted) != seen.wanted:
            self._wanted[seen.uid] = seen.wanted
            self._end(seen.uid, now_s)
            self._begin(seen, now_s)
        if seen.resize_refused:
            self._end(seen.uid, now_s)
        elif _follows(seen.actual, seen.wanted) and (sample := self._end(seen.uid, now_s)):
            return seen.node, sample
        return None

    def _begin(self, seen: PodSeen, now_s: float) -> None:
        clock = self._clocks.setdefault(seen.node, VirtualClock(self._sharing.slowdown, now_s))
        clock.advance(now_s)
        clock.members += 1
        self._resizes[seen.uid] = _Resize(seen.node, now_s, clock.value_s)

    def _end(self, uid: str, now_s: float) -> Sample | None:
        """The sample; None if no resize was in progress, or its begin and end arrived at once."""
        resize = self._resizes.pop(uid, None)
        if resize is None:
            return None
        clock = self._clocks[resize.node]
        clock.advance(now_s)
        clock.members -= 1
        if not clock.members:
            del self._clocks[resize.node]
        tau_s = clock.value_s - resize.mark_s
        return Sample(resize.began_s, now_s, tau_s) if tau_s > 0 else None

    def _give_up_hung(self, now_s: float) -> None:
        hung = []
        for uid, resize in self._resizes.items():
            if now_s - resize.began_s <= _HUNG_AFTER_S:
                break
            hung.append(uid)
        for uid in hung:
            self._end(uid, now_s)

    def _forget(self, uid: str, now_s: float) -> None:
        self._wanted.pop(uid, None)
        self._end(uid, now_s)


def _follows(actual: Resources, wanted: Resources) -> bool:
    """Whether the node reports every requested amount."""
    reported = {name: amounts for name, *amounts in actual}
    for name, *amounts in wanted:
        has = reported.get(name)
        if has is None or any(w >= 0 and abs(w - h) > 1e-6 * w for w, h in zip(amounts, has, strict=True)):
            return False
    return True
