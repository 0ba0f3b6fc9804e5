"""A deadline goes by the clock it was given, and so does every part of it."""

from __future__ import annotations

import pytest

from cluster_autoscaler_hook.solver.deadline import Deadline


def test_time_passes_by_the_clock_given() -> None:
    now_s = 100.0
    deadline = Deadline.after(10.0, lambda: now_s)
    half = deadline.part(0.5)
    assert (deadline.left_s(), half.left_s()) == (10.0, 5.0)
    now_s = 105.0
    assert (deadline.left_s(), half.left_s()) == (5.0, 0.0)
    assert half.reached()
    assert not deadline.reached()


@pytest.mark.parametrize("seconds", [-0.1, float("nan")])
def test_seconds_that_are_none(seconds: float) -> None:
    with pytest.raises(ValueError, match="must be at least 0 seconds"):
        Deadline.after(seconds)
