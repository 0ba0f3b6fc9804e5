"""Chooses Autopilot's weights in virtual time, on tuning seeds: what performs best.

    python -m experiments.escra.autopilot_tuning

Escra's authors took the weights that 'resulted in the best performance' (section VI-A). By performance alone
that is any limit above every use. So among weights whose slack is at most that of limits at 1.5 times the
peaks, those with the least waiting work (CPU), or with the least samples above the limit (memory), are taken.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from experiments.escra.autopilot import Autopilot, Weights
from experiments.escra.policy_sweep import workloads
from experiments.seeds import TUNING
from limit_allocator.allocation.model import PERIOD_US, Integers

__all__ = ["OOM_BUMP", "TUNED", "Outcome", "outcome"]

# An OOM kill tells that more is needed, but not how much: the Vertical Pod Autoscaler takes 1.2 times the
# limit (oom-bump-up-ratio), and so does our Autopilot.
OOM_BUMP = 1.2
_PERIODS_A_SECOND = 10
_SEEDS = TUNING[20:22]
_FACTOR = 1.5

# CPU, memory: what `main` prints first.
TUNED = (
    Weights(overrun=1.0, underrun=0.01, limit_change=0.1, model_change=0.1, cost_decay=0.3),
    Weights(overrun=10.0, underrun=0.1, limit_change=0.02, model_change=0.02, cost_decay=0.05),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one container, each as a share of its work, so that large ones do not decide alone."""

    missed: float  # work that waits for the next period (CPU), periods above the limit (memory)
    slack: float


def outcome(
    arriving_us: Integers, first_us: float, next_limit: Callable[[list[float]], float] | None, works: bool
) -> Outcome:
    """What does not fit waits (CPU, `works`) or only counts. Without `next_limit`, the first limit stays."""
    limit, waiting, missed, slack = first_us, 0.0, 0.0, 0.0
    samples: list[float] = []
    for arriving in arriving_us.tolist():
        work = waiting + arriving
        used = min(work, limit)
        waiting = work - used if works else 0.0
        missed += waiting if works else float(work > limit)
        slack += limit - used
        samples.append(used if works or work <= limit else OOM_BUMP * limit)
        if next_limit and len(samples) == _PERIODS_A_SECOND:
            limit, samples = max(next_limit(samples), PERIOD_US / 100), []
    total = float(arriving_us.sum())
    return Outcome(missed / (total if works else len(arriving_us)), slack / total)


def _containers() -> Iterator[Integers]:
    for seed in _SEEDS:
        for _, workload, _ in workloads(seed):
            yield from workload.arriving_us.T


def _held(arriving_us: Integers) -> Integers:
    """Memory, at the scale of CPU: it grows with the requests, and what they leave is collected together."""
    grown: Integers = np.cumsum(arriving_us) // 40
    return grown % max(int(arriving_us.mean()), 1) + PERIOD_US // 10


def _compared(works: bool) -> list[tuple[float, float, Weights]]:
    """What each setting misses, and its slack over that of static limits: means over containers."""
    loads = [load if works else _held(load) for load in _containers()]
    peaks = [
        float(np.convolve(load, np.ones(10) / 10, "valid").max() if works else load.max()) for load in loads
    ]
    static = [outcome(load, _FACTOR * peak, None, works) for load, peak in zip(loads, peaks, strict=True)]
    rows = []
    for overrun, underrun, change, decay in itertools.product(
        (1.0, 10.0, 100.0), (0.01, 0.1, 1.0), (0.02, 0.1), (0.05, 0.3)
    ):
        weights = Weights(overrun, underrun, change, change, decay)
        found = [
            outcome(load, _FACTOR * peak, Autopilot(PERIOD_US / 100, 200, weights).recommend, works)
            for load, peak in zip(loads, peaks, strict=True)
        ]
        missed = float(np.mean([one.missed for one in found]))
        rows.append(
            (missed, float(np.mean([f.slack / s.slack for f, s in zip(found, static, strict=True)])), weights)
        )
    return rows


def main() -> None:
    for works in (True, False):
        rows = _compared(works)
        least, slack, weights = min((row for row in rows if row[1] <= 1.0), key=lambda row: row[:2])
        sys.stdout.write(
            f"{'CPU' if works else 'memory'}: {least:.3g} missed, slack {slack:.2f} of static's: {weights}\n"
        )
        for row in sorted(rows, key=lambda row: row[0])[:8]:
            sys.stdout.write(f"   {row[0]:.3g} {row[1]:.2f} {row[2]}\n")


if __name__ == "__main__":
    main()
