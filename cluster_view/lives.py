"""When pods were created and became Ready, as well as that is known. Pure.

The API server's stamps have whole seconds, so arrivals at the watch count where both were seen.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from cluster_view.facts import PodFacts

__all__ = ["Lives"]

_SEEN_AT_ONCE_S = 1.5  # stamps have whole seconds: such a young pod was seen from its beginning
_STARTS_S = 60.0
_MOST_STARTS = 100_000


@dataclass(slots=True)
class _Life:
    created_s: float  # the API server's
    began_s: float
    ready_after_s: float | None = None


class Lives:
    def __init__(self) -> None:
        self._lives: dict[str, _Life] = {}
        self._starts: deque[float] = deque(maxlen=_MOST_STARTS)

    def see(self, pod: PodFacts, at_s: float, counts: bool) -> None:
        """The pod as it arrived. If it `counts` and became Ready in sight, it has started."""
        life = self._lives.get(pod.key)
        if life is None or life.created_s != pod.created_s:
            seen_at_once = at_s - pod.created_s < _SEEN_AT_ONCE_S
            life = self._lives[pod.key] = _Life(pod.created_s, at_s if seen_at_once else pod.created_s)
            if pod.ready_s is not None:
                life.ready_after_s = max(pod.ready_s - pod.created_s, 0.0)
        elif pod.ready_s is not None and life.ready_after_s is None:
            life.ready_after_s = max(at_s - life.began_s, 0.0)
            if counts:
                self._starts.append(at_s)

    def end(self, key: str) -> None:
        self._lives.pop(key, None)

    def ready_after_s(self, key: str) -> float | None:
        life = self._lives.get(key)
        return None if life is None else life.ready_after_s

    def starts(self, at_s: float) -> int:
        """Those of the last minute."""
        while self._starts and self._starts[0] <= at_s - _STARTS_S:
            self._starts.popleft()
        return len(self._starts)
