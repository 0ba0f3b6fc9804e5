"""What an idle instance is worth, and how many are."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from burst_plane.filter import InterArrivals, soon
from burst_plane.worth import idle_s, staffed

MIB = 1 << 20


def blocked(at_once: float, slots: int) -> float:
    """Erlang's B, by its definition."""
    terms = [at_once**n / math.factorial(n) for n in range(slots + 1)]
    return terms[-1] / sum(terms)


@given(st.floats(0.0, 30.0), st.floats(0.0, 1e4), st.integers(1, 4))
def test_each_instance_saves_a_start_and_one_more_would_not(
    at_once: float, arrivals: float, concurrency: int
) -> None:
    def saves(number: int) -> float:
        slots = number * concurrency
        return arrivals * (blocked(at_once, slots - concurrency) - blocked(at_once, slots))

    found = staffed(at_once, arrivals, concurrency, 40)
    assert found == 40 or saves(found + 1) <= 1.0 + 1e-9
    assert found == 0 or saves(found) > 1.0 - 1e-9


def test_an_idle_instance_costs_what_a_start_is_worth() -> None:
    assert idle_s(60.0, 80 * MIB, 0.0) == 60.0
    assert idle_s(60.0, 40 * MIB, 0.0) == 120.0
    assert idle_s(60.0, 80 * MIB, 20.0) > 120.0
    assert 300.0 < idle_s(60.0, 80 * MIB, 0.001) < 301.0
    assert idle_s(60.0, 100_000 * MIB, 1.0) == 6.0
    assert idle_s(3600.0, 1, 1.0) == 1800.0


def test_an_instance_is_there_when_a_timer_is_due_and_not_before() -> None:
    history = InterArrivals()
    for number in range(10):
        history.observe(1, 300.0 * number)
    last_s = 2700.0
    due = [soon(history, 60.0, last_s + s) for s in (1.0, 100.0, 270.0, 290.0, 299.0, 310.0)]
    assert due == [False, False, False, True, True, False]


def test_an_instance_waits_where_requests_follow_each_other_and_goes_when_they_stop() -> None:
    history = InterArrivals()
    for second in range(0, 100, 5):
        history.observe(1, float(second))
    assert soon(history, 60.0, 96.0)
    assert not soon(history, 60.0, 130.0)
    assert not soon(InterArrivals(), 60.0, 0.0)
