"""How the other systems set the number of regular instances, live. Pure.

Each is told what HAProxy counts, several times a second and at once when a request finds no free slot. The
simulation has the same rules in `experiments.pulsenet.baselines`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from burst_plane.scaling import Concurrency, Parameters, Scaler
from surgekit.haproxy.traffic import FunctionTraffic

__all__ = ["Asynchronous", "Policy", "Synchronous"]

_LEAST = 0.001  # looks miss short requests; each counts at least so much, as with the placement
_SECOND_S, _DECIDE_S = 1.0, 2.0  # Knative's autoscaler reads each second, and decides each two


class Policy(Protocol):
    """One function."""

    def look(self, seen: FunctionTraffic, asked: int, missed: bool, now_s: float) -> int:
        """The number of instances wanted; `asked` is what was wanted before."""


class Asynchronous:
    """Knative's concurrency autoscaler, panic off. From zero, the activator makes it decide at once."""

    def __init__(self, window_s: float = 60.0) -> None:
        self._scaler = Scaler(Parameters(window_s=window_s, keepalive_s=0.0))
        self._looks: list[tuple[float, float]] = []
        self._recorded_s = self._decided_s = 0.0
        self._arrivals: int | None = None  # at the last record

    def look(self, seen: FunctionTraffic, asked: int, missed: bool, now_s: float) -> int:
        self._looks.append((seen.in_pods, seen.waiting))
        if missed and not asked:
            self._scaler.record(Concurrency(0.0, 1.0, 0.0), now_s)
            self._decided_s = 0.0
        if now_s - self._recorded_s >= _SECOND_S:
            self._recorded_s = now_s
            busy, queued = (sum(column) / len(self._looks) for column in zip(*self._looks, strict=True))
            self._looks.clear()
            came = seen.arrivals - (seen.arrivals if self._arrivals is None else self._arrivals)
            self._arrivals, busy = seen.arrivals, max(busy, _LEAST * came)
            # Pods report, and the activator does for requests; nobody reports a function that has neither.
            if seen.pods or busy or queued:
                self._scaler.record(Concurrency(busy, queued, 0.0), now_s)
        if now_s - self._decided_s < _DECIDE_S:
            return asked
        self._decided_s = now_s
        decision = self._scaler.decide(seen.pods, asked, now_s)
        return decision.action if decision.valid else asked


class Synchronous:
    """An instance for each request that finds none; what was needed in the last keepalive stays."""

    def __init__(self, keepalive_s: float = 600.0, before: Sequence[tuple[float, int]] = ()) -> None:
        """`before`: when how many were needed, in order."""
        self._keepalive_s = keepalive_s
        self._needed: deque[tuple[float, int]] = deque()  # falling numbers
        self._arrivals = 0
        for at_s, needed in before:
            self._note(at_s, needed)

    def look(self, seen: FunctionTraffic, asked: int, missed: bool, now_s: float) -> int:  # noqa: ARG002
        came, self._arrivals = seen.arrivals > self._arrivals, seen.arrivals
        self._note(now_s, max(seen.in_pods + seen.waiting, int(came)))
        while self._needed[0][0] <= now_s - self._keepalive_s:
            self._needed.popleft()
        return self._needed[0][1]

    def _note(self, at_s: float, needed: int) -> None:
        while self._needed and self._needed[-1][1] <= needed:
            self._needed.pop()
        self._needed.append((at_s, needed))
