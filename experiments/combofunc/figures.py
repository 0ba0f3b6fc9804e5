"""Figures of the comparison: each arm's averages, and baseline / ours."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.combofunc.arms import OURS
from experiments.combofunc.simulation import Outcome
from experiments.combofunc.track import Track
from experiments.combofunc.workload import FUNCTIONS
from experiments.intervals import geometric_mean

__all__ = ["averages", "compared", "decisions", "ratios", "utilisation"]

# Name of a ratio -> the average that it compares.
_RATIOS = {
    "time_ratio": "scaling_s",
    "cost_ratio": "cost",
    "unit_cost_ratio": "unit_cost",
    "core_ratio": "cores",
    "memory_ratio": "gib",
    "short_ratio": "short",
}
# A rise that needed nothing counts as this, on both sides: nobody notices less.
_LEAST_SCALING_S = 0.02
Averages = Mapping[str, Mapping[str, float]]  # function -> figure


def compared(played: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    """Figures of each arm over all rounds, and baseline / ours with intervals over rounds and functions."""
    rounds = {arm: [averages([outcome]) for outcome in outcomes] for arm, outcomes in played.items()}
    arms = {arm: averages(outcomes) for arm, outcomes in played.items()}
    return {key: ratios(rounds, of) for key, of in _RATIOS.items()} | {"arms": arms}


def averages(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """By function, over all rounds: every rise counts the same, and every sample."""
    return {name: _average([o.tracks[name] for o in outcomes]) for name in FUNCTIONS}


def _average(tracks: Sequence[Track]) -> dict[str, float]:
    scaling = [s for t in tracks for s in t.scaling_s]
    samples = [(t.target[i], t.price[i], t.replicas[i]) for t in tracks for i in range(len(t.at_s))]
    seconds = sum(t.seconds for t in tracks)
    found = {
        "scaling_s": statistics.mean(scaling),
        "scaling_p95_s": float(np.quantile(scaling, 0.95)),
        "rises": len(scaling),
        "cut_short": sum(t.cut_short for t in tracks),
        # All arms are asked for the same concurrency; what they offer beyond it is cost, not service.
        "cost": sum(price for _, price, _ in samples) / sum(target for target, _, _ in samples),
        "unit_cost": statistics.mean(t.resource_cost for t in tracks),  # B_f as printed
        "cores": sum(t.core_s for t in tracks) / seconds,
        "gib": sum(t.gib_s for t in tracks) / seconds,
        "short": sum(t.short_s for t in tracks) / seconds,
        "replicas": statistics.mean(replicas for _, _, replicas in samples),
        "target": statistics.mean(target for target, _, _ in samples),
    }
    return {key: round(value, 4) for key, value in found.items()}


def ratios(rounds: Mapping[str, Sequence[Averages]], of: str) -> dict[str, dict[str, Any]]:
    """Other arm / ours: above 1, ours is better. Geometric means, because a half and a double cancel out."""
    least = _LEAST_SCALING_S if of == "scaling_s" else 0.0
    found: dict[str, dict[str, Any]] = {}
    for arm in (a for a in rounds if a != OURS):
        table = [
            [(theirs[name][of] + least) / (ours[name][of] + least) for name in FUNCTIONS]
            for theirs, ours in zip(rounds[arm], rounds[OURS], strict=True)
            if all(averages[name][of] + least > 0 for averages in (theirs, ours) for name in FUNCTIONS)
        ]
        if table:
            by_function = np.exp(np.log(table).mean(axis=0))
            found[arm] = {key: round(value, 4) for key, value in geometric_mean(table).items()} | {
                "by_function": {n: round(float(r), 4) for n, r in zip(FUNCTIONS, by_function, strict=True)}
            }
    return found


def utilisation(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """Utilisation of nodes over time (RQ3): the 0th, 5th, ... 100th percentile."""
    marks = np.linspace(0, 1, 21)
    return {
        kind: [
            round(float(q), 4)
            for q in np.quantile([u for o in outcomes for u in getattr(o, f"{kind}_utilisation")], marks)
        ]
        for kind in ("cpu", "memory")
    }


def decisions(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """How long our decisions took (RQ7), on this machine."""
    taken = [1000 * s for o in outcomes for t in o.tracks.values() for s in t.decided_s]
    if not taken:
        return {}
    return {
        "mean": round(statistics.mean(taken), 3),
        "p50": round(float(np.quantile(taken, 0.5)), 3),
        "p99": round(float(np.quantile(taken, 0.99)), 3),
        "decisions": len(taken),
    }
