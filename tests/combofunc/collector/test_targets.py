"""What becomes of Prometheus's answers: a target, or a reason, never a guessed 0."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combofunc.collector import Asked, Target, targets
from combofunc.collector.target import coverage_query, decide, load_query
from surgekit.prometheus.client import Labels, NoAnswer, QueryBatch, QueryFailed

WINDOW_S, STEP_S = 60.0, 15.0


def labels(function: str = "web") -> Labels:
    return frozenset({("namespace", "shop"), ("function", function)})


class FakePrometheus:
    """Answers by the text of a query; what is not there has no series."""

    def __init__(self, answers: Mapping[str, Mapping[Labels, float] | QueryFailed]) -> None:
        self.answers, self.asked = answers, list[str]()

    def values(self, query: str, at_s: float) -> Mapping[Labels, float]:
        assert at_s == 1000.0
        self.asked.append(query)
        answer = self.answers.get(query, {})
        if isinstance(answer, QueryFailed):
            raise answer
        return answer


def serving(measured: Mapping[str, float], steps: float = 4.0) -> FakePrometheus:
    return FakePrometheus(
        {
            load_query(WINDOW_S, STEP_S): {labels(name): value for name, value in measured.items()},
            coverage_query(WINDOW_S, STEP_S): dict.fromkeys(map(labels, measured), steps),
        }
    )


def asked(function: str = "web", headroom: float = 1.0, query: str | None = None) -> Asked:
    return Asked(f"shop/{function}", "shop", function, WINDOW_S, headroom, query)


def one(prometheus: FakePrometheus, headroom: float = 1.0, query: str | None = None) -> Target | str:
    return targets(QueryBatch(prometheus, 1000.0), [asked("web", headroom, query)], STEP_S)["shop/web"]


@pytest.mark.parametrize(
    ("measured", "headroom", "concurrency"),
    [
        (0.0, 1.0, 0),  # measured, not missing
        (0.01, 1.0, 1),
        (3.0, 1.0, 3),
        (3.0000000000000004, 1.0, 3),
        (3.2, 1.0, 4),
        (10.0, 1.2, 12),
        (10.1, 1.2, 13),
    ],
)
def test_a_target(measured: float, headroom: float, concurrency: int) -> None:
    assert one(serving({"web": measured}), headroom) == Target(concurrency, measured, headroom, WINDOW_S)


def test_a_thousand_functions_cost_as_many_queries_as_one() -> None:
    names = [f"f{i}" for i in range(1000)]
    prometheus = serving(dict.fromkeys(names, 2.5))
    found = targets(QueryBatch(prometheus, 1000.0), [asked(name) for name in names], STEP_S)
    assert set(found.values()) == {Target(3, 2.5, 1.0, WINDOW_S)}
    assert len(found) == 1000
    assert len(prometheus.asked) == 2


def test_what_is_missing_or_nan_is_a_reason() -> None:
    """NaN never gets here: Prometheus.values leaves it out."""
    assert one(serving({"other": 1.0})) == "no concurrency measured for web in shop in the last 60 s"


@pytest.mark.parametrize(("steps", "enough"), [(4.0, True), (3.0, True), (2.0, False), (0.0, False)])
def test_a_window_covered_in_part_is_a_reason(steps: float, enough: bool) -> None:
    found = one(serving({"web": 1.0}, steps))
    assert (
        isinstance(found, Target) if enough else found == f"{steps:.0f} of about 4 scrapes in the last 60 s"
    )


def test_a_query_of_ones_own() -> None:
    text = 'max_over_time(mine{ns="$namespace",f="$function"}[$window])'
    filled = 'max_over_time(mine{f="web",namespace="shop",ns="shop"}[1m])'
    prometheus = FakePrometheus({filled: {frozenset({("any", "label")}): 7.0}})
    assert one(prometheus, query=text) == Target(7, 7.0, 1.0, WINDOW_S)
    assert prometheus.asked == [filled]


@pytest.mark.parametrize("count", [0, 2])
def test_a_query_of_ones_own_gives_one_series(count: int) -> None:
    series = {frozenset({("pod", str(i))}): 1.0 for i in range(count)}
    prometheus = FakePrometheus({'mine{namespace="shop"}': series})
    assert one(prometheus, query="mine") == f"collector.query returns {count} series with a value, not one"


@pytest.mark.parametrize("value", [-1.0, 1e7, math.nan, math.inf])
def test_a_number_that_cannot_be_a_concurrency_is_a_reason(value: float) -> None:
    found = one(FakePrometheus({'mine{namespace="shop"}': {frozenset(): value}}), query="mine")
    assert found == f"a concurrency of {value!r} is not possible"


def test_a_prometheus_that_is_silent_is_asked_three_times_a_round() -> None:
    silent = FakePrometheus({f'q{i}{{namespace="shop"}}': NoAnswer("no answer") for i in range(9)})
    found = targets(QueryBatch(silent, 1000.0), [asked(f"f{i}", query=f"q{i}") for i in range(9)], STEP_S)
    assert set(found.values()) == {"no answer"}
    assert len(silent.asked) == 3


def test_a_refused_query_is_its_functions_reason_only() -> None:
    prometheus = serving({"web": 1.0})
    prometheus.answers = {**prometheus.answers, 'bad{namespace="shop"}': QueryFailed("refused")}
    found = targets(QueryBatch(prometheus, 1000.0), [asked(), asked("other", query="bad")], STEP_S)
    assert found == {"shop/web": Target(1, 1.0, 1.0, WINDOW_S), "shop/other": "refused"}


@given(st.floats(0, 1e5), st.floats(1, 5), st.floats(0, 100), st.floats(1, 600), st.floats(0.5, 60))
def test_a_target_covers_what_was_measured_and_no_more_than_a_request_beyond(
    measured: float, headroom: float, steps: float, window_s: float, step_s: float
) -> None:
    found = decide(Asked("a/b", "a", "b", window_s, headroom), measured, steps, step_s)
    if isinstance(found, Target):
        assert measured * headroom - 1e-8 <= found.concurrency < measured * headroom + 1
    else:
        assert "scrapes" in found
