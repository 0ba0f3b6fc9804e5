"""Where clusters lie on the placement curves, as far as a public trace of CPU loads tells.

Nobody has published how fast nodes create containers, moment by moment. If a creation slows down with the
CPU that others use, ln(tau) wanders as ln(idle CPU) does: `wandering` says how, and `walks` how the lab's
speeds would look at the same moments. `python -m experiments.placement.node_loads FILE` prints both, for a
file in the format of Alibaba's machine_usage.csv (cluster-trace-v2018): machine, seconds, percent of CPU in
use, ...
"""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar

from kwok.scenario import SPREAD, Scenario, Walk

__all__ = ["BUSY_SPREADS", "BUSY_STEPS_S", "Wandering", "read", "walks", "wandering"]

# Of the walks that are like six busy machines of that trace: docs/results/node-speeds.md.
BUSY_STEPS_S, BUSY_SPREADS = (20.0, 30.0), (0.21, 0.53)

# Seconds between two samples; their correlation is taken within each of these bins.
_LAGS_S = (5.0, 15.0, 45.0, 90.0, 180.0, 360.0, 720.0, 1500.0, 3000.0)
_BINS = list(itertools.pairwise(_LAGS_S))
_STEPS_S, _SEEDS = (10.0, 20.0, 30.0, 60.0, 120.0), range(12)
Loads = Mapping[str, Sequence[tuple[float, float]]]  # by machine: (seconds, percent in use)


@dataclass(frozen=True)
class Wandering:
    """Over all machines, each around its own mean."""

    spread: float  # standard deviation of ln(idle CPU)
    memory_s: float  # of the exponential that fits the correlation best
    correlation: tuple[float, ...]  # of ln(idle CPU) with itself, by bin of lags
    between: float  # standard deviation of the machines' means


def wandering(loads: Loads) -> Wandering:
    apart, pairs = np.zeros(len(_BINS)), np.zeros(len(_BINS))
    variances, means = [], []
    for samples in loads.values():
        times_s, used = np.array(samples, dtype=float).T
        idle = np.log(100 - np.minimum(used, 99))
        variances.append(idle.var())
        means.append(idle.mean())
        lag_s = times_s[None, :] - times_s[:, None]
        squares = (idle[None, :] - idle[:, None]) ** 2 / (2 * idle.var())
        for at, (low, high) in enumerate(_BINS):
            inside = (lag_s > low) & (lag_s <= high)
            apart[at] += squares[inside].sum()
            pairs[at] += inside.sum()
    correlation = 1 - apart / pairs
    spread = float(np.sqrt(np.mean(variances)))
    return Wandering(spread, _memory_s(correlation), tuple(correlation.tolist()), float(np.std(means)))


def _memory_s(correlation: np.ndarray) -> float:
    middles_s = np.array([np.sqrt(low * high) for low, high in _BINS])

    def off(log_memory: float) -> float:
        return float(((np.exp(-middles_s / np.exp(log_memory)) - correlation) ** 2).sum())

    return float(np.exp(minimize_scalar(off, bounds=(0.0, 12.0)).x))


def walks(loads: Loads, steps_s: Sequence[float] = _STEPS_S) -> dict[float, Wandering]:
    """By step: walks of the default spread, on as many machines and sampled at the same moments."""
    found = {}
    for step_s in steps_s:
        each = [_walk(loads, Walk.of_spread(SPREAD, step_s), seed) for seed in _SEEDS]
        found[step_s] = Wandering(
            float(np.mean([w.spread for w in each])),
            float(np.mean([w.memory_s for w in each])),
            tuple(np.mean([w.correlation for w in each], axis=0).tolist()),
            float(np.mean([w.between for w in each])),
        )
    return found


def _walk(loads: Loads, walk: Walk, seed: int) -> Wandering:
    speeds = Scenario.draw(seed, list(loads), tau_create_s=1.0, walk=walk)
    # A tau of 1 is as half of the CPU idle; the walk is clipped well before all of it would be.
    return wandering(
        {
            name: [(at_s, 100 - 50 / speeds.tau_create_s(name, at_s - of[0][0])) for at_s, _ in of]
            for name, of in loads.items()
        }
    )


def read(file: Path) -> Loads:
    """Without samples out of range: -1 and 101 are invalid there."""
    found: dict[str, list[tuple[float, float]]] = {}
    with file.open(newline="") as lines:
        for machine, seconds, used, *_ in csv.reader(lines):
            if used and 0 <= float(used) <= 100:
                found.setdefault(machine, []).append((float(seconds), float(used)))
    return found


def _print(name: str, found: Wandering) -> None:
    correlation = " ".join(f"{value:5.2f}" for value in found.correlation)
    print(f"{name:10} {found.spread:.2f} {found.memory_s:6.0f} s  {found.between:.2f}  {correlation}")  # noqa: T201  # a command


if __name__ == "__main__":
    machines = read(Path(sys.argv[1]))
    for one, samples in machines.items():
        _print(one, wandering({one: samples}))
    _print("all", wandering(machines))
    for step_s, like in walks(machines).items():
        _print(f"walk {step_s:g} s", like)
