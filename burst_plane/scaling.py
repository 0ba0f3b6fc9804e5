"""The number of regular instances: Knative's concurrency autoscaler, panic off, and the keepalive. Pure.

Knative (`pkg/autoscaler/scaling/autoscaler.go`, `aggregation/bucketing.go`): the concurrency of each second
is averaged over a stable window; divided by the target, rounded up, and held within the rates of change.

The keepalive is ours (paper, section 6.1.1: how long a regular instance may be idle): the number is not
lowered below what was busy at any time during the last keepalive. With 0 this is Knative's alone. Where the
emergency track takes what finds no slot, the target gives way to what one more instance is worth (`worth`).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from burst_plane.worth import staffed
from surgekit.decision import Decision

__all__ = ["Concurrency", "Parameters", "Scaler"]

_DIGITS = 6  # Knative rounds averages so, which hides what adding and subtracting left


@dataclass(frozen=True, slots=True)
class Parameters:
    concurrency: float = 1.0  # requests that an instance takes at once
    target_share: float = 0.7  # of it that is aimed at (Knative's container-concurrency-target-percentage)
    window_s: float = 60.0  # Knative's stable-window
    keepalive_s: float = 60.0
    priced: bool = False  # an instance must save an emergency start in each keepalive; else as Knative
    min_replicas: int = 0
    max_replicas: int = 1000
    max_scale_up_rate: float = 1000.0  # Knative's defaults
    max_scale_down_rate: float = 2.0

    @property
    def target(self) -> float:
        return self.concurrency * self.target_share


@dataclass(frozen=True, slots=True)
class Concurrency:
    """One function, in the mean over the step that has just ended."""

    in_regular: float  # in regular instances
    queued: float  # waiting for one: counts unfiltered
    counted: float  # in emergency instances, as far as the filter lets it count
    arrivals: int = 0  # requests, as far as the filter lets them count
    soon: bool = False  # the next one is likely to come while one instance is worth its memory

    @property
    def total(self) -> float:
        return self.in_regular + self.queued + self.counted


class Scaler:
    """One function's window. A new one decides nothing until it has heard of the function."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        # second, sums of what was recorded in it: concurrency, arrivals
        self._seconds: deque[tuple[int, float, int]] = deque()
        self._total, self._arrivals = 0.0, 0  # of these
        self._latest = Concurrency(0.0, 0.0, 0.0)
        self._first = 0  # second of the first record since the window was last empty
        self._busy: deque[tuple[float, float]] = deque()  # time, in regular instances; falling values

    def record(self, seen: Concurrency, now_s: float) -> None:
        self._latest, second = seen, math.floor(now_s)
        if not self._seconds or second - self._seconds[-1][0] >= self._buckets:
            self._seconds.clear()
            self._total, self._arrivals = 0.0, 0
            self._first = second
        if self._seconds and self._seconds[-1][0] == second:
            _, total, arrivals = self._seconds.pop()
            self._seconds.append((second, total + seen.total, arrivals + seen.arrivals))
        else:
            self._seconds.append((second, seen.total, seen.arrivals))
        self._total += seen.total
        self._arrivals += seen.arrivals
        self._drop_old(second)
        while self._busy and self._busy[-1][1] <= seen.in_regular:
            self._busy.pop()
        self._busy.append((now_s, seen.in_regular))

    def average(self, now_s: float) -> float | None:
        """Of the stable window; None if nothing was heard for that long."""
        found = self._averages(now_s)
        return None if found is None else found[0]

    def _averages(self, now_s: float) -> tuple[float, float] | None:
        """Of concurrency, and of arrivals in a second."""
        if not self._seconds:
            return None
        last = self._seconds[-1][0]
        silent = max(math.floor(now_s) - last, 0)
        if silent >= self._buckets:
            return (0.0, 0.0) if silent == self._buckets else None
        begin = max(math.floor(now_s), last) - self._buckets
        total, arrivals = self._total, self._arrivals
        for second, value, number in self._seconds:
            if second > begin:
                break
            total, arrivals = total - value, arrivals - number
        seconds = min(last - self._first + 1, self._buckets - silent)
        return round(total / seconds, _DIGITS), arrivals / seconds

    def decide(self, ready: int, asked: int, now_s: float) -> Decision[int]:
        """The number of regular instances. `ready` of them are there, `asked` is what the scale says now."""
        p, averages = self.parameters, self._averages(now_s)
        if averages is None:
            return Decision(asked, (f"no traffic report in the last {p.window_s:g} s",), valid=False)
        average, arrivals_per_s = averages
        there = max(ready, 1)
        most = math.ceil(p.max_scale_up_rate * there)
        least = math.floor(there / p.max_scale_down_rate)
        seen = f"{average:.2f} requests at once in the last {p.window_s:g} s"
        if p.priced:
            arrivals = arrivals_per_s * p.keepalive_s
            wanted = staffed(average, arrivals, math.ceil(p.concurrency), p.max_replicas)
            reasons = [f"{seen}, {arrivals:.0f} new ones in {p.keepalive_s:.0f} s, one start saved by each"]
        else:
            wanted = math.ceil(average / p.target)
            reasons = [f"{seen}, {p.target:g} an instance"]
        wanted = min(max(wanted, least), most)
        kept = min(math.ceil(self._peak(now_s) / p.concurrency), asked)
        if p.priced and max(wanted, kept) <= 1:
            needed = self._latest.soon or self._latest.in_regular > 0 or self._latest.queued > 0
            wanted = kept = int(needed)
            reasons.append(
                "the next request is likely soon" if needed else "the next request is not likely soon"
            )
        if kept > wanted:
            wanted = kept
            reasons.append(f"{kept} were busy at once in the last {p.keepalive_s:.0f} s (keepalive)")
        bounded = min(max(wanted, p.min_replicas), p.max_replicas)
        if bounded != wanted:
            reasons.append(f"{wanted} is outside {p.min_replicas}..{p.max_replicas}")
        return Decision(bounded, tuple(reasons))

    @property
    def _buckets(self) -> int:
        return max(math.ceil(self.parameters.window_s), 1)

    def _drop_old(self, second: int) -> None:
        while self._seconds[0][0] <= second - self._buckets:
            _, value, arrivals = self._seconds.popleft()
            self._total -= value
            self._arrivals -= arrivals

    def _peak(self, now_s: float) -> float:
        """The most that was in regular instances during the last keepalive."""
        while self._busy and self._busy[0][0] <= now_s - self.parameters.keepalive_s:
            self._busy.popleft()
        return self._busy[0][1] if self._busy else 0.0
