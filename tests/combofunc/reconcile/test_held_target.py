"""Which target a plan is made for after the target fell."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from combofunc.reconcile.held_target import RecentTargets, ends_at_s, held_target, idle_until_s, note_target

KEEP_S = 60.0
ENOUGH = 1000  # runs: nothing bounds what is held
NEW = ((0.0, 0),)


def test_the_highest_target_of_the_window_is_held() -> None:
    recent: RecentTargets = NEW
    held = []
    for at_s, target in ((0.0, 8), (10.0, 3), (40.0, 5), (69.0, 4), (70.0, 4), (129.0, 4), (130.0, 4)):
        recent = note_target(recent, target, ENOUGH, KEEP_S, at_s)
        held.append(held_target(recent))
    assert held == [8, 8, 8, 8, 5, 4, 4], "8 was the target until 10 s, 5 until 69 s"


def test_when_it_ends_is_known() -> None:
    recent = note_target(NEW, 8, ENOUGH, KEEP_S, 0.0)
    assert ends_at_s(recent, KEEP_S) == math.inf
    recent = note_target(recent, 3, ENOUGH, KEEP_S, 10.0)
    assert ends_at_s(recent, KEEP_S) == 70.0


def test_a_target_of_zero_and_a_window_of_zero_hold_nothing() -> None:
    recent = note_target(NEW, 8, ENOUGH, KEEP_S, 0.0)
    assert note_target(recent, 0, ENOUGH, KEEP_S, 10.0) == ((10.0, 0),)
    assert note_target(recent, 3, ENOUGH, 0.0, 10.0) == ((10.0, 3),)


def test_what_does_not_run_is_not_held_and_does_not_come_back() -> None:
    recent = note_target(NEW, 100_000, 8, KEEP_S, 0.0)
    assert held_target(recent) == 100_000, "it is the target"
    recent = note_target(recent, 4, 8, KEEP_S, 1.0)
    assert held_target(recent) == 8
    recent = note_target(recent, 4, 6, KEEP_S, 2.0)
    recent = note_target(recent, 4, 8, KEEP_S, 3.0)
    assert held_target(recent) == 6, "two were lost meanwhile"


def test_a_new_leader_begins_with_what_runs() -> None:
    recent = note_target((), 4, 9, KEEP_S, 100.0)
    assert (held_target(recent), ends_at_s(recent, KEEP_S)) == (9, 160.0)
    assert held_target(note_target((), 12, 9, KEEP_S, 100.0)) == 12


@given(
    st.lists(st.tuples(st.floats(0.1, 100.0), st.integers(1, 20)), min_size=1, max_size=30),
    st.sampled_from([0.0, 5.0, 60.0, 1000.0]),
    st.data(),
)
def test_it_is_the_highest_target_of_the_window_as_far_as_it_runs(
    steps: list[tuple[float, int]], keep_s: float, data: st.DataObject
) -> None:
    """Against the definition: every target, the time until which it was one, and the least that ran since."""
    recent: RecentTargets = NEW
    now_s, past, target = 0.0, list[list[float]](), None
    for wait_s, new in steps:
        now_s += wait_s
        if target is not None:
            past.append([now_s, target])
        target, running = new, data.draw(st.integers(0, 30), label="running")
        for earlier in past:
            earlier[1] = min(earlier[1], running)
        recent = note_target(recent, target, running, keep_s, now_s)
        counting = [before for until_s, before in past if until_s + keep_s > now_s]
        assert held_target(recent) == max([target, *counting])
        assert recent[-1] == (now_s, target)
        assert [before for _, before in recent] == sorted({before for _, before in recent}, reverse=True)
        if keep_s:
            assert ends_at_s(recent, keep_s) > now_s


def test_idle_containers_stay_for_as_long_again_after_the_held_target_fell() -> None:
    before = note_target(NEW, 8, ENOUGH, KEEP_S, 0.0)
    assert idle_until_s(NEW, before, 0.0, KEEP_S, 0.0) == 0.0, "nothing fell"
    held = note_target(before, 3, ENOUGH, KEEP_S, 10.0)
    assert idle_until_s(before, held, 0.0, KEEP_S, 10.0) == 0.0, "the held target did not fall"
    fell = note_target(held, 3, ENOUGH, KEEP_S, 70.0)
    assert idle_until_s(held, fell, 0.0, KEEP_S, 70.0) == 130.0
    assert idle_until_s(fell, note_target(fell, 9, ENOUGH, KEEP_S, 80.0), 130.0, KEEP_S, 80.0) == 130.0
    assert idle_until_s(fell, note_target(fell, 0, ENOUGH, KEEP_S, 80.0), 130.0, KEEP_S, 80.0) == 0.0
    assert idle_until_s(fell, fell, 130.0, 0.0, 80.0) == 0.0
