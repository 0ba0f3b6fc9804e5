"""Windows of periods from running totals, whatever happens to single reports."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.allocation.telemetry import Readings, Telemetry, Window

LENGTH = 5


def reading(
    order: int, *, periods: int, used_us: int = 0, throttled: int = 0, throttled_us: int = 0,
    at_us: int | None = None, slot: int = 0, quota_us: int = 50_000,
) -> tuple[int, ...]:  # fmt: skip
    at_us = order * PERIOD_US if at_us is None else at_us
    return (slot, order, at_us, periods, used_us, throttled, throttled_us, quota_us)


def record(telemetry: Telemetry, *rows: tuple[int, ...], now_s: float = 0.0) -> None:
    telemetry.record(Readings(*np.array(rows, np.int64).T), now_s)


def window(telemetry: Telemetry, slot: int = 0) -> Window:
    return telemetry.window(np.array([slot]), LENGTH)


def used(telemetry: Telemetry, slot: int = 0) -> list[int]:
    found = window(telemetry, slot)
    values: list[int] = found.used_us[0, : found.known[0]].tolist()
    return values


def test_the_first_reading_only_begins() -> None:
    telemetry = Telemetry(LENGTH)
    record(telemetry, reading(0, periods=700, used_us=9_000_000), now_s=3.0)
    assert used(telemetry) == []
    assert window(telemetry).heard_at_s.tolist() == [3.0]


@pytest.mark.parametrize(
    ("second", "expected", "throttled"),
    [
        (reading(1, periods=1, used_us=30_000), [30_000], []),
        (reading(1, periods=2, used_us=30_000), [15_000, 15_000], []),
        (reading(1, periods=2, used_us=30_000, throttled=1, throttled_us=8_000), [15_000, 15_000], [8_000]),
        (reading(1, periods=9, used_us=90_000, throttled=9, throttled_us=9_000), [10_000] * 5, [1_000] * 5),
        (reading(1, periods=0, used_us=30_000), [], []),
        (reading(1, periods=0, used_us=0, at_us=2 * PERIOD_US), [0, 0], []),
    ],
    ids=["one", "two", "two, one throttled", "more than held", "not complete", "idle"],
)
def test_a_reading_covers_any_number_of_periods(
    second: tuple[int, ...], expected: list[int], throttled: list[int]
) -> None:
    telemetry = Telemetry(LENGTH)
    record(telemetry, reading(0, periods=0))
    record(telemetry, second)
    assert used(telemetry) == expected
    found = window(telemetry)
    assert found.throttled_us[0, found.throttled[0]].tolist() == throttled
    assert found.throttled[0].tolist() == [True] * len(throttled) + [False] * (LENGTH - len(throttled))
    assert found.quota_us[0, : len(expected)].tolist() == [50_000] * len(expected)


def test_a_period_that_was_open_is_counted_by_the_next_reading() -> None:
    telemetry = Telemetry(LENGTH)
    record(telemetry, reading(0, periods=0))
    record(telemetry, reading(1, periods=0, used_us=30_000))
    record(telemetry, reading(2, periods=2, used_us=50_000))
    assert used(telemetry) == [25_000, 25_000]


def test_totals_that_fall_begin_anew() -> None:
    telemetry = Telemetry(LENGTH)
    record(telemetry, reading(0, periods=5))
    record(telemetry, reading(1, periods=6, used_us=1_000))
    record(telemetry, reading(2, periods=0, used_us=0))
    assert used(telemetry) == []
    record(telemetry, reading(3, periods=1, used_us=7_000))
    assert used(telemetry) == [7_000]


def test_a_slot_is_reused() -> None:
    telemetry = Telemetry(LENGTH, slots=1)
    record(telemetry, reading(10, periods=0, slot=3))
    record(telemetry, reading(11, periods=1, used_us=1_000, slot=3))
    telemetry.forget(np.array([3]))
    assert used(telemetry, 3) == []
    record(telemetry, reading(1, periods=400, used_us=5, slot=3))
    record(telemetry, reading(2, periods=401, used_us=105, slot=3))
    assert used(telemetry, 3) == [100]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 90)), min_size=1, max_size=8),
    st.data(),
)
def test_lost_late_and_repeated_readings_lose_no_run_time(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Whatever arrives, in whatever batches: totals are those of the newest reading, each counted once."""
    telemetry = Telemetry(64)
    periods, work = list(accumulate(s[0] for s in steps)), list(accumulate(s[0] * s[1] for s in steps))
    rows = [reading(i + 1, periods=p, used_us=w) for i, (p, w) in enumerate(zip(periods, work, strict=True))]
    record(telemetry, reading(0, periods=0))
    arrivals = data.draw(st.lists(st.lists(st.sampled_from(rows), max_size=4), max_size=8))
    for batch in arrivals:
        if batch:
            record(telemetry, *batch)
    newest = max((row[1] for batch in arrivals for row in batch), default=0)
    found = telemetry.window(np.array([0]), 64)
    assert found.known[0] == (periods[newest - 1] if newest else 0)
    lost_to_rounding = found.known[0]
    total = work[newest - 1] if newest else 0
    assert total - lost_to_rounding <= found.used_us.sum() <= total
