"""Recent CPU periods of every container, in ring buffers.

Agents report the kernel's running totals (cpu.stat), not differences. So a report that is lost, late or
repeated loses nothing: the next one covers its periods. A report may cover any number of kernel periods.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limit_allocator.allocation.model import PERIOD_US, Booleans, Integers

__all__ = ["Readings", "Telemetry", "Window"]

# The kernel stops counting periods of an idle container, and a reading may come just before a period's end.
# So without a counted period, one that lasts this long is taken as idle.
_IDLE_AFTER_US = PERIOD_US * 3 // 2


@dataclass(frozen=True, slots=True)
class Readings:
    """One reading of several containers, as arrays of one length. All but the quota are running totals."""

    slots: Integers
    order: Integers  # `report_order` of the report it came with
    at_us: Integers  # the agent's monotonic clock
    periods: Integers  # nr_periods
    used_us: Integers
    throttled_periods: Integers  # nr_throttled
    throttled_us: Integers  # throttled_usec (v2), throttled_time / 1000 (v1); 0 if unknown
    quota_us: Integers


@dataclass(frozen=True, slots=True)
class Window:
    """The last n periods of some containers: one row a container, newest period first."""

    used_us: Integers
    quota_us: Integers
    throttled: Booleans
    throttled_us: Integers
    known: Integers  # periods that are known; the others are 0
    heard_at_s: NDArray[np.float64]  # when the last reading came, by the controller's clock


class Telemetry:
    """Holds the windows. Slots are row numbers that the caller gives out, and may reuse after `forget`."""

    def __init__(self, window_periods: int, slots: int = 64) -> None:
        self._length = window_periods
        self._order = np.zeros(0, np.int64)  # of the last reading; -1: none
        self._heard_at_s = np.zeros(0)
        self._next, self._known = np.zeros(0, np.int64), np.zeros(0, np.int64)
        # at_us, periods, used_us, throttled_periods, throttled_us of the last complete period's end
        self._totals = np.zeros((5, 0), np.int64)
        # used_us, quota_us, throttled, throttled_us
        self._rings = np.zeros((4, 0, window_periods), np.int64)
        self._make_room(slots)

    def forget(self, slots: Integers) -> None:
        """Another container may have these slots now."""
        self._make_room(int(slots.max(initial=-1)) + 1)
        self._order[slots] = -1
        self._known[slots] = 0

    def record(self, readings: Readings, now_s: float) -> None:
        """Add the periods since the last reading. Older and repeated readings are ignored."""
        self._make_room(int(readings.slots.max(initial=-1)) + 1)
        before = self._order[readings.slots]
        np.maximum.at(self._order, readings.slots, readings.order)
        newest = (readings.order > before) & (readings.order == self._order[readings.slots])
        slots, quota_us = readings.slots[newest], readings.quota_us[newest]
        self._heard_at_s[slots] = now_s

        totals = np.stack(
            [
                readings.at_us, readings.periods, readings.used_us, readings.throttled_periods,
                readings.throttled_us,
            ]
        )[:, newest]  # fmt: skip
        since = totals - self._totals[:, slots]
        lasted_us, periods = since[0], since[1]
        # Totals that fell are those of another container or of a rebooted node: begin anew.
        fell = (since < 0).any(axis=0)
        first = (before[newest] < 0) | fell
        counted = periods > 0
        complete = counted | (lasted_us >= _IDLE_AFTER_US)
        # An incomplete period stays open: the next reading counts from the same totals.
        ended = first | complete
        self._totals[:, slots[ended]] = totals[:, ended]
        self._known[slots[first]] = 0
        periods = np.where(counted, periods, np.maximum(lasted_us // PERIOD_US, 1))
        use = complete & ~first
        self._push(slots[use], periods[use], quota_us[use], since[2:, use])

    def window(self, slots: Integers, periods: int) -> Window:
        """The last `periods` periods, at most as many as are held."""
        ages = np.arange(min(periods, self._length))
        places = (self._next[slots][:, None] - 1 - ages) % self._length
        known = np.minimum(self._known[slots], len(ages))
        used, quota, throttled, throttled_us = self._rings[:, slots[:, None], places] * (
            ages < known[:, None]
        )
        return Window(used, quota, throttled > 0, throttled_us, known, self._heard_at_s[slots])

    def _push(self, slots: Integers, periods: Integers, quota_us: Integers, since: Integers) -> None:
        """Spread a reading over its periods. The throttled ones count as the newest: more may be needed."""
        used_us, throttled_periods, throttled_us = since
        throttled_periods = np.minimum(throttled_periods, periods)
        each_us = used_us // np.maximum(periods, 1)
        each_throttled_us = throttled_us // np.maximum(throttled_periods, 1)
        for age in range(int(min(periods.max(initial=0), self._length)) - 1, -1, -1):
            throttled = throttled_periods > age
            period = np.stack([each_us, quota_us, throttled, np.where(throttled, each_throttled_us, 0)])
            has = periods > age
            at = slots[has]
            place = self._next[at]
            self._rings[:, at, place] = period[:, has]
            self._next[at] = (place + 1) % self._length
            self._known[at] = np.minimum(self._known[at] + 1, self._length)

    def _make_room(self, slots: int) -> None:
        more = max(slots, 2 * len(self._order)) - len(self._order)
        if slots <= len(self._order):
            return
        self._order = np.pad(self._order, (0, more), constant_values=-1)
        self._heard_at_s = np.pad(self._heard_at_s, (0, more))
        self._next, self._known = np.pad(self._next, (0, more)), np.pad(self._known, (0, more))
        self._totals = np.pad(self._totals, ((0, 0), (0, more)))
        self._rings = np.pad(self._rings, ((0, 0), (0, more), (0, 0)))
