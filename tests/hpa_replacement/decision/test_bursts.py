"""Loads that come and go faster than a search: what is kept for them, and what they are taken for."""

from __future__ import annotations

import random

import pytest

from hpa_replacement.decision.decide import decide
from hpa_replacement.decision.model import Sample, State
from hpa_replacement.decision.policy import AtEnd, Budget, Policy
from hpa_replacement.search import Point
from hpa_replacement.search.load import load_of
from hpa_replacement.status import read_state, status_of

CAPACITY = 76


def sample(clients: int, replicas: int, now_s: float) -> Sample:
    """A closed loop, as in closed_loop.py, without noise."""
    throughput = replicas * clients / (clients + replicas - 1)
    return Sample(
        replicas, replicas, 0.0, now_s - 30, now_s, throughput, 0.0, clients / throughput, None, CAPACITY
    )


def run(clients: list[int], budget: Budget | None = None) -> list[tuple[int, State]]:
    policy, state, replicas, went = Policy(CAPACITY, budget=budget), State(), 1, []
    for i, count in enumerate(clients, 1):
        decision = decide(policy, state, sample(count, replicas, i * 30.0), i * 30.0)
        state, replicas = decision.action.state, decision.action.replicas or replicas
        went.append((replicas, state))
    return went


def test_a_burst_that_comes_back_within_five_minutes_finds_its_replicas() -> None:
    burst = [28, 28] + [1] * 8
    went = run([10] * 12 + burst * 4)
    at_the_start_of = [went[12 + 10 * i - 1][0] for i in (2, 3)]
    assert min(at_the_start_of) >= 20


def test_a_load_that_is_gone_for_longer_is_not_provided_for() -> None:
    went = run([20] * 12 + [2] * 14)
    assert went[-1][0] < went[12][0] / 3


def spread_over(intervals: int) -> Budget:
    return Budget(20 * intervals, intervals * 30.0, AtEnd.STOP)


def without_order(count: int) -> list[int]:
    draw = random.Random(3)
    return [draw.choice([2, 2, 2, 30]) for _ in range(count)]


def test_with_a_budget_bursts_without_order_find_its_average_standing() -> None:
    """To follow them would be too late each time, and cost what is then missing."""
    went = [replicas for replicas, _ in run([20] * 12 + without_order(180), spread_over(200))]
    assert min(went[60:180]) >= 14


def test_with_a_budget_bursts_that_come_regularly_are_prepared_for_and_paid_by_the_time_between() -> None:
    burst = [28, 28] + [2] * 8
    went = [replicas for replicas, _ in run(burst * 18, spread_over(200))]
    when_it_begins, between = went[99:180:10], went[104:180:10]  # decided an interval earlier
    assert min(when_it_begins) >= 30
    assert max(between) <= 20


@pytest.mark.parametrize("loads", [([28, 28] + [2] * 8) * 20, [20] * 12 + without_order(188)])
def test_a_budget_lasts_to_the_end_of_its_window(loads: list[int]) -> None:
    went = [replicas for replicas, _ in run(loads, spread_over(200))]
    assert sum(went) <= 20 * 200 + went[-1]  # the last decision is for the next window
    for first in range(40, 200, 40):
        assert 15 <= sum(went[first : first + 40]) / 40 <= 26


def test_with_a_budget_a_higher_load_is_not_searched_again() -> None:
    """Its knee is guessed, in proportion to the load; the budget limits it."""
    went = run([3] * 12 + [28] * 10, spread_over(200))
    assert all(state.search is None for _, state in went[12:])
    assert went[-1][0] >= 20
    assert any(state.search for _, state in run([3] * 12 + [28] * 10)[12:]), "without a budget it is"


def test_a_search_within_a_budget_asks_for_no_less_than_half_of_its_average() -> None:
    asked = {replicas for replicas, state in run([20] * 12, spread_over(100)) if state.search is not None}
    assert asked
    assert min(asked) >= 10


def test_a_search_is_set_aside_when_its_load_is_gone_and_goes_on_when_it_is_back() -> None:
    # Load 3 is known; 28 is not, and lasts two intervals.
    went = run([3] * 12 + [28, 28] + [3] * 3)
    assert went[11][1].search is None
    assert went[13][1].search is not None
    kept = went[14][1]
    assert kept.search is None
    assert max(p.concurrency for p in kept.evidence) == pytest.approx(28)


def test_points_of_another_load_do_not_end_a_search_before_its_first_sample() -> None:
    """28 clients with errors at one replica: what one client taught says nothing about them."""
    state = run([1] * 12)[-1][1]
    assert state.search is None
    overloaded = Sample(1, 1, 0.0, 390.0, 420.0, 1.0, 0.8, 19.0, None, CAPACITY)
    decision = decide(Policy(CAPACITY), state, overloaded, 420.0)
    assert decision.action.state.search is not None
    assert decision.action.replicas is not None
    assert decision.action.replicas > 1


@pytest.mark.parametrize(
    ("points", "is_concurrency"),
    [
        # One client, then 28 with the same single replica: throughput hardly moved because it cannot.
        ([(18, 0.9, 1.0), (2, 0.8, 1.0), (5, 0.85, 1.0), (1, 0.8, 1.0), (1, 0.9, 28.0)], True),
        # Both move with the clients.
        ([(10, 6.0, 15.0), (20, 2.0, 3.0), (5, 3.0, 10.0), (15, 1.0, 2.0)], True),
        # An open loop: 8 a second whatever the replicas.
        ([(10, 8.0, 20.0), (20, 8.1, 10.0), (40, 7.9, 8.1)], False),
    ],
)
def test_what_is_taken_for_the_load(points: list[tuple[int, float, float]], is_concurrency: bool) -> None:
    among = tuple(Point(r, t / (c / t), t, c) for r, t, c in points)
    assert load_of(among[-1], among) == (among[-1].concurrency if is_concurrency else points[-1][1])


def test_loads_of_before_a_search_found_out_what_the_load_is_are_forgotten() -> None:
    """8 requests a second whatever the replicas; with one replica they wait, and concurrency is 150."""
    policy, state, replicas = Policy(CAPACITY, budget=spread_over(200)), State(), 1
    for i in range(1, 12):
        now_s, throughput = i * 30.0, min(8.0, replicas * 0.9)
        latency_s = 1.0 + (20.0 if throughput < 8 else 4.0 / replicas)
        seen = Sample(replicas, replicas, 0.0, now_s - 30, now_s, throughput, 0.0, latency_s, None, CAPACITY)
        decision = decide(policy, state, seen, now_s)
        state, replicas = decision.action.state, decision.action.replicas or replicas
    assert state.search is None
    assert set(state.loads) == {8.0}


def test_what_is_remembered_survives_a_restart() -> None:
    now_s = 30.0
    decision = decide(Policy(CAPACITY), State(), sample(10, 1, now_s), now_s)
    assert decision.action.state.loads == (10.0,)
    status = status_of(decision, None, 1, now_s)
    status["scaling"]["loads"] = list(status["scaling"]["loads"])  # as JSON gives it back
    assert read_state(status) == decision.action.state
