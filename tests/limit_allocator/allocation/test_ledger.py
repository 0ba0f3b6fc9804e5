"""Single steps of the ledger: what it counts, and when it sends."""

from __future__ import annotations

import numpy as np
import pytest

from limit_allocator.allocation.ledger import UNKNOWN, Commands, Ledger, Reports
from limit_allocator.allocation.model import Integers, first_sequence, report_order

TERM = 4
LIMIT, FLOOR = 100, 10


def ints(*values: int) -> Integers:
    return np.array(values, np.int64)


def answer(
    ledger: Ledger, slot: int, applied: int, written: int, *, number: int, start: int = 1, term: int = TERM,
    joined: bool = True,
) -> None:  # fmt: skip
    ledger.report(
        Reports(
            ints(slot), ints(report_order(start, number)), ints(start), ints(term), ints(applied),
            np.array([joined]),
            ints(written), ints(0), ints(0),
        )
    )  # fmt: skip


def sent(commands: Commands) -> dict[int, int]:
    return dict(zip(commands.slots.tolist(), commands.value.tolist(), strict=True))


@pytest.fixture
def ledger() -> Ledger:
    """Slots 0 and 1 have 60 and 30 of 100."""
    ledger = Ledger(TERM, resend_after_s=0.2)
    ledger.set_limit(0, LIMIT)
    for slot, written in ((0, 60), (1, 30)):
        ledger.add(slot, 0, FLOOR, written)
        answer(ledger, slot, 0, written, number=1)
    return ledger


def test_a_raise_waits_for_the_cut_that_pays_for_it(ledger: Ledger) -> None:
    ledger.set_targets(ints(0, 1), ints(20, 80))
    first = ledger.commands(0.0)
    assert sent(first) == {0: 20, 1: 40}, "10 are free"
    assert ledger.room.tolist() == [0]
    assert sent(ledger.commands(0.1)) == {}
    answer(ledger, 0, int(first.sequence[0]), 20, number=2)
    assert sent(ledger.commands(0.1)) == {1: 80}


def test_a_cut_can_be_taken_back_without_room(ledger: Ledger) -> None:
    ledger.set_targets(ints(0), ints(20))
    ledger.commands(0.0)
    ledger.set_targets(ints(0), ints(60))
    assert sent(ledger.commands(0.0)) == {0: 60}
    assert ledger.counted.tolist() == [90]


def test_what_is_not_answered_is_sent_again_with_the_same_number(ledger: Ledger) -> None:
    ledger.set_targets(ints(0), ints(20))
    first, early, again = (ledger.commands(at_s) for at_s in (0.0, 0.1, 0.2))
    assert (sent(early), sent(again)) == ({}, {0: 20})
    assert first.sequence.tolist() == again.sequence.tolist()


def test_a_refused_cut_stays_counted_and_is_tried_again(ledger: Ledger) -> None:
    ledger.set_targets(ints(0), ints(20))
    answer(ledger, 0, int(ledger.commands(0.0).sequence[0]), 50, number=2)
    assert ledger.counted.tolist() == [80]
    assert sent(ledger.commands(0.0)) == {0: 20}


def test_a_lowered_limit_allows_cuts_only(ledger: Ledger) -> None:
    ledger.set_limit(0, 50)
    ledger.set_targets(ints(0, 1), ints(20, 31))
    assert sent(ledger.commands(0.0)) == {0: 20}
    assert ledger.room.tolist() == [-40]


def test_a_newcomer_joins_with_at_least_its_floor(ledger: Ledger) -> None:
    ledger.add(2, 0, FLOOR)
    ledger.add(3, 0, FLOOR)
    ledger.set_targets(ints(2, 3), ints(50, 50))
    assert sent(ledger.commands(0.0)) == {}, "no agent has reported them"
    for slot in (2, 3):
        answer(ledger, slot, 0, 500, number=1, joined=False)
    assert ledger.counted.tolist() == [90], "at its ceiling it does not count"
    assert sent(ledger.commands(0.0)) == {2: 10}, "there is room for one floor"
    assert ledger.joining(ints(2, 3)).tolist() == [True, True]


def test_a_new_controller_believes_only_agents_that_have_greeted_it(ledger: Ledger) -> None:
    answer(ledger, 0, 0, 5, number=2, term=TERM - 1)
    assert ledger.counted.tolist() == [90]


def test_nothing_is_raised_while_an_agent_is_unheard(ledger: Ledger) -> None:
    ledger.add(7, 0, 0, UNKNOWN)
    ledger.set_targets(ints(0, 1), ints(50, 40))
    assert sent(ledger.commands(0.0)) == {0: 50}
    ledger.remove(ints(7))
    assert sent(ledger.commands(0.0)) == {1: 40}


def test_commands_to_an_agent_that_restarted_are_void(ledger: Ledger) -> None:
    ledger.set_targets(ints(1), ints(40))
    assert ledger.commands(0.0).start.tolist() == [1]
    answer(ledger, 1, 0, 30, number=1, start=2)
    assert ledger.counted.tolist() == [90]
    again = ledger.commands(0.0)
    assert (sent(again), again.start.tolist()) == ({1: 40}, [2])


def test_many_commands_on_their_way_are_never_counted_too_low(ledger: Ledger) -> None:
    first = ledger.commands(0.0)
    assert sent(first) == {}
    for target in (40, 25, 24, 23, 22, 21):
        ledger.set_targets(ints(1), ints(target))
        ledger.commands(0.0)
    assert ledger.counted.tolist() == [100]
    answer(ledger, 1, first_sequence(TERM) + 6, 21, number=2)
    assert ledger.counted.tolist() == [81]
