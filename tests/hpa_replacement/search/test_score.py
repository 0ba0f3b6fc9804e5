"""Eq. (1) and Little's law."""

from __future__ import annotations

import math

import pytest

from hpa_replacement.search.score import concurrency, performance_score


def test_score_is_throughput_over_latency() -> None:
    assert performance_score(12.0, 0.5) == 24.0
    assert performance_score(0.0, 0.5) == 0.0


@pytest.mark.parametrize(
    ("throughput", "latency", "named"),
    [
        (-1.0, 1.0, "throughput_per_s: must be a number >= 0, is -1.0"),
        (math.nan, 1.0, "throughput_per_s"),
        (1.0, 0.0, "latency_s: must be a number > 0, is 0.0"),
        (1.0, math.inf, "latency_s"),
    ],
)
def test_what_is_no_measurement_is_refused(throughput: float, latency: float, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        performance_score(throughput, latency)


def test_failed_invocations_were_under_way_too() -> None:
    assert concurrency(8.0, 2.0, 2.0) == 20.0
