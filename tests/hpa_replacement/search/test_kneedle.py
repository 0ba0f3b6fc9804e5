"""kneed as we call it, and why the true knee of a curve known everywhere is not what it answers first."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.kneescale.curve_families import FAMILIES, draw_curve, farthest_above_chord
from hpa_replacement.search import curves
from hpa_replacement.search.kneedle import find_knee


def closed_loop(clients: int, r: np.ndarray) -> np.ndarray:
    return np.asarray(clients * (r / (r + clients - 1)) ** 2)


@pytest.mark.parametrize("points", [[], [(1, 1.0), (2, 3.0)], [(1, 2.0), (2, 2.0), (3, 2.0)]])
def test_too_few_points_or_no_height_is_no_knee(points: list[tuple[int, float]]) -> None:
    assert find_knee(points) is None


def test_order_does_not_matter_and_the_later_of_two_counts() -> None:
    points = [(9, 3.0), (1, 0.0), (3, 9.0), (3, 2.7), (5, 2.9)]
    assert find_knee(points) == 3


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("closed loop", "queueing network")])
def test_on_concave_curves_it_is_the_point_farthest_above_the_chord(family: str) -> None:
    for seed in range(8):
        curve = draw_curve(family, seed)
        r = np.arange(1, curve.capacity + 1)
        knee = find_knee(zip(r.tolist(), curve.formula(r.astype(float)).tolist(), strict=True))
        assert knee == curve.knee


def test_a_convex_beginning_makes_kneed_stop_at_the_left_end() -> None:
    """30 clients, 76 replicas: the score begins with r^2, below its chord. We want the highest maximum."""
    r = np.arange(1, 77)
    scores = closed_loop(30, r.astype(float))
    assert find_knee(zip(r.tolist(), scores.tolist(), strict=True)) == 1
    assert farthest_above_chord(lambda x: closed_loop(30, x), 1, 76)[0] == 41


def test_knees_of_our_curves_are_what_brute_force_finds() -> None:
    left, right = 3, 150
    t = np.arange(left, right + 1) / right
    values = np.exp(curves.log_values_at(t))
    for row in range(0, len(values), 97):
        y = values[row]
        above = (y - y.min()) / max(y.max() - y.min(), 1e-12) - (t - t[0]) / (t[-1] - t[0])
        knee = curves.knees(left, right)[row] * right
        if y.max() < y[0] * 1.099:
            assert knee == left
        elif above.max() < 0.049:
            assert knee == right
        elif above.max() > 0.051 and y.max() > y[0] * 1.101:
            # Where the top is flat many points are as good; where it is sharp the grid is 0.5 % wide.
            off = abs(round(knee) - left - int(above.argmax()))
            assert off <= 1 or above[round(knee) - left] == pytest.approx(above.max(), abs=0.01)
