"""Measure tau_u of eq. (6): from a change of a running pod's resources until the node has applied it.

Owned by one thread. Time is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass

from node_speed_probe.model import PodGone, PodSeen, PodsListed, Resources, Sample, Stage

__all__ = ["ResizeTracker"]


@dataclass(slots=True)
class _Pod:
    wanted: Resources
    changed_s: float | None = None


class ResizeTracker:
    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}

    def observe(self, fact: object, now_s: float) -> tuple[str, Sample] | None:
        """The node and the sample, if the fact ends a resize."""
        match fact:
            case PodSeen():
                return self._pod(fact, now_s)
            case PodGone():
                self._pods.pop(fact.uid, None)
            case PodsListed():
                # The watch missed the start or the end of a resize.
                self._pods = {p.uid: _Pod(p.wanted) for p in fact.pods if p.stage is Stage.STARTED}
        return None

    def _pod(self, seen: PodSeen, now_s: float) -> tuple[str, Sample] | None:
        if seen.stage is not Stage.STARTED:
            self._pods.pop(seen.uid, None)
            return None
        pod = self._pods.setdefault(seen.uid, _Pod(seen.wanted))
        if seen.wanted != pod.wanted:
            pod.wanted, pod.changed_s = seen.wanted, now_s
        if pod.changed_s is None:
            return None
        if seen.resize_refused:
            pod.changed_s = None
        elif _follows(seen.actual, seen.wanted):
            began_s, pod.changed_s = pod.changed_s, None
            if now_s > began_s:  # otherwise both changes arrived at once: no time was observed
                return seen.node, Sample(began_s, now_s, now_s - began_s)
        return None


def _follows(actual: Resources, wanted: Resources) -> bool:
    """Whether the node reports every requested amount."""
    reported = {name: amounts for name, *amounts in actual}
    for name, *amounts in wanted:
        has = reported.get(name)
        if has is None or any(w >= 0 and abs(w - h) > 1e-6 * w for w, h in zip(amounts, has, strict=True)):
            return False
    return True
