"""Telemetry, decision and ledger together: starvation ends once there is slack, though messages are lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limit_allocator.allocation.cpu import CpuContainers, next_quotas
from limit_allocator.allocation.ledger import Ledger, Reports
from limit_allocator.allocation.model import PERIOD_US, Integers, Parameters, Variant
from limit_allocator.allocation.telemetry import Readings, Telemetry

COUNT, LIMIT_US, FLOOR_US = 5, 300_000, 5_000
SLOTS, ZEROS = np.arange(COUNT), np.zeros(COUNT, np.int64)


class Loop:
    """Five containers with one agent; a share of the reports and of the commands is lost."""

    def __init__(self, parameters: Parameters, seed: int, lost: float) -> None:
        self.parameters, self.lost = parameters, lost
        self.draw = np.random.default_rng(seed)
        self.telemetry, self.ledger = Telemetry(10), Ledger(term=1)
        self.ledger.set_limit(0, LIMIT_US)
        for slot in SLOTS:
            self.ledger.add(int(slot), 0, FLOOR_US)
        self.written, self.applied = ZEROS.copy(), ZEROS.copy()
        self.used, self.throttles, self.lacked = ZEROS, ZEROS, ZEROS
        self.ticks = 0

    def tick(self, demand_us: Integers) -> Integers:
        """One period; which containers were throttled."""
        self.ticks += 1
        quota = np.where(self.applied > 0, self.written, 8 * PERIOD_US)
        throttled = demand_us > quota
        self.used = self.used + np.minimum(demand_us, quota)
        self.throttles = self.throttles + throttled
        self.lacked = self.lacked + np.maximum(demand_us - quota, 0)
        order, ones = ZEROS + self.ticks, ZEROS + 1
        if self.draw.random() >= self.lost:
            self.telemetry.record(
                Readings(
                    SLOTS, order, order * PERIOD_US, order, self.used, self.throttles, self.lacked,
                    self.written,
                ),
                self.ticks / 10,
            )  # fmt: skip
            self.ledger.report(
                Reports(SLOTS, order, ones, ones, self.applied, self.applied > 0, self.written, ZEROS, ZEROS)
            )
        containers = CpuContainers(
            ZEROS, self.ledger.decided(SLOTS), ZEROS + FLOOR_US, ZEROS + 8 * PERIOD_US,
            self.telemetry.window(SLOTS, 10),
        )  # fmt: skip
        quotas = next_quotas(containers, np.array([LIMIT_US]), self.parameters, self.ticks / 10)
        self.ledger.set_targets(SLOTS, quotas.quota_us)
        commands = self.ledger.commands(self.ticks / 10)
        for slot, sequence, value in zip(commands.slots, commands.sequence, commands.value, strict=True):
            if self.draw.random() >= self.lost and sequence > self.applied[slot]:
                self.written[slot], self.applied[slot] = value, sequence
                assert self.written.sum() <= LIMIT_US
        assert (self.written[self.applied > 0] >= FLOOR_US).all()
        return throttled.astype(np.int64)


@pytest.mark.parametrize("variant", Variant)
@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    lost=st.sampled_from([0.0, 0.3]),
    before=st.lists(st.integers(0, 250_000), min_size=COUNT, max_size=COUNT),
    after=st.lists(st.integers(0, 40_000), min_size=COUNT, max_size=COUNT),
)
def test_starvation_ends_once_there_is_slack(
    variant: Variant, seed: int, lost: float, before: list[int], after: list[int]
) -> None:
    """At first all may want more than the limit; then everything fits, and everybody soon has it."""
    loop = Loop(Parameters(variant=variant), seed, lost)
    for _ in range(30):
        loop.tick(np.array(before))
    for _ in range(60):
        loop.tick(np.array(after))
    late = np.sum([loop.tick(np.array(after)) for _ in range(40)], axis=0)
    # The printed cut takes the mean unused of a window with higher quotas, and so goes below use: `paper` and
    # `published` swing for ever (up to 14 of 20 periods throttled with 30 % lost), but always come back up.
    assert late.max() == 0 if variant is Variant.BEST else late.max() < 40
