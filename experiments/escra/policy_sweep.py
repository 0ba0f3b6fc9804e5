"""Compares the variants in virtual time, ours also without bursts: throttled periods, slack, waiting work.

    python -m experiments.escra.policy_sweep [SEED]

The margins of `best` were chosen with seed 7.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.escra.simulation import Workload, simulate
from limit_allocator.allocation.model import Parameters, Variant

PERIODS = 1200
POLICIES = {
    "paper": Parameters(variant=Variant.PAPER, burst=0.0),
    "published": Parameters(variant=Variant.PUBLISHED, burst=0.0),
    "best, no burst": Parameters(burst=0.0),
    "best": Parameters(),
}


def workloads(seed: int) -> Iterator[tuple[str, Workload, int]]:
    """Name, load, and the application's limit: 1.5 times the containers' peaks."""
    draw = np.random.default_rng(seed)
    at = np.arange(PERIODS)
    yield "step", Workload(np.where(at // 50 % 2, 150_000, 10_000)[:, None], np.array([2])), 300_000
    levels = np.array([10_000, 50_000, 100_000, 150_000, 70_000, 30_000])
    yield "levels", Workload(levels[at // 40 % 6][:, None], np.array([2])), 300_000
    steady = np.ones(PERIODS)
    for name, per_second, each_ms, containers, factor in (
        ("requests", 50, 5, 7, steady),
        ("many requests", 200, 2, 11, steady),
        ("few requests", 10, 20, 7, steady),
        ("bursts", 40, 5, 7, np.where(at // 20 % 10 == 0, 6.0, 1.0)),
        ("waves", 100, 4, 7, 1 + 0.8 * np.sin(at / 60)),
        ("idle, then busy", 20, 15, 7, 3.0 * (at * 7919 // 13 % 9 < 2)),
    ):
        yield name, *_requests(draw, per_second / 10 * factor, 1000 * each_ms, containers)


def _requests(
    draw: np.random.Generator, per_period: NDArray[np.floating[Any]], each_us: int, containers: int
) -> tuple[Workload, int]:
    """Requests at random, with exponential run times."""
    count = draw.poisson(np.repeat(per_period[:, None], containers, axis=1))
    work = draw.gamma(np.maximum(count, 1e-9), each_us).astype(np.int64)
    return Workload(work, np.full(containers, 4)), int(containers * 1.5 * np.quantile(work, 0.999))


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    for name, workload, limit_us in workloads(seed):
        for policy, parameters in POLICIES.items():
            done = simulate(workload, limit_us, parameters)
            sys.stdout.write(
                f"{name:16} {policy:14} throttled {done.throttled_share:6.1%}"
                f"  slack {done.mean_slack_us / 1000:6.1f} ms"
                f"  waiting {done.mean_waiting_us / 1000:6.2f} ms\n"
            )


if __name__ == "__main__":
    main()
