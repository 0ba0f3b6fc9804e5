"""The filter against all inter-arrival times, kept one by one."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from burst_plane.filter import HOUR_S, InterArrivals, counts


def fed(arrivals_s: list[float], step_s: float = 1.0) -> InterArrivals:
    """As from a reader that looks once a step."""
    history = InterArrivals(step_s)
    per_step: dict[int, int] = {}
    for at_s in arrivals_s:
        per_step[math.floor(at_s / step_s)] = per_step.get(math.floor(at_s / step_s), 0) + 1
    for step in sorted(per_step):
        history.observe(per_step[step], (step + 0.5) * step_s)
    return history


def exact_percentile(arrivals_s: list[float], percentile: float, now_s: float) -> float | None:
    """By brute force. Of the oldest minute, all of it counts."""
    oldest_s = math.floor((now_s - HOUR_S) / 60.0) * 60.0
    iats = sorted(b - a for a, b in pairwise(arrivals_s) if b >= oldest_s and b - a <= HOUR_S)
    if not iats:
        return None
    at_most = [(sum(i <= iat for i in iats) * 100.0 >= percentile * len(iats), iat) for iat in iats]
    return min(iat for enough, iat in at_most if enough)


gaps = st.lists(st.one_of(st.floats(0, 3), st.floats(0, 200), st.floats(0, 5000)), min_size=1, max_size=60)


@settings(max_examples=50)
@given(gaps, st.floats(1, 100), st.floats(0, 4000))
def test_every_percentile_is_within_a_step_of_the_true_one(
    gaps_s: list[float], percentile: float, later_s: float
) -> None:
    assume(
        all(abs(gap - HOUR_S) > 3 for gap in gaps_s)
    )  # whether such a gap is still known depends on the step
    arrivals_s = [1e6]
    for gap in gaps_s:
        arrivals_s.append(arrivals_s[-1] + gap)
    now_s = arrivals_s[-1] + later_s
    sketched = fed(arrivals_s).percentile_s(percentile, now_s)
    exact = exact_percentile(arrivals_s, percentile, now_s)
    if exact is None or sketched is None:
        assert sketched is exact
    else:
        assert abs(sketched - exact) < 1.0


@settings(max_examples=50)
@given(gaps, st.floats(10, 90), st.floats(5, 600))
def test_the_verdict_is_the_true_one_unless_the_keepalive_is_within_a_step(
    gaps_s: list[float], percentile: float, keepalive_s: float
) -> None:
    assume(all(abs(gap - HOUR_S) > 3 for gap in gaps_s))
    arrivals_s = [1e6]
    for gap in gaps_s:
        arrivals_s.append(arrivals_s[-1] + gap)
    exact = exact_percentile(arrivals_s, percentile, arrivals_s[-1])
    assume(exact is None or abs(exact - keepalive_s) > 1.0)
    verdict = counts(fed(arrivals_s), keepalive_s, percentile, arrivals_s[-1])
    assert verdict is (exact is not None and keepalive_s > exact)


@pytest.mark.parametrize(
    ("arrivals_s", "counted"),
    [
        ([], False),
        ([0.0], False),  # one arrival has no inter-arrival time
        ([0.0, 0.0], True),  # a burst of two
        ([0.0, 30.0], True),
        ([0.0, 90.0], False),
        ([0.0, 90.0, 100.0], True),  # the median of two is the lower one
        ([0.0, 90.0, 180.0, 190.0], False),
        ([0.0, 59.0], True),
        ([0.0, 60.0], False),  # longer, not as long
    ],
)
def test_an_excess_invocation_counts_only_if_the_keepalive_is_longer_than_the_median(
    arrivals_s: list[float], counted: bool
) -> None:
    now_s = arrivals_s[-1] if arrivals_s else 0.0
    assert counts(fed(arrivals_s), 60.0, 50.0, now_s) is counted


def test_an_hour_later_nothing_is_known() -> None:
    history = fed([float(t) for t in range(100)])
    assert counts(history, 60.0, 50.0, 3600.0)
    assert not counts(history, 60.0, 50.0, 3800.0)
    history.observe(1, 3800.0)
    assert history.count == 0  # the arrival before is too long ago to measure from


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=300))
def test_memory_is_bounded_whatever_arrives(per_step: list[int]) -> None:
    history = InterArrivals()
    for step, arrivals in enumerate(per_step):
        history.observe(arrivals, float(step))
    assert history.size <= 61 * 12
    assert history.count <= sum(per_step)


def test_memory_is_bounded_in_the_worst_minutes() -> None:
    """Gaps of 0, 1, 2, ... 10 s fill a minute with as many different ones as it can hold."""
    history, now_s = InterArrivals(), 0.0
    while now_s < 7200.0:
        for gap in range(11):
            now_s += gap
            history.observe(2, now_s)
    assert 600 < history.size <= 61 * 12


@settings(max_examples=50)
@given(gaps, st.floats(0, 3000))
def test_a_saved_history_says_the_same(gaps_s: list[float], away_s: float) -> None:
    arrivals_s = [1e6]
    for gap in gaps_s:
        arrivals_s.append(arrivals_s[-1] + gap)
    before, now_s = fed(arrivals_s), arrivals_s[-1]
    restored = InterArrivals()
    restored.restore(before.saved(now_s), now_s, now_s)
    for percentile in (25.0, 50.0, 99.0):
        assert restored.percentile_s(percentile, now_s) == before.percentile_s(percentile, now_s)
    assert restored.count == before.count
    assert restored.percentile_s(50.0, now_s + 3700.0) is None


def test_a_saved_history_of_nonsense_is_left_out() -> None:
    history = InterArrivals()
    history.restore([(math.nan, 1), (-1.0, 1), (5.0, -1), (1e9, 1), (5.0, 1 << 40), (7.0, 2)], 0.0, 0.0)
    assert history.saved(0.0) == ((7.0, 2),)
