"""`surgekit bench knee-search`: the search alone, on curves from a file or from the blind families."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from experiments.intervals import mean
from experiments.kneescale.blind_families import FAMILIES, draw
from experiments.kneescale.curve_families import run_search
from experiments.kneescale.curve_file import MeasuredCurve, true_knee
from experiments.kneescale.searches import SEARCHES
from hpa_replacement.search.best import tolerance
from hpa_replacement.search.kneedle import find_knee

__all__ = ["FULL_SWEEP", "blind_curves", "run", "table"]

FULL_SWEEP = "kneedle_full_sweep"


@dataclass(frozen=True)
class _Answer:
    """One search on one curve."""

    off: float  # from the true knee, as a share of capacity
    within: bool  # max(1, 2 % of capacity)
    samples: int
    replicas: float  # all that it asked for, in capacities


def run(
    curves: Sequence[MeasuredCurve], noise: float, seeds: Sequence[int], say: Callable[[str], None]
) -> dict[str, Any]:
    """Search every curve once with each seed, which draws the noise: each sample is off by N(0, noise)."""
    answers: dict[str, list[_Answer]] = {name: [] for name in (*SEARCHES, FULL_SWEEP)}
    for number, curve in enumerate(curves, start=1):
        for seed in seeds:
            for name, found in answers.items():
                found.append(_search(name, curve, noise, seed))
        if number % 50 == 0:
            say(f"{number} of {len(curves)} curves")
    return {
        "curves": len(curves),
        "noise": noise,
        "seeds": [seeds[0], seeds[-1]],
        "searches": {name: _figures(found, len(seeds)) for name, found in answers.items()},
        "by_curve": _by_curve(curves, answers, len(seeds)),
    }


def blind_curves(seeds: Sequence[int]) -> list[MeasuredCurve]:
    """One curve of each family and seed, of families whose writer had not seen the search."""
    drawn = (draw(family, seed) for family in FAMILIES for seed in seeds)
    return [MeasuredCurve(curve.family, curve.scores) for curve in drawn]


def table(figures: Mapping[str, Any]) -> Table:
    found = Table(
        "search", "within 2 % of capacity", "mean error", "samples, mean (most)", "replicas / capacity"
    )
    for name, of in figures["searches"].items():
        within = of["within"]
        found.add_row(
            name,
            f"{within['mean']:.0%} ({within['low']:.0%} to {within['high']:.0%})",
            f"{of['error_mean']:.1%}",
            f"{of['samples_mean']:.1f} ({of['samples_most']})",
            f"{of['replicas_mean']:.1f}",
        )
    return found


def _search(name: str, curve: MeasuredCurve, noise: float, seed: int) -> _Answer:
    rng = np.random.default_rng([seed, curve.capacity, 77])

    def score(replicas: int) -> float:
        return float(max(curve.scores[replicas - 1] * (1 + noise * rng.standard_normal()), 0.0))

    if name == FULL_SWEEP:
        asked = list(range(1, curve.capacity + 1))
        knee = find_knee((replicas, score(replicas)) for replicas in asked) or curve.capacity
    else:
        found, asked = run_search(SEARCHES[name], score, 1, curve.capacity, seed)
        knee = found.knee
    off = abs(knee - true_knee(curve.scores))
    return _Answer(
        off / curve.capacity, off <= tolerance(curve.capacity), len(asked), sum(asked) / curve.capacity
    )


def _figures(answers: Sequence[_Answer], draws: int) -> dict[str, Any]:
    of_curve = [answers[i : i + draws] for i in range(0, len(answers), draws)]
    return {
        "within": mean([statistics.mean(a.within for a in found) for found in of_curve]),
        "error_mean": statistics.mean(a.off for a in answers),
        "error_p95": float(np.quantile([a.off for a in answers], 0.95)),
        "samples_mean": statistics.mean(a.samples for a in answers),
        "samples_most": max(a.samples for a in answers),
        "replicas_mean": statistics.mean(a.replicas for a in answers),
    }


def _by_curve(
    curves: Sequence[MeasuredCurve], answers: Mapping[str, Sequence[_Answer]], draws: int
) -> list[dict[str, Any]]:
    return [
        {"name": curve.name, "capacity": curve.capacity, "true_knee": true_knee(curve.scores)}
        | {
            name: {
                "within": statistics.mean(a.within for a in found[i * draws : (i + 1) * draws]),
                "error_mean": statistics.mean(a.off for a in found[i * draws : (i + 1) * draws]),
            }
            for name, found in answers.items()
        }
        for i, curve in enumerate(curves)
    ]
