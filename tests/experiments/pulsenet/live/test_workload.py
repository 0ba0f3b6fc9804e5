"""What is played, and what is known of the hour before."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from experiments.pulsenet.live.workload import HOUR_MINUTES, Workload, choose
from experiments.pulsenet.trace import MINUTES, Function, Requests


def function(name: str, a_minute: int, longest_s: float = 1.0) -> Function:
    return Function(name, np.full(MINUTES, a_minute), np.linspace(0.0, longest_s, 7), np.full(8, 1e6))


def requests(*spans: tuple[float, float]) -> Requests:
    ordered = sorted(spans)
    return Requests(
        np.array([begin for begin, _ in ordered]),
        np.zeros(len(ordered), np.int64),
        np.array([end - begin for begin, end in ordered]),
    )


def workload(*spans: tuple[float, float]) -> Workload:
    return Workload(
        (function("f", 1),), HOUR_MINUTES, requests(*spans), requests((0.0, 1.0)), np.array([1e6])
    )


def test_functions_that_are_too_busy_too_long_or_silent_are_left_out() -> None:
    everything = [function("a", 60), function("b", 2000), function("c", 5, longest_s=500.0), function("d", 0)]
    found = choose(everything, 10, 60.0, 120.0, seed=1)
    assert [f.name for f in found.functions] == ["a"]
    assert len(found.requests.at_s) == 180
    assert len(found.before.at_s) == HOUR_MINUTES * 60
    assert found.first_minute >= HOUR_MINUTES


def test_a_seed_draws_the_same_workload_again() -> None:
    everything = [function(f"f{i}", 3) for i in range(20)]
    one, same, other = (choose(everything, 5, 60.0, 120.0, seed) for seed in (1, 1, 2))
    assert [f.name for f in one.functions] == [f.name for f in same.functions]
    assert (one.requests.at_s == same.requests.at_s).all()
    assert [f.name for f in one.functions] != [f.name for f in other.functions]


def test_the_filter_knows_the_hour_before() -> None:
    (history,) = workload((10.2, 11.0), (15.9, 16.0), (15.95, 16.0)).histories()
    assert history == [(0.0, 1), (5.0, 1)]


def test_what_the_end_of_that_hour_needed() -> None:
    found = workload((2500.0, 2600.0), (2550.0, 2560.0), (3590.0, 3700.0))
    assert found.needed_before(600.0) == [[(-10.0, 1)]]
    assert found.needed_before(1045.0) == [
        [(-1045.0, 1), (-1045.0, 2), (-1040.0, 1), (-1000.0, 0), (-10.0, 1)]
    ]


def test_the_mean_of_the_window_says_how_many_instances_there_are() -> None:
    assert workload((3500.0, 3570.0), (3580.0, 3590.0)).replicas_before(60.0, 0.5) == [2]  # 40 of 60 s
    assert workload((100.0, 200.0)).replicas_before(60.0, 0.7) == [0]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=12), st.integers(1, 60))
def test_requests_at_once_are_counted_over_moments(drawn: list[tuple[int, int]], window: int) -> None:
    """Against counting at half seconds, between the moments of requests that begin and end at whole ones."""
    spans = [(3540.0 + begin, 3540.0 + begin + length) for begin, length in drawn]
    (needed,) = workload(*spans).needed_before(float(window))
    for at_s in np.arange(-window + 0.5, 0.0):
        expected = sum(begin <= 3600.0 + at_s < end for begin, end in spans)
        assert next((number for moment, number in reversed(needed) if moment <= at_s), 0) == expected
