"""What must hold for every search; Algorithm 1 step by step; ours against brute force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.kneescale.curve_families import FAMILIES, draw_curve, run_search
from hpa_replacement.decision.policy import Search
from hpa_replacement.search import Ask, Point, SearchState, Variant, ask, observe, start
from hpa_replacement.search.best import SAMPLES_MAX, knee_at, tolerance
from hpa_replacement.search.load import at_load, load_of
from tests.hpa_replacement.search.properties import (
    ANY_CURVE,
    OTHER_REPLICAS,
    ends_inside_its_bounds,
    ends_when_others_served,
)

BEST, PAPER = Search(Variant.BEST), Search(Variant.PAPER)


def noisy(score: Callable[[int], float], noise: float, seed: int) -> Callable[[int], float]:
    rng = np.random.default_rng(seed)
    return lambda r: max(score(r) * (1 + noise * rng.standard_normal()), 0.0)


@given(variant=st.sampled_from(Variant), curve=st.fixed_dictionaries(ANY_CURVE))
@settings(max_examples=60)
def test_any_curve_ends_inside_its_bounds_and_a_restart_changes_nothing(
    variant: Variant, curve: dict[str, Any]
) -> None:
    state = ends_inside_its_bounds(Search(variant), **curve)
    assert variant is not Variant.BEST or len(state.points) <= SAMPLES_MAX


@given(variant=st.sampled_from(Variant), others=st.fixed_dictionaries(OTHER_REPLICAS))
@settings(max_examples=30)
def test_ends_also_when_other_replicas_served_than_asked_for(
    variant: Variant, others: dict[str, Any]
) -> None:
    ends_when_others_served(Search(variant), **others)


def test_a_state_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="left <= reach <= right"):
        start(Variant.BEST, 5, 4)
    with pytest.raises(ValueError, match="cannot be read"):
        SearchState.from_plain({"variant": "best", "left": 1})
    with pytest.raises(ValueError, match="score: must be a number >= 0, is nan"):
        Point(1, float("nan"))


def test_algorithm_1_as_printed() -> None:
    """Lines 4 to 29 by hand over [2, 58] for 20 clients: the knee of the first three points is 30."""

    def score(r: int) -> float:
        return float(20 * (r / (r + 19)) ** 2)

    found, asked = run_search(PAPER, score, 2, 58)
    assert asked[:3] == [2, 58, 30]
    # 30 is the knee and the last: further left (line 12), (30 + 2) / 2
    assert asked[3] == 16
    assert len(asked) == len(set(asked))
    assert found.knee in asked


def test_without_a_knee_algorithm_1_answers_with_the_best_score() -> None:
    found, asked = run_search(PAPER, float, 1, 65)
    assert found.knee == 65
    assert asked[:3] == [1, 65, 33]


SMOOTH = ("hyperbola", "closed loop", "exponential", "logarithm", "queueing network")


@pytest.mark.parametrize(
    ("families", "noise", "share", "samples"),
    [
        (SMOOTH, 0.0, 0.95, 7.0),
        (SMOOTH, 0.02, 0.85, 7.0),
        (FAMILIES, 0.02, 0.8, 7.0),
        (FAMILIES, 0.04, 0.65, 7.3),
    ],
)
def test_ours_is_near_the_true_knee_in_few_samples(
    families: tuple[str, ...], noise: float, share: float, samples: float
) -> None:
    """The oracle knows the whole curve without noise. The full figures: evaluate_searches.py."""
    near, taken = [], []
    for family in families:
        for seed in range(1000, 1010):
            curve = draw_curve(family, seed)
            found, asked = run_search(BEST, noisy(curve, noise, seed), 1, curve.capacity)
            near.append(abs(found.knee - curve.knee) <= tolerance(curve.capacity))
            taken.append(len(asked))
    assert max(taken) <= SAMPLES_MAX
    assert np.mean(taken) <= samples
    assert np.mean(near) >= share


@pytest.mark.parametrize(
    ("name", "score", "left", "right", "low", "high"),
    [
        ("linear: all of them, each is worth as much as the first", lambda r: 3.0 * r, 1, 80, 80, 80),
        ("convex: all of them", lambda r: float(r) ** 2, 1, 80, 80, 80),
        ("flat: the fewest", lambda r: 7.0, 1, 80, 1, 1),
        ("flat and noisy: few", lambda r: 7.0 + 0.1 * (r * 7919 % 5 - 2), 1, 80, 1, 4),
        ("falling: the fewest", lambda r: 100.0 / (10 + r), 1, 80, 1, 1),
        ("steps of ten: as their envelope", lambda r: 1.0 - 2.0 / (-(-r // 10) + 2.0), 1, 100, 18, 45),
        ("one to choose from", lambda r: 5.0, 4, 4, 4, 4),
        ("two", lambda r: 1.0 * r, 1, 2, 1, 2),
        ("three", lambda r: 1.0 * r, 1, 3, 1, 3),
        ("nothing served at all: the fewest", lambda r: 0.0, 2, 90, 2, 2),
        ("nothing served below twenty", lambda r: 0.0 if r < 20 else 1.0, 1, 90, 15, 30),
        ("peak in the middle", lambda r: max(1.0 - ((r - 30) / 60) ** 2, 0.01), 1, 90, 5, 30),
    ],
)  # fmt: skip
def test_curves_without_a_knee_get_a_stated_answer(
    name: str, score: Callable[[int], float], left: int, right: int, low: int, high: int
) -> None:
    found, asked = run_search(BEST, score, left, right)
    assert len(asked) <= SAMPLES_MAX
    assert low <= found.knee <= high, (name, found, asked)


@given(st.integers(0, 10**6))
@settings(max_examples=15)
def test_pure_noise_gets_the_fewest_replicas_that_did_about_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = {}

    def score(r: int) -> float:
        scores[r] = float(rng.uniform(0.01, 10.0))
        return scores[r]

    found, asked = run_search(BEST, score, 1, 120)
    assert len(asked) <= SAMPLES_MAX
    if "follow no curve" in found.reason:
        assert found.knee in asked


def test_ours_need_not_measure_the_right_end() -> None:
    asked = [run_search(BEST, draw_curve("hyperbola", s, capacity=500), 1, 500)[1] for s in range(10)]
    assert sum(500 in a for a in asked) < 5
    assert np.mean([sum(a) for a in asked]) < 2 * 500


def test_it_stops_when_the_knee_is_surely_above_what_is_enough() -> None:
    def score(r: int) -> float:
        return float(20 * (r / (r + 19)) ** 2)  # knee 45 of 114

    state, plain = start(Variant.BEST, 1, 114, enough=25), start(Variant.BEST, 1, 114)
    while isinstance(step := ask(state), Ask):
        state = observe(state, Point(step.replicas, score(step.replicas)))
    while isinstance(other := ask(plain), Ask):
        plain = observe(plain, Point(other.replicas, score(other.replicas)))
    assert step.knee >= 25
    assert "enough" in step.reason
    assert len(state.points) < len(plain.points)


def test_a_search_goes_on_while_the_load_moves() -> None:
    """20 clients become 14 after two samples: the points are moved, the knee is that of 14."""

    def measured(r: int, clients: int) -> Point:
        throughput = r * clients / (r + clients - 1)
        return Point(r, throughput**2 / clients, throughput, clients)

    state = start(Variant.BEST, 1, 114)
    while isinstance(step := ask(state), Ask):
        state = observe(state, measured(step.replicas, 20 if len(state.points) < 2 else 14))
    still = start(Variant.BEST, 1, 114)
    while isinstance(other := ask(still), Ask):
        still = observe(still, measured(other.replicas, 14))
    assert abs(step.knee - other.knee) <= 3


def test_the_load_is_what_did_not_follow_the_replicas() -> None:
    closed = (Point(1, 1, 1.0, 20.0), Point(40, 9, 13.0, 20.5))
    opened = (Point(1, 1, 13.0, 60.0), Point(40, 9, 13.1, 14.0))
    assert load_of(closed[1], closed) == 20.5
    assert load_of(opened[1], opened) == 13.1
    moved = at_load(41.0, closed)
    assert [m.replicas for m in moved] == pytest.approx([1 * 2.05, 80])
    assert at_load(100.0, closed) == ()  # too far to tell


def test_a_search_in_which_nothing_is_served_ends_also_if_more_replicas_never_come() -> None:
    state = start(Variant.BEST, 1, 114)
    while isinstance(step := ask(state), Ask):
        state = observe(state, Point(1, 0.0))
    assert (step.knee, len(state.points)) == (1, SAMPLES_MAX)


def test_one_sample_without_an_answer_does_not_hide_the_knee() -> None:
    points = tuple(Point(r, 20 * (r / (r + 19)) ** 2, 20 * r / (r + 19), 20.0) for r in (12, 31, 60, 100))
    silent = Point(1, 0.0, 0.5, 20.0)
    assert knee_at(20.0, (silent, *points), 1, 114) > 10
    assert knee_at(20.0, (silent,), 1, 114) == 1
