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
        ring = (window_periods,)
        self._row = np.dtype(
            [
                ("order", "i8"), ("at_us", "i8"), ("periods", "i8"), ("used_us", "i8"),
                ("throttled_periods", "i8"), ("throttled_us", "i8"), ("heard_at_s", "f8"),
                ("next", "i8"), ("known", "i8"),
                ("ring_used_us", "i8", ring), ("ring_quota_us", "i8", ring),
                ("ring_throttled", "?", ring), ("ring_throttled_us", "i8", ring),
            ]
        )  # fmt: skip
        self._rows = np.zeros(0, self._row)
        self._make_room(slots)

    def forget(self, slots: Integers) -> None:
        """Another container may have these slots now."""
        self._make_room(int(slots.max(initial=-1)) + 1)
        self._rows[slots] = np.zeros(1, self._row)
        self._rows["order"][slots] = -1

    def record(self, readings: Readings, now_s: float) -> None:
        """Add the periods since the last reading. Older and repeated readings are ignored."""
        self._make_room(int(readings.slots.max(initial=-1)) + 1)
        rows = self._rows
        before = rows["order"][readings.slots]
        np.maximum.at(rows["order"], readings.slots, readings.order)
        newest = (readings.order > before) & (readings.order == rows["order"][readings.slots])
        slots = readings.slots[newest]
        rows["heard_at_s"][slots] = now_s

        now = {
            "at_us": readings.at_us[newest], "periods": readings.periods[newest],
            "used_us": readings.used_us[newest], "throttled_periods": readings.throttled_periods[newest],
            "throttled_us": readings.throttled_us[newest],
        }  # fmt: skip
        since = {name: total - rows[name][slots] for name, total in now.items()}
        # Totals that fell are those of another container or of a rebooted node: begin anew.
        fell = np.logical_or.reduce([difference < 0 for difference in since.values()])
        first = (before[newest] < 0) | fell
        counted = since["periods"] > 0
        idle = ~counted & (since["at_us"] >= _IDLE_AFTER_US)
        complete = counted | idle
        # An incomplete period stays open: the next reading counts from the same totals.
        for name, total in now.items():
            rows[name][slots] = np.where(first | complete, total, rows[name][slots])
        rows["known"][slots[fell]] = 0

        use = ~first & complete
        lasted = np.maximum(since["at_us"] // PERIOD_US, 1)
        periods = np.where(counted, since["periods"], lasted)[use]
        throttled_us = since["throttled_us"][use]
        self._push(
            slots[use],
            periods,
            since["used_us"][use],
            readings.quota_us[newest][use],
            np.minimum(since["throttled_periods"][use], periods),
            throttled_us,
        )

    def window(self, slots: Integers, periods: int) -> Window:
        """The last `periods` periods, at most as many as are held."""
        rows = self._rows
        ages = np.arange(min(periods, self._length))
        places = (rows["next"][slots][:, None] - 1 - ages) % self._length
        known = np.minimum(rows["known"][slots], len(ages))
        is_known = ages < known[:, None]

        def newest_first(name: str) -> Integers:
            values: Integers = rows[name][slots[:, None], places] * is_known
            return values

        return Window(
            newest_first("ring_used_us"),
            newest_first("ring_quota_us"),
            newest_first("ring_throttled").astype(np.bool_),
            newest_first("ring_throttled_us"),
            known,
            rows["heard_at_s"][slots],
        )

    def _push(
        self,
        slots: Integers,
        periods: Integers,
        used_us: Integers,
        quota_us: Integers,
        throttled_periods: Integers,
        throttled_us: Integers,
    ) -> None:
        """Spread a reading over its periods. The throttled ones count as the newest: more may be needed."""
        rows = self._rows
        each_us = used_us // np.maximum(periods, 1)
        each_throttled_us = throttled_us // np.maximum(throttled_periods, 1)
        for age in range(int(min(periods.max(initial=0), self._length)) - 1, -1, -1):
            has = periods > age
            at, throttled = slots[has], (throttled_periods > age)[has]
            place = rows["next"][at]
            rows["ring_used_us"][at, place] = each_us[has]
            rows["ring_quota_us"][at, place] = quota_us[has]
            rows["ring_throttled"][at, place] = throttled
            rows["ring_throttled_us"][at, place] = np.where(throttled, each_throttled_us[has], 0)
            rows["next"][at] = (place + 1) % self._length
            rows["known"][at] = np.minimum(rows["known"][at] + 1, self._length)

    def _make_room(self, slots: int) -> None:
        if slots > len(self._rows):
            more = np.zeros(max(slots, 2 * len(self._rows)) - len(self._rows), self._row)
            more["order"] = -1
            self._rows = np.concatenate([self._rows, more])
