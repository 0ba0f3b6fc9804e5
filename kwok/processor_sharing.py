"""Jobs that share one server. Pure: time is an argument."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["ProcessorSharing"]

# Jobs that entered together leave together: their remaining work differs by rounding only.
_ROUNDING = 1e-9


class ProcessorSharing:
    """Jobs that share one server whose speed changes over time.

    `tau_s(t)` is the time one unit of work takes alone, constant up to `next_change_s(t)`. The first
    `latency` of a job's work passes at full speed and slows nobody down. Of the jobs beyond that, up to
    `side_by_side` run at full speed; more share it.
    """

    def __init__(
        self,
        tau_s: Callable[[float], float],
        next_change_s: Callable[[float], float] = lambda _: math.inf,
        side_by_side: float = 1.0,
        latency: float = 0.0,
    ) -> None:
        self._tau_s, self._next_change_s = tau_s, next_change_s
        self._side_by_side, self._latency = side_by_side, latency
        self._latent: dict[str, tuple[float, float]] = {}  # job -> latency left, work after it
        self._sharing: dict[str, float] = {}  # job -> work left
        self._now_s = -math.inf

    def __len__(self) -> int:
        return len(self._latent) + len(self._sharing)

    def __contains__(self, job: str) -> bool:
        return job in self._latent or job in self._sharing

    def add(self, job: str, work: float, now_s: float) -> list[tuple[float, str]]:
        """Add `job`, or start it over; the (time, job) completions up to now."""
        done = self.remove(job, now_s)
        latency = self._latency * work
        if latency > 0:
            self._latent[job] = latency, work - latency
        else:
            self._sharing[job] = work
        return done

    def remove(self, job: str, now_s: float) -> list[tuple[float, str]]:
        """Remove `job` unfinished; the completions up to now."""
        done = self.advance(now_s)
        self._latent.pop(job, None)
        self._sharing.pop(job, None)
        return done

    def next_step_s(self) -> float:
        """When the next job completes or ends its latency if no job is added; infinite without jobs."""
        if not len(self):
            return math.inf
        now_s, units = self._now_s, self._next_step()
        while (end_s := now_s + units * self._tau_s(now_s)) > (change_s := self._next_change_s(now_s)):
            units -= (change_s - now_s) / self._tau_s(now_s)
            now_s = change_s
        return end_s

    def advance(self, now_s: float) -> list[tuple[float, str]]:
        """Advance the time; the (time, job) completions on the way, in order."""
        done: list[tuple[float, str]] = []
        while len(self) and (end_s := self.next_step_s()) <= now_s:
            self._progress(self._next_step())
            for job in [job for job, (left, _) in self._latent.items() if left <= _ROUNDING]:
                self._sharing[job] = self._latent.pop(job)[1]
            for job in [job for job, work in self._sharing.items() if work <= _ROUNDING]:
                del self._sharing[job]
                done.append((end_s, job))
            self._now_s = end_s
        self._pass(max(now_s, self._now_s))
        return done

    def _slowdown(self) -> float:
        return max(1.0, len(self._sharing) / self._side_by_side)

    def _next_step(self) -> float:
        """Units of time until a job completes or ends its latency."""
        work = min(self._sharing.values(), default=math.inf) * self._slowdown()
        return min(work, *(left for left, _ in self._latent.values())) if self._latent else work

    def _progress(self, units: float) -> None:
        share = units / self._slowdown()
        self._sharing = {job: max(0.0, work - share) for job, work in self._sharing.items()}
        if self._latent:
            self._latent = {job: (max(0.0, left - units), w) for job, (left, w) in self._latent.items()}

    def _pass(self, until_s: float) -> None:
        """Progress through a stretch in which no job completes or ends its latency."""
        while len(self) and self._now_s < until_s:
            stop_s = min(until_s, self._next_change_s(self._now_s))
            self._progress((stop_s - self._now_s) / self._tau_s(self._now_s))
            self._now_s = stop_s
        self._now_s = until_s
