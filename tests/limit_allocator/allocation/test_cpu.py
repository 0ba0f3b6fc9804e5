"""The next quotas: each equation by hand, and what holds for every variant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limit_allocator.allocation.cpu import CpuContainers, CpuQuotas, explain, initial_quotas_us, next_quotas
from limit_allocator.allocation.model import Parameters, Reason, Variant
from limit_allocator.allocation.telemetry import Window

N = 10
PAPER = Parameters(variant=Variant.PAPER)
PUBLISHED = Parameters(variant=Variant.PUBLISHED)
BEST = Parameters()
NO_BURST = Parameters(burst=0.0)
CEILING_US = 800_000


def periods(
    used_us: list[int], quota_us: int, throttled: list[int] | None = None, lacked_us: int = 0
) -> tuple[list[int], list[int], list[int], list[int]]:
    """One container's window, newest first, filled up with its oldest period."""
    fill = N - len(used_us)
    throttled = throttled or [0]
    flags = throttled + [0] * (N - len(throttled))
    return used_us + used_us[-1:] * fill, [quota_us] * N, flags, [lacked_us * flag for flag in flags]


def containers(
    *rows: tuple[list[int], list[int], list[int], list[int]], quota_us: list[int]
) -> CpuContainers:
    used, quotas, throttled, lacked = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    count = len(rows)
    window = Window(used, quotas, throttled.astype(np.bool_), lacked, np.full(count, N), np.zeros(count))
    return CpuContainers(
        np.zeros(count, np.int64), np.array(quota_us), np.full(count, 5_000), np.full(count, CEILING_US),
        window,
    )  # fmt: skip


def decide(given: CpuContainers, parameters: Parameters, limit_us: int, now_s: float = 0.1) -> CpuQuotas:
    return next_quotas(given, np.array([limit_us]), parameters, now_s)


def test_initial_quotas_are_eq_1() -> None:
    assert initial_quotas_us(np.array([300_000, 5]), np.array([7, 0])).tolist() == [42_857, 5]


@pytest.mark.parametrize(
    ("parameters", "window", "limit_us", "expected_us", "reason"),
    [
        # 1 of 10 throttled: 0.1 * 2 * (200 - 50) ms = 30 ms.
        (replace(PAPER, upsilon=2.0), periods([50_000], 50_000, [1]), 200_000, 80_000, Reason.THROTTLED),
        # 0.1 * 20 * 150 ms = 300 ms, clamped to the 150 ms that are unallocated.
        (PAPER, periods([50_000], 50_000, [1]), 200_000, 200_000, Reason.THROTTLED),
        # Throttled before, not in the last period: 20 % are not unused, nothing changes.
        (PAPER, periods([45_000], 50_000, [0, 1]), 200_000, 50_000, Reason.UNCHANGED),
        # 0.8 * mean of 20 ms.
        (PAPER, periods([30_000], 50_000), 200_000, 34_000, Reason.UNUSED),
        # 0.8 * mean of (50 + 9 * 10) / 10 = 14 ms.
        (PAPER, periods([0, 40_000], 50_000), 200_000, 38_800, Reason.UNUSED),
        # Exactly gamma is unused: not more.
        (PAPER, periods([40_000], 50_000), 200_000, 50_000, Reason.UNCHANGED),
        (PAPER, periods([0], 50_000), 200_000, 10_000, Reason.UNUSED),
        # 20 * 0.1 * 30 ms = 60 ms, though not throttled in the last period.
        (PUBLISHED, periods([50_000], 50_000, [0, 1]), 200_000, 110_000, Reason.THROTTLED),
        (PUBLISHED, periods([50_000], 50_000, [1]), 90_000, 90_000, Reason.THROTTLED),
        (PUBLISHED, periods([0], 50_000), 200_000, 30_000, Reason.UNUSED),
        # Says that it lacked 70 ms.
        (BEST, periods([50_000], 50_000, [1], 70_000), 200_000, 120_000, Reason.THROTTLED),
        # Does not say what it lacked: doubled for each throttled period in a row.
        (BEST, periods([50_000], 50_000, [1]), 400_000, 100_000, Reason.THROTTLED),
        (BEST, periods([50_000], 50_000, [1, 1]), 400_000, 200_000, Reason.THROTTLED),
        # Steady use of 30 ms and gamma / 2.
        (BEST, periods([30_000], 50_000), 200_000, 33_000, Reason.UNUSED),
        (BEST, periods([47_000], 50_000), 200_000, 50_000, Reason.UNCHANGED),
        # A lone peak of 40 ms, 5 periods ago, counts as 30 ms; 1.5 standard deviations of 12 ms come on top.
        (NO_BURST, periods([0] * 5 + [40_000] + [0] * 4, 60_000), 200_000, 48_000, Reason.UNUSED),
        # With bursts, its mean: 4 ms, and a standard deviation. Newer: the last three periods', 13.3 ms.
        (BEST, periods([0] * 5 + [40_000] + [0] * 4, 60_000), 200_000, 16_000, Reason.UNUSED),
        (BEST, periods([40_000] + [0] * 9, 60_000), 200_000, 25_333, Reason.UNUSED),
        (BEST, periods([0], 50_000), 200_000, 5_000, Reason.FLOOR),
        (BEST, periods([50_000], 50_000, [1], 900_000), 2_000_000, CEILING_US, Reason.CEILING),
    ],
)  # fmt: skip
def test_one_container(
    parameters: Parameters,
    window: tuple[list[int], list[int], list[int], list[int]],
    limit_us: int,
    expected_us: int,
    reason: Reason,
) -> None:
    got = decide(containers(window, quota_us=[window[1][0]]), parameters, limit_us)
    assert (got.quota_us.tolist(), Reason(int(got.reason[0]))) == ([expected_us], reason)


def test_the_starved_share_what_is_unallocated_and_nobody_is_cut_for_them() -> None:
    """`paper`, `published`: 30 ms for two that want all of it; both end at the same level."""
    given = containers(
        periods([50_000], 50_000, [1]),
        periods([40_000], 40_000, [1]),
        periods([80_000], 80_000),
        quota_us=[50_000, 40_000, 80_000],
    )
    for parameters in (PAPER, PUBLISHED):
        assert decide(given, parameters, 200_000).quota_us.tolist() == [60_000, 60_000, 80_000]


def test_best_shares_all_of_a_limit_that_is_too_small() -> None:
    given = containers(
        periods([10_000], 10_000, [1], 90_000), periods([90_000], 100_000), periods([20_000], 50_000),
        quota_us=[10_000, 100_000, 50_000],
    )  # fmt: skip
    got = decide(given, BEST, 160_000)
    assert got.quota_us.tolist() == [69_000, 69_000, 22_000]
    assert [Reason(int(r)) for r in got.reason] == [Reason.FAIR_SHARE, Reason.FAIR_SHARE, Reason.UNUSED]


@pytest.mark.parametrize("parameters", [PAPER, PUBLISHED, BEST], ids=lambda p: p.variant)
def test_a_newcomer_to_a_full_pool_gets_its_floor(parameters: Parameters) -> None:
    given = containers(periods([99_000], 100_000), periods([0], 0), quota_us=[100_000, 0])
    got = decide(given, parameters, 100_000).quota_us
    assert got[1] >= 5_000
    assert got.sum() <= 100_000


def test_a_silent_container_keeps_its_quota() -> None:
    given = containers(
        periods([0], 50_000), periods([50_000], 50_000, [1], 99_000), quota_us=[50_000, 50_000]
    )
    given = replace(given, window=replace(given.window, heard_at_s=np.array([0.0, 9.9])))
    got = decide(given, BEST, 120_000, now_s=10.0)
    assert got.quota_us.tolist() == [50_000, 70_000]
    assert got.reason[0] == Reason.SILENT


@st.composite
def applications(draw: st.DrawFn) -> tuple[CpuContainers, list[int]]:
    count = draw(st.integers(1, 6))
    rows = []
    for _ in range(count):
        quota = draw(st.integers(5_000, 300_000))
        used = draw(st.lists(st.integers(0, quota), min_size=N, max_size=N))
        rows.append(
            periods(
                used,
                quota,
                draw(st.lists(st.integers(0, 1), min_size=N, max_size=N)),
                draw(st.integers(0, 400_000)),
            )
        )
    quotas = [draw(st.sampled_from([row[1][0], row[1][0], 0])) for row in rows]
    given = containers(*rows, quota_us=quotas)
    limits = draw(st.lists(st.integers(count * 5_000, 900_000), min_size=2, max_size=2))
    return replace(given, application=np.array([draw(st.integers(0, 1)) for _ in rows])), limits


@given(applications(), st.sampled_from([PAPER, PUBLISHED, BEST]))
def test_every_variant_keeps_limit_floor_and_ceiling(
    given: tuple[CpuContainers, list[int]], parameters: Parameters
) -> None:
    rows, limits = given
    got = next_quotas(rows, np.array(limits), parameters, 0.1)
    for application, limit in enumerate(limits):
        assert got.quota_us[rows.application == application].sum() <= limit
    assert (got.quota_us >= 5_000).all()
    assert (got.quota_us <= CEILING_US).all()
    for i in range(len(got.quota_us)):
        assert explain(int(got.reason[i]), int(rows.quota_us[i]), int(got.quota_us[i]), int(got.wanted_us[i]))


def test_an_explanation_is_a_sentence() -> None:
    assert (
        explain(Reason.THROTTLED, 10_000, 150_000, 150_000)
        == "raised from 0.10 to 1.50 cores: it was throttled"
    )
