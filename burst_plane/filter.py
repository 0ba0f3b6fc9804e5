"""Decides which excess invocations count toward regular scaling (paper, section 4.5.2). Pure.

An invocation that an emergency instance serves counts only if the function's keepalive is longer than a
percentile of its inter-arrival times (IATs) over the last hour: then a regular instance that it would cause
is likely to be used again before it is removed.

Arrivals are known as counts per step of a second, so each IAT is known with an error below one step, and so
is every percentile: |sketched - true| < step. A minute of steps holds IATs of at most 60 s in all (besides
one long one), thus at most 12 different ones: an hour of any function is at most 61 * 12 counters.

Where regular instances are priced (`worth`), `soon` decides about a function's only one by the same IATs.

Without history, that is without two arrivals in the last hour, nothing counts: the emergency track serves a
rare function at no lasting cost, and if it comes again, that arrival makes the first IAT.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable

__all__ = ["HOUR_S", "STEP_S", "InterArrivals", "counts", "soon"]

HOUR_S = 3600.0  # "over the preceding hour"
STEP_S = 1.0
_SLOT_S = 60.0  # IATs are forgotten by the minute in which they ended
_MOST_KEPT = 64  # different IATs in a saved history
_AHEAD_S = 20.0  # an instance that is created or kept stays at least about so long
_LEAST_IATS = 3  # from which on anything is expected


def counts(history: InterArrivals, keepalive_s: float, percentile: float, now_s: float) -> bool:
    """Whether an excess invocation that arrives now counts toward regular scaling."""
    typical_s = history.percentile_s(percentile, now_s)
    return typical_s is not None and keepalive_s > typical_s


def soon(history: InterArrivals, worth_s: float, now_s: float) -> bool:
    """Whether an instance that is there now is likely to be used before it has cost more than it saves.

    Of the IATs that are longer than what has passed since the last arrival, some end in the next seconds. An
    instance that is there for these seconds, or until the request, saves a start with that probability; one
    start is worth `worth_s` of the instance's time. So an instance waits where requests follow each other
    closely, goes when they stop, and is there again when a timer is due."""
    since_s = history.since_last_s(now_s)
    if since_s is None:
        return False
    waits = [(iat_s - since_s, number) for iat_s, number in history.items() if iat_s >= since_s]
    if not waits or history.count < _LEAST_IATS:
        return False
    saved = sum(number for wait_s, number in waits if wait_s <= _AHEAD_S)
    spent_s = sum(number * min(wait_s, _AHEAD_S) for wait_s, number in waits)
    return saved * worth_s > spent_s


class InterArrivals:
    """The IATs of one function over the last hour, in bounded memory."""

    def __init__(self, step_s: float = STEP_S, window_s: float = HOUR_S) -> None:
        self._step_s, self._window_s = step_s, window_s
        self._slots: deque[tuple[int, Counter[int]]] = deque()  # minute, IATs in steps that ended in it
        self._total: Counter[int] = Counter()
        self._last: int | None = None  # step of the latest arrival

    def observe(self, arrivals: int, now_s: float) -> None:
        """Note that this many requests arrived in the step that ends now. Steps come in their order."""
        self._forget(now_s)
        if arrivals <= 0:
            return
        step = math.floor(now_s / self._step_s)
        slot = self._slot(now_s)
        if self._last is not None:
            self._add(slot, max(step - self._last, 0), 1)
        if arrivals > 1:
            self._add(slot, 0, arrivals - 1)
        self._last = max(step, self._last) if self._last is not None else step

    def percentile_s(self, percentile: float, now_s: float) -> float | None:
        """The smallest IAT that at least so many percent do not exceed; None without history."""
        self._forget(now_s)
        count = self.count
        if not count:
            return None
        rank, seen = max(math.ceil(percentile * count / 100.0), 1), 0
        for steps in sorted(self._total):
            seen += self._total[steps]
            if seen >= rank:
                return steps * self._step_s
        return None

    def since_last_s(self, now_s: float) -> float | None:
        """Since the latest arrival; None if no IAT can begin with it."""
        self._forget(now_s)
        return None if self._last is None else max(now_s - self._last * self._step_s, 0.0)

    def items(self) -> Iterable[tuple[float, int]]:
        """(IAT, how often)."""
        return ((steps * self._step_s, number) for steps, number in self._total.items())

    @property
    def count(self) -> int:
        """The number of IATs."""
        return self._total.total()

    @property
    def size(self) -> int:
        """The number of counters in use."""
        return sum(len(iats) for _, iats in self._slots)

    # A controller saves the histories, so that the next one need not wait for an hour.

    def saved(self, now_s: float) -> tuple[tuple[float, int], ...]:
        """(IAT, how often), the most frequent ones, by IAT."""
        self._forget(now_s)
        kept = sorted(self._total.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_KEPT]
        return tuple((steps * self._step_s, number) for steps, number in sorted(kept))

    def restore(self, iats: Iterable[tuple[float, int]], saved_s: float, now_s: float) -> None:
        """Take a saved history, as if all of it had happened when it was saved."""
        slot = self._slot(saved_s)
        for iat_s, number in list(iats)[:_MOST_KEPT]:
            if math.isfinite(iat_s) and 0 <= iat_s <= self._window_s and 0 < number < 1 << 31:
                self._add(slot, math.floor(iat_s / self._step_s), number)
        self._forget(now_s)

    def _slot(self, now_s: float) -> Counter[int]:
        minute = math.floor(now_s / _SLOT_S)
        if not self._slots or self._slots[-1][0] < minute:
            self._slots.append((minute, Counter()))
        return self._slots[-1][1]

    def _add(self, slot: Counter[int], steps: int, number: int) -> None:
        slot[steps] += number
        self._total[steps] += number

    def _forget(self, now_s: float) -> None:
        """Drop the IATs that ended more than a window ago, and the arrival that no IAT can begin with."""
        oldest = math.floor((now_s - self._window_s) / _SLOT_S)
        while self._slots and self._slots[0][0] < oldest:
            _, iats = self._slots.popleft()
            self._total -= iats
        if self._last is not None and self._last * self._step_s < now_s - self._window_s:
            self._last = None
