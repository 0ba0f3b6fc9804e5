"""`surgekit top` as somebody at the keyboard sees it, with textual's own pilot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from cluster_view.cost_line import cost_line
from cluster_view.readers import read_node
from cluster_view.terminal import Terminal
from tests.cluster_view import objects
from tests.cluster_view.objects import START_S
from tests.cluster_view.test_state import LABELS, World


def at_the_keyboard(world: World, act: Callable[[Pilot[None], Terminal], Awaitable[None]]) -> None:
    async def run() -> None:
        app = Terminal(world.state, lambda: None, lambda: START_S)
        async with app.run_test(size=(160, 40)) as pilot:
            await pilot.pause()
            app.round()
            await pilot.pause()
            await act(pilot, app)

    asyncio.run(run())


def column(table: DataTable[Any], number: int = 0) -> list[str]:
    return [table.get_row_at(row)[number].plain for row in range(table.row_count)]


@pytest.fixture
def world() -> World:
    made = World()
    for name, price in (("n0", "0.3"), ("n1", "0.1"), ("[red]n2[/red]", "")):
        made.put(objects.node(name, {LABELS[0]: price}))
    made.put(objects.pod("a", "n1"))
    made.put(objects.knee_policy("web"))
    return made


def test_nodes_are_sorted_by_what_is_asked_for(world: World) -> None:
    async def act(pilot: Pilot[None], app: Terminal) -> None:
        assert column(app.nodes) == ["[red]n2[/red]", "n0", "n1"]
        for _ in range(4):
            await pilot.press("s")
        assert column(app.nodes, 4) == ["-", "0.1000", "0.3000"]  # unknown is not zero
        await pilot.press("r")
        assert column(app.nodes, 4) == ["0.3000", "0.1000", "-"]

    at_the_keyboard(world, act)


def test_a_filter_keeps_rows_with_all_its_words(world: World) -> None:
    async def act(pilot: Pilot[None], app: Terminal) -> None:
        await pilot.press("slash", *"ready 0.1")
        await pilot.pause()
        assert column(app.nodes) == ["n1"]
        await pilot.press("escape")
        await pilot.pause()
        assert len(column(app.nodes)) == 3

    at_the_keyboard(world, act)


def test_what_changes_is_drawn(world: World) -> None:
    async def act(pilot: Pilot[None], app: Terminal) -> None:
        assert column(app.nodes, 7) == ["0", "0", "1"]
        world.put(objects.pod("b", "n0"))
        world.state.drop_node("n1")
        app.round()
        await pilot.pause()
        assert column(app.nodes) == ["[red]n2[/red]", "n0"]
        assert column(app.nodes, 7) == ["0", "1"]

    at_the_keyboard(world, act)


def test_functions_and_decisions_have_their_tables(world: World) -> None:
    async def act(pilot: Pilot[None], app: Terminal) -> None:
        await pilot.press("2")
        await pilot.pause()
        assert app.functions.has_focus
        assert column(app.functions) == ["KneePolicy/shop/web"]
        assert column(app.functions, 4) == ["6"]
        await pilot.press("3")
        await pilot.pause()
        assert "6 wanted: the knee is at 6" in str(app.query_one("#below", Static).render())
        assert column(app.decisions, 5) == ["4 replicas, 6 wanted: the knee is at 6"]
        world.put(objects.knee_policy("web", wanted=7, at_s=START_S + 60))
        app.round()
        await pilot.pause()
        assert column(app.decisions, 5)[0] == "4 replicas, 7 wanted: the knee is at 7"

    at_the_keyboard(world, act)


def test_the_head_says_what_it_costs(world: World) -> None:
    async def act(pilot: Pilot[None], app: Terminal) -> None:
        said = str(app.query_one("#head", Static).render())
        assert said.startswith("test  3 nodes  1 pods  0.5 of 12.0 cores requested (4%)  $0.4000/hour")
        await pilot.press("q")

    at_the_keyboard(world, act)


def test_one_line_for_scripts(world: World) -> None:
    assert cost_line(world.look()) == (
        "3 nodes  1 pods  0.5 of 12.0 cores requested (4%)  $0.4000/hour  $292.00/month  "
        "and 1 nodes without a known price"
    )


def test_no_known_price_is_not_free() -> None:
    world = World()
    world.state.put_node(read_node(objects.node("n0")))
    assert "$" not in cost_line(world.look())
