"""The sweep and its knee, on curves whose knee is known."""

from __future__ import annotations

import math
import random

import pytest

from experiments.kneescale.true_knee import Steady, hpa_replicas, measure, sweep, true_knee
from kwok.errors import TrafficError
from kwok.traffic.functions import FUNCTIONS


def points(scores: list[float]) -> list[Steady]:
    return [Steady(r, score, 1.0, 0.0, 1 / r) for r, score in enumerate(scores, 1)]


def amdahl(replicas: int, clients: int) -> float:
    return (replicas / (clients + replicas - 1)) ** 2


@pytest.mark.parametrize(("clients", "most"), [(20, 114), (20, 76), (10, 114), (30, 76)])
@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_the_knee_is_where_the_curve_is_farthest_above_its_chord(
    clients: int, most: int, noise: float
) -> None:
    draw = random.Random(4)
    exact = [amdahl(r, clients) for r in range(1, most + 1)]
    low, high = exact[0], exact[-1]
    above = [(y - low) / (high - low) - i / (most - 1) for i, y in enumerate(exact)]
    expected = 1 + above.index(max(above))
    knee = true_knee(points([score * (1 + draw.gauss(0, noise)) for score in exact]))
    assert knee == pytest.approx(expected, abs=0 if noise == 0 else 3)


def test_a_curve_without_a_knee() -> None:
    assert true_knee(points([1.0] * 10)) is None
    with pytest.raises(TrafficError, match="at least 5 counts, not 4"):
        true_knee(points([1.0, 2.0, 3.0, 3.5]))


def test_a_measurement_obeys_littles_law_and_depends_on_its_seed_only() -> None:
    function = FUNCTIONS["matmul"]
    one = measure(function, 20, 10, duration_s=600)
    assert one.throughput_per_s * one.latency_s == pytest.approx(20, rel=0.02)
    assert one.score == pytest.approx(one.throughput_per_s**2 / 20, rel=0.02)
    assert one.cpu_utilisation == pytest.approx(one.throughput_per_s * 0.8 / 10, rel=0.02)
    assert sweep(function, 20, [10], duration_s=600) == [one]
    assert sweep(function, 20, [3, 10], duration_s=600, processes=2)[1] == one
    with pytest.raises(TrafficError, match="duration_s"):
        measure(function, 20, 10, duration_s=0)


def test_nothing_answered_scores_nothing() -> None:
    assert Steady(1, 0.0, math.inf, 1.0, 1.0).score == 0


def test_where_an_hpa_comes_to_rest() -> None:
    assert hpa_replicas(points([1.0] * 10), 0.3) == 4  # utilisation 1/r
    assert hpa_replicas(points([1.0] * 10), 0.05) == 10
