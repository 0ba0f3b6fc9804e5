"""Growth out of the reserve, and commands that were sent before it."""

from __future__ import annotations

import pytest

from limit_allocator.allocation.model import first_sequence
from limit_allocator.allocation.node_account import Command, NodeAccount


@pytest.fixture
def node() -> NodeAccount:
    """A container with a limit of 100, and a reserve of 50."""
    node = NodeAccount(start=3)
    node.open("c", "shop", None)
    node.wrote(Command("c", 3, 1, 100), 100)
    node.set_reserve("shop", Command("reserve", 3, 2, 50))
    return node


def carry_out(node: NodeAccount, command: Command) -> int | None:
    if (limit := node.limit_after(command)) is not None:
        node.wrote(command, limit)
    return limit


def test_growth_comes_out_of_the_reserve_and_changes_no_sum(node: NodeAccount) -> None:
    assert node.grow("c", 20) == 120
    assert node.grow("c", 60) == 150, "no more than there is"
    assert (node.spent("shop"), node.unspent("shop")) == (50, 0)
    (container,), (reserve,) = node.reports(), node.reserve_reports()
    assert (container.written, container.grown, reserve.written) == (100, 50, 50)


def test_a_command_that_has_not_seen_the_growth_does_not_undo_it(node: NodeAccount) -> None:
    node.grow("c", 20)
    assert carry_out(node, Command("c", 3, 5, 110, grown_seen=0)) == 130
    assert carry_out(node, Command("c", 3, 6, 130, grown_seen=20)) == 130
    assert node.unspent("shop") == 50, "folded: the reserve is whole again"
    node.grow("c", 5)
    assert carry_out(node, Command("c", 3, 7, 90, grown_seen=20)) == 95


@pytest.mark.parametrize(
    "command",
    [
        Command("c", 3, 1, 200),
        Command("c", 2, 9, 200),
        Command("gone", 3, 9, 200),
    ],
    ids=["repeated", "for an earlier start", "for nobody"],
)
def test_what_is_ignored(node: NodeAccount, command: Command) -> None:
    assert node.limit_after(command) is None


def test_an_earlier_term_is_ignored_after_the_greeting(node: NodeAccount) -> None:
    node.greet(2)
    node.greet(1)
    assert node.limit_after(Command("c", 3, first_sequence(2) - 1, 200)) is None
    assert node.limit_after(Command("c", 3, first_sequence(2) + 1, 200)) == 200


def test_a_refused_cut_does_not_free_what_the_reserve_pays(node: NodeAccount) -> None:
    node.grow("c", 50)
    node.wrote(Command("c", 3, 5, 80, grown_seen=50), 150)
    (container,) = node.reports()
    assert (container.written, container.applied, node.unspent("shop")) == (100, 5, 0)


def test_taking_the_reserve_back_leaves_what_is_spent(node: NodeAccount) -> None:
    node.grow("c", 20)
    node.set_reserve("shop", Command("reserve", 3, 7, 0))
    assert node.unspent("shop") == 0
    (reserve,) = node.reserve_reports()
    assert reserve.written == 20


def test_a_container_that_has_not_joined_does_not_grow(node: NodeAccount) -> None:
    node.open("new", "shop", None)
    node.grow("new", 20)
    assert node.spent("shop") == 0


def test_the_reserve_stays_when_the_last_container_ends(node: NodeAccount) -> None:
    """Else the next one would carry out a command for this one, which nobody counts any more."""
    node.close("c")
    (left,) = node.reserve_reports()
    assert (left.name, left.applied, left.written) == ("shop", 2, 50)
    node.open("d", "shop", None)
    node.set_reserve("shop", Command("reserve", 3, 1, 500))
    assert node.unspent("shop") == 50, "an old command is still old"
