"""The next memory limits: events, reclaiming, reserves and newcomers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limit_allocator.allocation.memory import MemoryAccounts, explain, initial_limits_bytes, next_limits
from limit_allocator.allocation.model import PAGE_BYTES, Parameters, Reason

MIB = 1024 * 1024
# Growth of 8 MiB: round numbers.
PARAMETERS = Parameters(sigma=0.2, growth_pages=8 * MIB // PAGE_BYTES, tight_delta_bytes=10 * MIB)


@dataclass(frozen=True)
class Row:
    """In MiB."""

    limit: int
    used: int
    stuck_at: int = 0
    application: int = 0
    node: int = 0
    ceiling: int = 4096
    is_reserve: bool = False


def decide(
    rows: list[Row], *limits: int, node_room: tuple[int, ...] = (10_000, 10_000), reclaim: bool = False
) -> tuple[list[float], list[Reason]]:
    def column(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(values, np.int64)

    accounts = MemoryAccounts(
        column([r.application for r in rows]), column([r.node for r in rows]),
        column([r.limit for r in rows]) * MIB, column([r.used for r in rows]) * MIB,
        np.full(len(rows), 16 * MIB), column([r.ceiling for r in rows]) * MIB,
        column([r.stuck_at for r in rows]) * MIB, np.array([r.is_reserve for r in rows], np.bool_),
    )  # fmt: skip
    got = next_limits(
        accounts, np.array(limits) * MIB, np.array(node_room) * MIB, PARAMETERS, reclaim=reclaim
    )
    for limit, reason, row in zip(got.limit_bytes, got.reason, rows, strict=True):
        assert explain(int(reason), row.limit * MIB, int(limit))
    return (got.limit_bytes / MIB).tolist(), [Reason(int(r)) for r in got.reason]


def test_initial_limits_are_eq_2() -> None:
    assert initial_limits_bytes(np.array([1000, 7]), np.array([4, 0]), 0.2).tolist() == [200, 5]


@pytest.mark.parametrize(
    ("rows", "limit", "reclaim", "limits", "reason"),
    [
        ([Row(100, 100, stuck_at=100)], 1000, False, [108], Reason.MEMORY_EVENT),
        ([Row(108, 100, stuck_at=100)], 1000, False, [108], Reason.MEMORY_EVENT),
        ([Row(100, 100, stuck_at=100, ceiling=104)], 1000, False, [104], Reason.CEILING),
        ([Row(100, 100, stuck_at=100)], 103, False, [103], Reason.FAIR_SHARE),
        ([Row(100, 100)], 1000, True, [100], Reason.UNCHANGED),
        ([Row(100, 50)], 1000, True, [100], Reason.UNCHANGED),
        ([Row(200, 100)], 1000, True, [150], Reason.RECLAIMED),
        ([Row(200, 100)], 1000, False, [200], Reason.UNCHANGED),
        ([Row(200, 100)], 140, False, [140], Reason.RECLAIMED_FOR_OTHERS),
        ([Row(200, 100)], 50, False, [110], Reason.RECLAIMED_FOR_OTHERS),
        ([Row(0, 0)], 100, False, [80], Reason.NEWCOMER),
        ([Row(0, 0, ceiling=30)], 100, False, [30], Reason.NEWCOMER),
    ],
    ids=[
        "an event", "a raise that is on its way", "the ceiling", "what is left", "used", "within delta",
        "above delta", "not yet 5 s", "limit lowered", "lowered below use", "newcomer", "small newcomer",
    ],
)  # fmt: skip
def test_one_container(
    rows: list[Row], limit: int, reclaim: bool, limits: list[float], reason: Reason
) -> None:
    assert decide(rows, limit, reclaim=reclaim) == (limits, [reason])


def test_a_dry_pool_takes_from_the_most_slack_no_more_than_lacks() -> None:
    rows = [Row(100, 100, stuck_at=100), Row(100, 50), Row(100, 84), Row(100, 45)]
    limits, reasons = decide(rows, 400)
    # 8 lack. Slack above the tight margin is 40, 6 and 45: level 38.5.
    assert limits == [108, 98.5, 100, 93.5]
    assert reasons == [
        Reason.MEMORY_EVENT, Reason.RECLAIMED_FOR_OTHERS, Reason.UNCHANGED, Reason.RECLAIMED_FOR_OTHERS,
    ]  # fmt: skip


def test_nobody_waits_for_memory_while_others_hold_some_that_they_do_not_use() -> None:
    """Nobody has more than the tight margin. As in a run of `media`, whose `front` was killed."""
    rows = [Row(115, 115, stuck_at=115), Row(118, 112), Row(149, 144), Row(128, 120)]
    limits, reasons = decide(rows, 510)
    # 19 are not used, but for the quarter of a MiB that each of the others keeps.
    assert limits == pytest.approx([115 + 4.5625, 112 + 4.8125, 144 + 4.8125, 120 + 4.8125], abs=0.01)
    assert reasons[0] == Reason.FAIR_SHARE
    assert set(reasons[1:]) == {Reason.RECLAIMED_FOR_OTHERS}
    newcomer, full = Row(0, 0), Row(120, 119)
    assert decide([full, full, newcomer], 250)[0][:2] == [120, 120], "a newcomer takes no tight margin away"


@given(
    st.lists(st.tuples(st.integers(16, 300), st.integers(0, 40)), min_size=1, max_size=9), st.integers(0, 30)
)
def test_who_hit_its_limit_gets_some_while_anybody_has_some(others: list[tuple[int, int]], free: int) -> None:
    rows = [Row(100, 100, stuck_at=100), *(Row(used + slack, used) for used, slack in others)]
    unused = free + sum(slack for _, slack in others)
    limits, _ = decide(rows, sum(row.limit for row in rows) + free)
    share = (unused - 0.25 * len(others)) / len(rows)  # the least headroom
    assert limits[0] >= 100 + min(8, share) - 0.01
    assert sum(limits) <= sum(row.limit for row in rows) + free
    for (used, slack), limit in zip(others, limits[1:], strict=True):
        assert limit >= used + min(slack, 0.25)


def test_a_newcomer_to_a_full_pool_gets_its_floor_out_of_others_slack() -> None:
    assert decide([Row(300, 100), Row(100, 95), Row(0, 0)], 400)[0] == [284, 100, 16]


def test_a_reserve_is_sigma_by_containers_and_gives_when_others_starve() -> None:
    reserve = [Row(0, 0, is_reserve=True), Row(0, 0, node=1, is_reserve=True)]
    containers = [Row(100, 90), Row(100, 90), Row(100, 90, node=1)]
    assert decide(containers + reserve, 600)[0][3:] == [80, 40]
    held = [Row(80, 0, is_reserve=True), Row(40, 30, node=1, is_reserve=True)]
    full = [Row(100, 100), Row(100, 100), Row(280, 280, node=1, stuck_at=280)]
    limits, _ = decide(full + held, 600)
    assert limits == [100, 100, 288, 72, 40], "the one that is not spent gives"
    assert decide(containers + held, 100)[0][3:] == [0, 30], "what containers hold of it stays"


def test_a_raise_needs_room_on_its_node_and_neighbours_are_reclaimed() -> None:
    rows = [Row(100, 100, stuck_at=100), Row(200, 100), Row(200, 100, node=1)]
    limits, reasons = decide(rows, 1000, node_room=(3, 100))
    assert limits == [103, 110, 200]
    assert reasons == [Reason.NODE_FULL, Reason.RECLAIMED_FOR_OTHERS, Reason.UNCHANGED]


@st.composite
def pools(draw: st.DrawFn) -> tuple[list[Row], list[int], bool]:
    rows = []
    for _ in range(draw(st.integers(1, 7))):
        limit = draw(st.one_of(st.just(0), st.integers(16, 300)))
        used = draw(st.integers(0, limit))
        stuck = limit if draw(st.booleans()) else 0
        reserve = draw(st.integers(0, 4)) == 0
        rows.append(
            Row(
                limit,
                used,
                0 if reserve else stuck,
                draw(st.integers(0, 1)),
                draw(st.integers(0, 1)),
                320,
                reserve,
            )
        )
    held = [sum(r.limit for r in rows if r.application == a) for a in (0, 1)]
    return rows, [draw(st.integers(0, h + 200)) for h in held], draw(st.booleans())


@given(pools(), st.tuples(st.integers(0, 50), st.integers(0, 50)))
def test_what_always_holds(given: tuple[list[Row], list[int], bool], node_room: tuple[int, int]) -> None:
    rows, limits, reclaim = given
    got, _ = decide(rows, *limits, node_room=node_room, reclaim=reclaim)
    for application, limit in enumerate(limits):
        mine = [(r, g) for r, g in zip(rows, got, strict=True) if r.application == application]
        # Newcomers may have to wait until somebody leaves, but others do not grow meanwhile.
        grows = any(g > r.limit for r, g in mine if r.limit)
        assert sum(g for _, g in mine) <= limit or not grows
    for node in (0, 1):
        events = [
            g - r.limit for r, g in zip(rows, got, strict=True) if r.node == node and r.stuck_at and r.limit
        ]
        assert sum(events) <= node_room[node]
    for row, after in zip(rows, got, strict=True):
        assert after >= min(row.used, row.limit), "never below what is used"
        assert row.is_reserve or after >= min(16, row.limit or 16)
        assert after <= 320 or row.is_reserve
        at_limit = row.stuck_at and row.used == row.limit
        assert not at_limit or after >= row.limit, "who is at its limit does not give"
