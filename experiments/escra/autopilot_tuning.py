"""Chooses Autopilot's weights in virtual time, on tuning seeds: what performs best.

    python -m experiments.escra.autopilot_tuning

Escra's authors took the weights that 'resulted in the best performance' (section VI-A). By performance alone
that is any limit above every use. So among weights whose slack is at most that of limits at 1.5 times the
peaks, those with the least waiting work (CPU), or with the least samples above the limit (memory), are taken.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from experiments.escra.autopilot import Autopilot, Weights
from experiments.escra.policy_sweep import workloads
from experiments.seeds import TUNING
from limit_allocator.allocation.model import PERIOD_US, Integers

__all__ = ["TUNED", "Outcome", "limited_by_autopilot"]

_PERIODS_A_SECOND = 10
_SEEDS = TUNING[20:22]
_FACTOR = 1.5

# CPU, memory. From this file's own table; see `main`.
TUNED = (Weights(), Weights())


class Outcome:
    """Sums over containers and periods."""

    def __init__(self) -> None:
        self.waiting = self.slack = self.over = 0.0

    def add(self, waiting: float, slack: float) -> None:
        self.waiting, self.slack, self.over = self.waiting + waiting, self.slack + slack, self.over + (waiting > 0)


def limited_by_autopilot(
    arriving_us: Sequence[int], first_us: float, weights: Weights, every_periods: int, works: bool
) -> Outcome:
    """One container. What does not fit waits (CPU, `works`), or only counts as too much (memory)."""
    autopilot, limit, waiting = Autopilot(PERIOD_US / 100, 200, weights), first_us, 0.0
    found, samples = Outcome(), []
    for step, arriving in enumerate(arriving_us):
        work = waiting + arriving
        used = min(work, limit)
        found.add(work - used, limit - used)
        waiting = work - used if works else 0.0
        samples.append(used if works else work)
        if (step + 1) % every_periods == 0:
            limit, samples = max(autopilot.recommend(samples), PERIOD_US / 100), []
    return found


def _containers() -> Iterator[Integers]:
    for seed in _SEEDS:
        for _, workload, _ in workloads(seed):
            yield from workload.arriving_us.T


def _held(arriving_us: Integers) -> Integers:
    """Memory: what the requests of the last 4 s hold, at the scale of CPU."""
    return np.convolve(arriving_us, np.ones(40) / 40)[: len(arriving_us)].astype(np.int64) + PERIOD_US // 10


def _compared(every_periods: int, works: bool) -> list[tuple[float, float, Weights]]:
    """Waiting work (or samples above the limit) and slack of each setting, over those of static limits."""
    loads = [load if works else _held(load) for load in _containers()]
    peaks = [float(np.convolve(load, np.ones(10) / 10, "valid").max()) if works else float(load.max()) for load in loads]
    static = Outcome()
    for load, peak in zip(loads, peaks, strict=True):
        waiting = 0.0
        for arriving in load:
            used = min(waiting + arriving, _FACTOR * peak)
            static.add(waiting + arriving - used, _FACTOR * peak - used)
            waiting = waiting + arriving - used if works else 0.0
    rows = []
    for overrun, change, decay, slack in itertools.product(
        (2.0, 10.0, 100.0), (0.001, 0.05), (0.02, 0.2), (0.0, 2.0)
    ):
        weights = Weights(overrun, 1.0, change, change, decay, slack)
        total = Outcome()
        for load, peak in zip(loads, peaks, strict=True):
            one = limited_by_autopilot(load, _FACTOR * peak, weights, every_periods, works)
            total.waiting, total.slack, total.over = (
                total.waiting + one.waiting, total.slack + one.slack, total.over + one.over
            )  # fmt: skip
        rows.append((total.waiting if works else total.over, total.slack / static.slack, weights))
    return rows


def main() -> None:
    for works in (True, False):
        rows = _compared(_PERIODS_A_SECOND, works)
        least, slack, weights = min((row for row in rows if row[1] <= 1.0), key=lambda row: row[:2])
        sys.stdout.write(
            f"{'CPU' if works else 'memory'}: {least:.3g} waiting or above, slack {slack:.2f} of static's: {weights}\n"
        )
        for row in sorted(rows, key=lambda row: row[0])[:8]:
            sys.stdout.write(f"   {row[0]:.3g} {row[1]:.2f} {row[2]}\n")


if __name__ == "__main__":
    main()
