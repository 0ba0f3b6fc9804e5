"""Autopilot's recommender: follows the largest use, at the price of what it was told to avoid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.escra.autopilot import Autopilot, Weights
from experiments.escra.autopilot_tuning import TUNED, outcome

STEP, STEPS = 10.0, 200


def last_limit(autopilot: Autopilot, use: Callable[[float], float], periods: int) -> float:
    """The limit after so many periods of ten samples; use depends on the limit."""
    limit = STEP * STEPS
    for _ in range(periods):
        limit = autopilot.recommend([use(limit)] * 10)
    return limit


@pytest.mark.parametrize("weights", TUNED)
def test_a_constant_use_fits_into_the_limit(weights: Weights) -> None:
    limit = last_limit(Autopilot(STEP, STEPS, weights), lambda _: 500.0, 50)
    assert 500.0 < limit <= 2.2 * 500.0


@pytest.mark.parametrize("weights", TUNED)
def test_a_throttled_container_is_let_go(weights: Weights) -> None:
    autopilot = Autopilot(STEP, STEPS, weights)
    assert last_limit(autopilot, lambda _: 100.0, 60) < 300.0
    assert last_limit(autopilot, lambda limit: min(limit, 1000.0), 30) > 1000.0


def test_overrun_that_costs_more_leads_to_higher_limits() -> None:
    samples = [100.0] * 8 + [900.0] * 2

    def limit(overrun: float) -> float:
        weights = replace(TUNED[0], overrun=overrun, underrun=1.0, limit_change=0.0)
        autopilot = Autopilot(STEP, STEPS, weights)
        return [autopilot.recommend(samples) for _ in range(50)][-1]

    assert limit(0.1) < 900.0 < limit(10.0)


def test_a_change_that_costs_much_is_not_made() -> None:
    autopilot = Autopilot(STEP, STEPS, Weights(10.0, 1.0, 1e6, 1e6, 0.2))
    first = autopilot.recommend([500.0] * 10)
    assert {autopilot.recommend([value] * 10) for value in (400.0, 300.0, 600.0)} == {first}


@given(st.lists(st.lists(st.floats(0, 5000), min_size=1, max_size=12), min_size=1, max_size=12))
def test_limits_are_among_those_on_offer(periods: list[list[float]]) -> None:
    autopilot = Autopilot(STEP, STEPS, TUNED[0])
    for samples in periods:
        assert STEP <= autopilot.recommend(samples) <= STEP * STEPS


def test_what_a_limit_misses_is_counted_in_virtual_time() -> None:
    work = np.array([100, 300, 100, 100])
    assert outcome(work, 200.0, None, works=True).missed == pytest.approx(100 / 600)
    assert outcome(work, 200.0, None, works=False).missed == 1 / 4
    assert outcome(work, 400.0, None, works=True).slack == (1600 - 600) / 600
