"""Measures one tick of the allocator: telemetry of every container, decision, ledger, acknowledgements.

In CPU time of its thread, so that it can run beside other work.

    python -m experiments.escra.decision_time [CONTAINERS [APPLICATIONS]]
"""

from __future__ import annotations

import sys
from time import thread_time

import numpy as np

from limit_allocator.allocation.cpu import CpuContainers, next_quotas
from limit_allocator.allocation.ledger import Ledger, Reports
from limit_allocator.allocation.model import PERIOD_US, Integers, Parameters
from limit_allocator.allocation.telemetry import Readings, Telemetry

TICKS = 200
CONTAINERS_PER_AGENT = 110
STAGES = ("telemetry", "window", "decision", "ledger", "acknowledgements", "all")


def measure(containers: int, applications: int, tight: bool) -> dict[str, list[float]]:
    """Milliseconds of each tick, by stage. If `tight`, every application wants more than its limit."""
    draw = np.random.default_rng(1)
    parameters = Parameters()
    slots, zeros = np.arange(containers), np.zeros(containers, np.int64)
    application = slots % applications
    limits = np.full(applications, containers // applications * PERIOD_US // (10 if tight else 1))
    telemetry, ledger = Telemetry(parameters.window_periods, containers), Ledger(term=1)
    telemetry.forget(slots)
    for group in range(applications):
        ledger.set_limit(group, int(limits[group]))
    for slot in range(containers):
        ledger.add(slot, int(application[slot]), parameters.floor_us)
    used_total, throttles, applied = zeros, zeros, zeros
    written = zeros
    batches = np.array_split(slots, max(containers // CONTAINERS_PER_AGENT, 1))
    took: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for tick in range(TICKS):
        times = [thread_time()]
        for batch in batches:
            telemetry.record(_readings(batch, tick, used_total, throttles, written), tick / 10)
        times.append(thread_time())
        window = telemetry.window(slots, parameters.window_periods)
        times.append(thread_time())
        rows = CpuContainers(
            application, ledger.decided(slots), zeros + parameters.floor_us, zeros + 8 * PERIOD_US, window
        )
        quotas = next_quotas(rows, limits, parameters, tick / 10)
        times.append(thread_time())
        ledger.set_targets(slots, quotas.quota_us)
        commands = ledger.commands(tick / 10)
        times.append(thread_time())
        written[commands.slots], applied[commands.slots] = commands.value, commands.sequence
        for batch in batches:
            ledger.report(_acknowledgements(batch, tick, applied, written))
        times.append(thread_time())
        spent = [*np.diff(times), times[-1] - times[0]]
        for stage, seconds in zip(STAGES, spent, strict=True):
            took[stage].append(1000 * seconds)
        demand = draw.gamma(2.0, 12_000, containers).astype(np.int64)
        used_total, throttles = used_total + np.minimum(demand, written), throttles + (demand > written)
    return {stage: values[TICKS // 10 :] for stage, values in took.items()}


def _readings(
    batch: Integers, tick: int, used_total: Integers, throttles: Integers, written: Integers
) -> Readings:
    ones = np.ones_like(batch)
    return Readings(
        batch, ones * tick, ones * tick * PERIOD_US, ones * tick, used_total[batch], throttles[batch],
        ones * 0, written[batch],
    )  # fmt: skip


def _acknowledgements(batch: Integers, tick: int, applied: Integers, written: Integers) -> Reports:
    ones = np.ones_like(batch)
    return Reports(
        batch, ones * tick, ones, ones, applied[batch], written[batch] > 0, written[batch], ones * 0, ones * 0
    )


def main() -> None:
    given = [int(word) for word in sys.argv[1:3]]
    containers, applications = given + [5_000, 50][len(given) :]
    for tight in (False, True):
        for stage, values in measure(containers, applications, tight).items():
            p50, p99 = np.percentile(values, [50, 99])
            sys.stdout.write(
                f"{'tight' if tight else 'roomy'} {stage:17} p50 {p50:6.2f} ms  p99 {p99:6.2f} ms\n"
            )


if __name__ == "__main__":
    main()
