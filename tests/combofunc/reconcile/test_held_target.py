"""Which target a plan is made for after the target fell."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from combofunc.reconcile.held_target import RecentTargets, ends_at_s, held_target, note_target

KEEP_S = 60.0


def test_the_highest_target_of_the_window_is_held() -> None:
    recent: RecentTargets = ()
    held = []
    for at_s, target in ((0.0, 8), (10.0, 3), (40.0, 5), (69.0, 4), (70.0, 4), (129.0, 4), (130.0, 4)):
        recent = note_target(recent, target, KEEP_S, at_s)
        held.append(held_target(recent))
    assert held == [8, 8, 8, 8, 5, 4, 4], "8 was the target until 10 s, 5 until 69 s"


def test_when_it_ends_is_known() -> None:
    recent = note_target((), 8, KEEP_S, 0.0)
    assert ends_at_s(recent, KEEP_S) == math.inf
    recent = note_target(recent, 3, KEEP_S, 10.0)
    assert ends_at_s(recent, KEEP_S) == 70.0


def test_a_target_of_zero_and_a_window_of_zero_hold_nothing() -> None:
    recent = note_target((), 8, KEEP_S, 0.0)
    assert note_target(recent, 0, KEEP_S, 10.0) == ((10.0, 0),)
    assert note_target(recent, 3, 0.0, 10.0) == ((10.0, 3),)


@given(
    st.lists(st.tuples(st.floats(0.1, 100.0), st.integers(1, 20)), min_size=1, max_size=30),
    st.sampled_from([0.0, 5.0, 60.0, 1000.0]),
)
def test_it_is_the_highest_of_all_targets_in_the_window(
    steps: list[tuple[float, int]], keep_s: float
) -> None:
    """Against the definition: every target with the time until which it was one."""
    recent: RecentTargets = ()
    now_s, past, target = 0.0, list[tuple[float, int]](), None
    for wait_s, new in steps:
        now_s += wait_s
        if target is not None:
            past.append((now_s, target))
        target = new
        recent = note_target(recent, target, keep_s, now_s)
        counting = [t for until_s, t in past if until_s + keep_s > now_s]
        assert held_target(recent) == max([target, *counting])
        assert recent[-1] == (now_s, target)
        assert [t for _, t in recent] == sorted({t for _, t in recent}, reverse=True)
