"""The number of regular instances: Knative's concurrency autoscaler, panic off, and the keepalive. Pure.

Knative (`pkg/autoscaler/scaling/autoscaler.go`, `aggregation/bucketing.go`): the concurrency of each second
is averaged over a stable window; divided by the target, rounded up, and held within the rates of change.

The keepalive is ours (paper, section 6.1.1: how long a regular instance may be idle): the number is not
lowered below what was busy at any time during the last keepalive. With 0 this is Knative's alone.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from surgekit.decision import Decision

__all__ = ["Concurrency", "Parameters", "Scaler"]

_DIGITS = 6  # Knative rounds averages so, which hides what adding and subtracting left


@dataclass(frozen=True, slots=True)
class Parameters:
    concurrency: float = 1.0  # requests that an instance takes at once
    target_share: float = 0.7  # of it that is aimed at (Knative's container-concurrency-target-percentage)
    window_s: float = 60.0  # Knative's stable-window
    keepalive_s: float = 60.0
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

    @property
    def total(self) -> float:
        return self.in_regular + self.queued + self.counted


class Scaler:
    """One function's window. A new one decides nothing until it has heard of the function."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self._seconds: deque[tuple[int, float]] = deque()  # second, sum of what was recorded in it
        self._first = 0  # second of the first record since the window was last empty
        self._busy: deque[tuple[float, float]] = deque()  # time, in regular instances; falling values

    def record(self, seen: Concurrency, now_s: float) -> None:
        second = math.floor(now_s)
        if not self._seconds or second - self._seconds[-1][0] >= self._buckets:
            self._seconds.clear()
            self._first = second
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1] = (second, self._seconds[-1][1] + seen.total)
        else:
            self._seconds.append((second, seen.total))
        self._drop_old(second)
        while self._busy and self._busy[-1][1] <= seen.in_regular:
            self._busy.pop()
        self._busy.append((now_s, seen.in_regular))

    def average(self, now_s: float) -> float | None:
        """Of the stable window; None if nothing was heard for that long."""
        if not self._seconds:
            return None
        last = self._seconds[-1][0]
        silent = max(math.floor(now_s) - last, 0)
        if silent >= self._buckets:
            return 0.0 if silent == self._buckets else None
        begin = max(math.floor(now_s), last) - self._buckets
        total = sum(value for second, value in self._seconds if second > begin)
        seconds = min(last - self._first + 1, self._buckets - silent)
        return round(total / seconds, _DIGITS)

    def decide(self, ready: int, asked: int, now_s: float) -> Decision[int]:
        """The number of regular instances. `ready` of them are there, `asked` is what the scale says now."""
        p, average = self.parameters, self.average(now_s)
        if average is None:
            return Decision(asked, (f"no traffic report in the last {p.window_s:g} s",), valid=False)
        there = max(ready, 1)
        most = math.ceil(p.max_scale_up_rate * there)
        least = math.floor(there / p.max_scale_down_rate)
        wanted = min(max(math.ceil(average / p.target), least), most)
        reasons = [f"{average:.2f} requests at once in the last {p.window_s:g} s, {p.target:g} an instance"]
        kept = min(math.ceil(self._peak(now_s) / p.concurrency), asked)
        if kept > wanted:
            wanted = kept
            reasons.append(f"{kept} were busy at once in the last {p.keepalive_s:g} s (keepalive)")
        bounded = min(max(wanted, p.min_replicas), p.max_replicas)
        if bounded != wanted:
            reasons.append(f"{wanted} is outside {p.min_replicas}..{p.max_replicas}")
        return Decision(bounded, tuple(reasons))

    @property
    def _buckets(self) -> int:
        return max(math.ceil(self.parameters.window_s), 1)

    def _drop_old(self, second: int) -> None:
        while self._seconds[0][0] <= second - self._buckets:
            self._seconds.popleft()

    def _peak(self, now_s: float) -> float:
        """The most that was in regular instances during the last keepalive."""
        while self._busy and self._busy[0][0] <= now_s - self.parameters.keepalive_s:
            self._busy.popleft()
        return self._busy[0][1] if self._busy else 0.0
