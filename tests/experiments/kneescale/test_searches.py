"""The baseline searches of the paper: bounds, an end, a restart; and what the paper says of each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.kneescale.controller import SEARCH_ANNOTATION, read_policy
from experiments.kneescale.curve_families import draw_curve, run_search
from experiments.kneescale.plan import ARMS
from experiments.kneescale.searches import SEARCHES
from hpa_replacement.decision.decide import decide
from hpa_replacement.decision.model import Sample, State
from hpa_replacement.decision.policy import AtEnd, Budget, Policy
from hpa_replacement.search import Found, Point, SearchState, Variant, ask, observe, start
from tests.hpa_replacement.builders import kneepolicy

BASELINES = ("hill_climbing", "random")


@given(
    arm=st.sampled_from(BASELINES),
    left=st.integers(1, 30),
    width=st.integers(0, 60),
    reach=st.integers(0, 60),
    seed=st.integers(0, 3),
    scores=st.lists(st.floats(0, 1e6), min_size=91, max_size=91),
)
@settings(max_examples=60, deadline=None)
def test_any_curve_ends_inside_its_bounds_and_a_restart_changes_nothing(
    arm: str, left: int, width: int, reach: int, seed: int, scores: list[float]
) -> None:
    right, next_step = left + width, SEARCHES[arm].next_step
    state = start(Variant.PAPER, left, right, reach=min(left + reach, right), seed=seed)
    for _ in range(200):
        step = ask(state, next_step)
        assert step == ask(state, next_step)
        if isinstance(step, Found):
            assert state.left <= step.knee <= state.reach
            return
        assert state.left <= step.replicas <= state.reach
        state = observe(state, Point(step.replicas, scores[step.replicas], scores[0], scores[1]))
        state = SearchState.from_plain(json.loads(json.dumps(state.as_plain())))
    pytest.fail("does not end")


@given(
    arm=st.sampled_from(BASELINES),
    served=st.lists(st.integers(1, 40), min_size=120, max_size=120),
    score=st.floats(0.1, 10),
)
@settings(max_examples=30, deadline=None)
def test_ends_also_when_other_replicas_served_than_asked_for(
    arm: str, served: list[int], score: float
) -> None:
    state = start(Variant.PAPER, 1, 40)
    for replicas in served:
        if isinstance(ask(state, SEARCHES[arm].next_step), Found):
            return
        state = observe(state, Point(replicas, score * replicas))
    pytest.fail("does not end")


def test_hill_climbing_goes_up_in_small_steps_where_it_is_steep() -> None:
    curve = draw_curve("closed loop", 1, capacity=100)
    _, asked = run_search(SEARCHES["hill_climbing"], lambda r: 100 * curve(r), 1, 100)
    steps = np.diff(asked)
    assert asked[0] == 1
    assert asked[-1] == 100
    assert min(steps) >= 1
    assert max(steps) <= 10
    steepest = int(np.argmax(np.diff([100 * curve(r) for r in asked]) / steps))
    assert steps[min(steepest + 1, len(steps) - 1)] == min(steps)


def test_random_search_stops_when_three_more_points_left_the_knee_where_it_was() -> None:
    curve = draw_curve("hyperbola", 3, capacity=80)
    found, asked = run_search(SEARCHES["random"], curve, 1, 80, seed=4)
    assert len(asked) >= 6
    assert len(set(asked)) == len(asked)
    assert found.knee in asked
    assert run_search(SEARCHES["random"], curve, 1, 80, seed=5)[1] != asked


@pytest.mark.parametrize("arm", BASELINES)
def test_the_decision_plays_the_search_that_is_injected(arm: str) -> None:
    """Algorithm 2 begins it on errors; it asks for what the search alone asks for, and ends with its knee."""
    policy = Policy(60, search=SEARCHES[arm])
    state, replicas, now_s, asked = State(), 1, 0.0, []
    while not state.known:
        now_s += 30
        throughput = 20 * replicas / (replicas + 19)
        sample = Sample(
            replicas, replicas, now_s - 30, now_s - 30, now_s, throughput, 1.0, 20 / throughput, 0.5, 60
        )
        decision = decide(policy, state, sample, now_s)
        assert decision.valid
        state, replicas = decision.state, decision.replicas or replicas
        asked.append(replicas)
    found, alone = run_search(SEARCHES[arm], lambda r: (20 * r / (r + 19)) ** 2 / 20, 2, 60)
    assert asked == [*alone, found.knee]


@pytest.mark.parametrize("arm", BASELINES)
@pytest.mark.parametrize(("at_end", "left"), [(AtEnd.STOP, 0), (AtEnd.HOLD, 1)])
def test_a_budget_ends_it_too(arm: str, at_end: AtEnd, left: int) -> None:
    policy = Policy(60, search=SEARCHES[arm], budget=Budget(30, 9000, at_end))
    state, replicas, now_s = State(), 1, 0.0
    for _ in range(40):
        now_s += 30
        sample = Sample(replicas, replicas, now_s - 30, now_s - 30, now_s, 1.0, 1.0, 1.0, 0.5, 60)
        decision = decide(policy, state, sample, now_s)
        state, replicas = decision.state, replicas if decision.replicas is None else decision.replicas
        assert replicas <= 30
        if state.spending and state.spending.spent >= 30:
            break
    assert replicas == left


def test_the_live_controller_takes_the_search_from_the_annotation() -> None:
    plain = kneepolicy()
    assert read_policy(plain).policy.search == SEARCHES["ours"]
    for arm, search in SEARCHES.items():
        obj: dict[str, Any] = {
            **plain,
            "metadata": plain["metadata"] | {"annotations": {SEARCH_ANNOTATION: arm}},
        }
        read = read_policy(obj)
        assert read.policy.search == search
        assert replace(read.policy, search=SEARCHES["ours"]) == read_policy(plain).policy
    assert set(SEARCHES) <= set(ARMS)
