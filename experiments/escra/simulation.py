"""Containers under CPU quotas in virtual time, one kernel period a step.

Work arrives, runs on up to `threads` CPUs until the quota is used up, and what is left waits for the next
period. Run time that is not used is saved up, as far as the burst goes. Quotas decided from a period's
telemetry hold from the next period on (or `delay_periods` later).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from limit_allocator.allocation.cpu import CpuContainers, next_quotas
from limit_allocator.allocation.model import PERIOD_US, Integers, Parameters
from limit_allocator.allocation.telemetry import Readings, Telemetry

__all__ = ["Outcome", "Workload", "simulate"]


@dataclass(frozen=True, slots=True)
class Workload:
    arriving_us: Integers  # CPU time that arrives: one row a period, one column a container
    threads: Integers  # CPUs a container can use at once


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row a period, one column a container."""

    quota_us: Integers
    used_us: Integers
    waiting_us: Integers  # work left at the end of the period
    throttled: np.ndarray[tuple[int, int], np.dtype[np.bool_]]

    @property
    def throttled_share(self) -> float:
        return float(self.throttled.mean())

    @property
    def mean_slack_us(self) -> float:
        return float(np.maximum(self.quota_us - self.used_us, 0).mean())

    @property
    def mean_waiting_us(self) -> float:
        return float(self.waiting_us.mean())


def simulate(
    workload: Workload,
    limit_us: int,
    parameters: Parameters,
    *,
    delay_periods: int = 0,
    throttled_time_known: bool = True,
) -> Outcome:
    """Run one application from its newcomers' quotas on."""
    steps, count = workload.arriving_us.shape
    slots = np.arange(count)
    telemetry = Telemetry(parameters.window_periods, count)
    telemetry.forget(slots)
    zeros = np.zeros(count, np.int64)
    quota = np.full(count, limit_us // count)
    coming = deque([quota] * (delay_periods + 1))
    waiting, used_total, throttles, throttled_total = zeros, zeros, zeros, zeros
    left = zeros  # run time of earlier periods
    rows: list[tuple[Integers, ...]] = []
    for step in range(steps + 1):
        now_us = step * PERIOD_US
        telemetry.record(
            Readings(
                slots, zeros + step, zeros + now_us, zeros + step, used_total, throttles,
                throttled_total * throttled_time_known, coming[0],
            ),
            now_us / 1e6,
        )  # fmt: skip
        if step == steps:
            break
        containers = CpuContainers(
            zeros, quota, zeros + parameters.floor_us, workload.threads * PERIOD_US,
            telemetry.window(slots, parameters.window_periods),
        )  # fmt: skip
        quota = next_quotas(containers, np.array([limit_us]), parameters, now_us / 1e6).quota_us
        coming.append(quota)
        coming.popleft()
        work = waiting + workload.arriving_us[step]
        run_time = np.minimum(left + coming[0], coming[0] + (parameters.burst * coming[0]).astype(np.int64))
        used = np.minimum(np.minimum(work, workload.threads * PERIOD_US), run_time)
        left = run_time - used
        throttled = used < np.minimum(work, workload.threads * PERIOD_US)
        # As many threads as hold the work are ready until the period ends.
        ready = np.minimum(-(-work // PERIOD_US), workload.threads)
        throttled_total = throttled_total + np.where(throttled, np.maximum(ready * PERIOD_US - used, 0), 0)
        waiting = work - used
        used_total, throttles = used_total + used, throttles + throttled
        rows.append((coming[0], used, waiting, throttled))
    quotas, uses, waits, throttled_rows = (np.array(column) for column in zip(*rows, strict=True))
    return Outcome(quotas, uses, waits, throttled_rows)
