"""The baseline searches of the paper: bounds, an end, a restart; and what the paper says of each."""

from __future__ import annotations

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
from tests.hpa_replacement.builders import World, kneepolicy
from tests.hpa_replacement.search.properties import (
    ANY_CURVE,
    OTHER_REPLICAS,
    ends_inside_its_bounds,
    ends_when_others_served,
)

BASELINES = ("hill_climbing", "random")


@given(arm=st.sampled_from(BASELINES), curve=st.fixed_dictionaries(ANY_CURVE))
@settings(max_examples=60)
def test_any_curve_ends_inside_its_bounds_and_a_restart_changes_nothing(
    arm: str, curve: dict[str, Any]
) -> None:
    ends_inside_its_bounds(SEARCHES[arm], **curve)


@given(arm=st.sampled_from(BASELINES), others=st.fixed_dictionaries(OTHER_REPLICAS))
@settings(max_examples=30)
def test_ends_also_when_other_replicas_served_than_asked_for(arm: str, others: dict[str, Any]) -> None:
    ends_when_others_served(SEARCHES[arm], **others)


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
        state, replicas = decision.action.state, decision.action.replicas or replicas
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
        decided = decide(policy, state, sample, now_s).action
        state, replicas = decided.state, replicas if decided.replicas is None else decided.replicas
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


@pytest.mark.parametrize("arm", BASELINES)
def test_the_live_controller_reaches_a_knee_with_it(arm: str) -> None:
    world = World()
    world.errors_per_s = 1.0  # Algorithm 2 searches on errors
    policy = kneepolicy()
    policy["metadata"]["annotations"] = {SEARCH_ANNOTATION: arm}
    world.add(policy)
    reconciler = world.reconciler(read_policy)
    asked = []
    while not world.status().get("knownKnees"):
        world.go(reconciler)
        asked.append(world.replicas["web"])
        assert len(asked) < 100
    left, right = 2, world.status()["lastSample"]["capacity"]
    found, alone = run_search(SEARCHES[arm], lambda r: (20 * r / (r + 19)) ** 2 / 20, left, right)
    assert asked == [*alone, found.knee]
