"""What the next load is expected to be."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement.decision.forecast import LOAD_MEMORY, forecast

load_lists = st.lists(st.floats(0, 1e6), min_size=1, max_size=200)


def without_order(count: int) -> list[float]:
    draw = random.Random(7)
    return [draw.uniform(1, 30) for _ in range(count)]


@pytest.mark.parametrize(
    ("loads", "least", "most", "after"),
    [
        ([7.0], 7, 7, 1),
        ([0.0, 0.0], 0, 0, 1),
        ([20.0] * 30, 20, 20, 1),
        ([3.0, 30.0], 16, 17, 1),  # two loads say nothing about what follows
        ([2.0] * 20 + [20.0] * 20, 16, 20, 1),  # it stays, mostly
        ([20.0] * 20 + [2.0] * 20, 2, 6, 1),
        ([2.0, 20.0] * 20, 2, 5, 2),  # every other one
        ([20.0, 2.0] * 20, 17, 20, 2),
        ([28.0, 28.0, *[1.0] * 8] * 6, 20, 28, 10),  # a burst every ten: the next is due
        ([28.0, 28.0, *[1.0] * 8] * 6 + [28.0, 28.0], 1, 4, 10),  # and is over
    ],
)
def test_loads_that_come_back(loads: list[float], least: float, most: float, after: int) -> None:
    expected = forecast(loads)
    assert least <= expected.load <= most, expected
    assert expected.after == after


def test_loads_without_order_give_about_their_mean() -> None:
    loads = without_order(200)
    for end in range(40, 200):
        assert abs(forecast(loads[:end]).of_mean - 1) < 0.25


def test_what_is_further_back_than_it_remembers_does_not_count() -> None:
    loads = without_order(LOAD_MEMORY)
    assert forecast([1e5] * 50 + loads) == forecast(loads)


@given(load_lists)
def test_a_forecast_lies_near_what_was_seen(loads: list[float]) -> None:
    expected, seen = forecast(loads), loads[-LOAD_MEMORY:]
    spread = max(seen) - min(seen)
    assert 0 <= expected.correlation < 1
    assert max(min(seen) - spread, 0) * 0.999 <= expected.load <= (max(seen) + spread) * 1.001
    assert expected.correlation > 0 or expected.load == expected.mean
    assert str(expected)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=130), st.sampled_from([0.25, 2.0, 1024.0]))
def test_the_unit_of_a_load_does_not_matter(loads: list[int], unit: float) -> None:
    one, other = forecast(loads), forecast([unit * load for load in loads])
    assert other.of_mean == pytest.approx(one.of_mean)


@pytest.mark.parametrize("pattern", [[1] * 9 + [30] * 3, [5, 10, 15, 20, 15, 10], [2, 2, 25, 25]])
def test_shares_by_forecasts_spend_the_average(pattern: list[int]) -> None:
    """So a budget lasts: what peaks get is what the loads between them do without."""
    loads = [float(load) for load in pattern * 40]
    shares = [forecast(loads[:end]).of_mean for end in range(LOAD_MEMORY, LOAD_MEMORY + 8 * len(pattern))]
    assert sum(shares) / len(shares) == pytest.approx(1, abs=0.05)
