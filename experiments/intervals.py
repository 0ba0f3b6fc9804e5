"""Means and medians with 95 % bootstrap intervals. Pure: the same values give the same interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["geometric_mean", "in_words", "mean", "median", "rounded"]

_RESAMPLES = 4000
_BOUNDS = (0.025, 0.975)


def geometric_mean(ratios: Sequence[Sequence[float]]) -> dict[str, float]:
    """Of ratios above 0: `geomean` with `low` and `high`.

    Each inner list is one seed (or round) with a ratio for each function. Both are drawn again with
    replacement: another run would have other seeds, and another user other functions.
    """
    logs = [np.log(np.asarray(of_seed, dtype=float)) for of_seed in ratios if len(of_seed)]
    found = _bootstrapped(logs)
    return {name: float(np.exp(value)) for name, value in zip(("geomean", "low", "high"), found, strict=True)}


def mean(values: Sequence[float]) -> dict[str, float]:
    """`mean` with `low` and `high`."""
    found = _bootstrapped([np.asarray([value], dtype=float) for value in values])
    return dict(zip(("mean", "low", "high"), found, strict=True))


def median(values: Sequence[float]) -> dict[str, float]:
    """`median` with `low` and `high`."""
    if not values:
        raise ValueError("no values to take the median of")
    rng = np.random.default_rng(2026)
    table = np.asarray(values, dtype=float)
    medians = np.median(table[rng.integers(0, len(table), (_RESAMPLES, len(table)))], axis=1)
    low, high = np.quantile(medians, _BOUNDS)
    return {"median": float(np.median(table)), "low": float(low), "high": float(high)}


def rounded(interval: Mapping[str, float], digits: int = 4) -> dict[str, float]:
    return {key: round(value, digits) for key, value in interval.items()}


def in_words(interval: Mapping[str, Any], digits: int = 2) -> str:
    """As `1.27 (1.10 to 1.46)`."""
    middle = next(interval[key] for key in ("geomean", "mean", "median") if key in interval)
    return f"{middle:.{digits}f} ({interval['low']:.{digits}f} to {interval['high']:.{digits}f})"


def _bootstrapped(groups: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """The mean of the groups' means, and its interval."""
    if not groups:
        raise ValueError("no values to take the mean of")
    rng = np.random.default_rng(2026)
    width = max(map(len, groups))
    if any(len(group) != width for group in groups):
        raise ValueError("every seed needs a ratio for every function")
    table = np.array(groups)
    rows = rng.integers(0, len(table), (_RESAMPLES, len(table), 1))
    columns = rng.integers(0, width, (_RESAMPLES, 1, width))
    means = table[rows, columns].mean(axis=(1, 2))
    low, high = np.quantile(means, _BOUNDS)
    return float(table.mean()), float(low), float(high)
