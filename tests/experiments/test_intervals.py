"""Bootstrap intervals."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.intervals import geometric_mean, in_words, mean, median


def test_ratios_that_cancel_are_1() -> None:
    found = geometric_mean([[2.0, 0.5], [4.0, 0.25]])
    assert found["geomean"] == pytest.approx(1.0)
    assert found["low"] < 1.0 < found["high"]


def test_equal_ratios_have_no_interval() -> None:
    assert geometric_mean([[1.5, 1.5]] * 4) == pytest.approx({"geomean": 1.5, "low": 1.5, "high": 1.5})


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Lognormal ratios around 1.2: about 190 of 200 intervals hold it. Of 20 values they are a bit narrow."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        values = np.log(1.2) + 0.3 * rng.standard_normal(20)
        found = geometric_mean([[ratio] for ratio in np.exp(values)])
        covered += found["low"] <= 1.2 <= found["high"]
    assert 172 <= covered <= 199


def test_functions_that_differ_widen_it() -> None:
    """Twenty seeds that agree on two functions that do not: the next function may be like either."""
    found = geometric_mean([[1.0, 4.0]] * 20)
    assert (found["low"], found["high"]) == pytest.approx((1.0, 4.0))


def test_the_same_values_give_the_same_interval() -> None:
    values = list(np.random.default_rng(2).uniform(0.5, 2.0, 30))
    assert mean(values) == mean(values)
    assert mean(values)["mean"] == pytest.approx(np.mean(values))


def test_a_median_has_an_interval_of_values_that_were_there() -> None:
    found = median([3.0, 1.0, 2.0, 10.0, 2.5])
    assert found["median"] == 2.5
    assert 1.0 <= found["low"] < 2.5 < found["high"] <= 10.0
    assert in_words(found, 1) == f"2.5 ({found['low']:.1f} to {found['high']:.1f})"
    with pytest.raises(ValueError, match="no values"):
        median([])


@pytest.mark.parametrize("ratios", [[], [[]], [[1.0, 2.0], [1.0]]])
def test_ratios_that_are_missing_are_no_silent_gap(ratios: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"no values|every function"):
        geometric_mean(ratios)
