"""How scaling time and cost are counted."""

from __future__ import annotations

import pytest

from experiments.combofunc.track import GIB, Holding, Track
from experiments.combofunc.workload import Size

SIZE = Size("c2", 2000, GIB, 2)


def test_a_rise_ends_when_the_ready_concurrency_has_come_up_to_it() -> None:
    track = Track()
    track.aim(0.0, 4, 0)
    track.became(1.0, 3)
    track.became(2.5, 4)
    track.aim(10.0, 2, 4)  # a fall is no rise
    track.aim(20.0, 4, 4)  # it is there already
    assert track.scaling_s == [2.5, 0.0]
    assert track.cut_short == 0


def test_a_second_rise_leaves_the_first_running() -> None:
    track = Track()
    track.aim(0.0, 4, 0)
    track.aim(1.0, 6, 2)
    track.became(3.0, 4)
    track.became(5.0, 8)
    assert track.scaling_s == [3.0, 4.0]


def test_a_fall_ends_what_nobody_waits_for() -> None:
    track = Track()
    track.aim(0.0, 4, 0)
    track.aim(1.0, 8, 2)
    track.aim(2.0, 5, 2)  # 4 is still waited for, 8 is not
    track.became(3.0, 4)
    track.aim(4.0, 9, 4)
    track.end(6.0)
    assert track.scaling_s == [3.0, 1.0, 2.0]
    assert track.cut_short == 2


def test_prices_follow_the_node() -> None:
    """Eqs (7) to (9): 1.5 on an empty node, 0.5 on a full one."""
    assert Holding(SIZE, 1.0, 1.0).price == pytest.approx(4.5)
    assert Holding(SIZE, 0.0, 0.0).price == pytest.approx(1.5)
    assert Holding(SIZE, 0.5, 0.0).price == pytest.approx(2.5)


def test_what_is_reserved_and_missed() -> None:
    track = Track()
    track.aim(0.0, 4, 0)
    track.passed(2.0, 1, 3000, 2 * GIB)
    track.passed(1.0, 5, 1000, GIB)
    assert (track.core_s, track.gib_s, track.short_s, track.seconds) == (7.0, 5.0, 6.0, 3.0)
    track.sample(1.0, 1, [Holding(SIZE, 1.0, 1.0), Holding(SIZE, 1.0, 1.0)])
    track.sample(2.0, 1, [])
    assert track.resource_cost == pytest.approx(9.0 / 4)
