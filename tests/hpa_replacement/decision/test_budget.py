"""Replica-intervals over a window."""

from __future__ import annotations

import pytest

from hpa_replacement.decision import budget
from hpa_replacement.decision.model import Spending
from hpa_replacement.decision.policy import AtEnd, Budget

ALLOWED = Budget(1000, 900)


def charged(spending: Spending | None, replicas: int, since_s: float, now_s: float) -> Spending:
    return budget.charge(spending, ALLOWED, interval_s=30, replicas=replicas, since_s=since_s, now_s=now_s)


def test_what_ran_is_charged_for_the_time_it_ran() -> None:
    first = charged(None, 40, 100, 100)
    assert first == Spending(100, 0)
    later = charged(charged(first, 40, 100, 130), 10, 130, 145)
    assert later.spent == pytest.approx(40 + 5)
    assert budget.left(later, ALLOWED) == pytest.approx(955)
    assert budget.affordable(later, ALLOWED) == 955


def test_a_new_window_begins_on_its_grid_and_only_what_ran_in_it_is_charged() -> None:
    spending = charged(Spending(0, 990), 30, 890, 2715)
    assert spending == Spending(2700, 15.0)  # 15 s of 30 replicas in it


def test_a_clock_that_went_back_charges_nothing() -> None:
    assert charged(Spending(0, 10), 30, 200, 100) == Spending(0, 10)


@pytest.mark.parametrize(
    ("spent", "now_s", "each"),
    [
        (0, 0, 1000 / 30),
        (500, 450, 500 / 15),
        (1000, 450, 0),
        (1200, 450, 0),
        (900, 899, 100),
        (900, 5000, 100),
    ],
)
def test_what_each_interval_gets(spent: float, now_s: float, each: float) -> None:
    assert budget.affordable_on_average(Spending(0, spent), ALLOWED, 30, now_s) == pytest.approx(each)


def test_the_end() -> None:
    assert budget.at_end(ALLOWED, 2) == 2
    assert budget.at_end(Budget(1000, 900, AtEnd.STOP), 2) == 0
