"""`best` follows a step of load (fig. 2's kind) with less throttling than `paper`, and no more slack."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.escra.simulation import Workload, simulate
from limit_allocator.allocation.model import Parameters, Variant

LIMIT_US = 300_000
# Those know no bursts.
PAPER = Parameters(variant=Variant.PAPER, burst=0.0)
PUBLISHED = Parameters(variant=Variant.PUBLISHED, burst=0.0)
BEST = Parameters()


def steps() -> Workload:
    """0.1 and 1.5 cores in turn, 5 s each."""
    high = (np.arange(600) // 50) % 2 == 1
    return Workload(np.where(high, 150_000, 10_000)[:, None], np.array([2]))


def requests(seed: int) -> Workload:
    """Seven services with requests of 5 ms at random, and six times as many for 2 s of every 20."""
    draw = np.random.default_rng(seed)
    rate = np.where((np.arange(600) // 20) % 10 == 0, 24.0, 4.0)
    arriving = draw.poisson(np.repeat(rate[:, None], 7, axis=1)) * 5_000
    return Workload(arriving, np.full(7, 4))


@pytest.mark.parametrize("delay_periods", [0, 1])
def test_a_step_is_followed(delay_periods: int) -> None:
    best, paper = (
        simulate(steps(), LIMIT_US, parameters, delay_periods=delay_periods) for parameters in (BEST, PAPER)
    )
    assert best.throttled_share < 0.25 * paper.throttled_share
    assert best.mean_slack_us <= paper.mean_slack_us
    rises = np.arange(50, 600, 100)
    late = np.argmin(best.throttled[rises[:, None] + np.arange(20), 0], axis=1)
    assert late.max() <= 1 + delay_periods, "one period of telemetry, and the way to the node"


@pytest.mark.parametrize("other", [PAPER, PUBLISHED], ids=lambda p: p.variant)
def test_random_requests_wait_less_at_less_slack(other: Parameters) -> None:
    best, compared = (simulate(requests(1), 2_000_000, parameters) for parameters in (BEST, other))
    assert best.throttled_share < compared.throttled_share
    assert best.mean_waiting_us < compared.mean_waiting_us
    assert best.mean_slack_us < compared.mean_slack_us


def test_best_does_without_throttled_times() -> None:
    best = simulate(steps(), LIMIT_US, BEST, throttled_time_known=False)
    paper = simulate(steps(), LIMIT_US, PAPER)
    assert best.throttled_share < paper.throttled_share
    assert best.mean_slack_us <= paper.mean_slack_us


@pytest.mark.parametrize("variant", Variant)
def test_all_work_is_done_within_the_limit(variant: Variant) -> None:
    workload = requests(2)
    done = simulate(workload, 900_000, Parameters(variant=variant))
    assert (done.quota_us.sum(axis=1) <= 900_000).all()
    assert done.used_us.sum() + done.waiting_us[-1].sum() == workload.arriving_us.sum()
