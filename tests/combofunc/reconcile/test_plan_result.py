"""Whether a plan still fits the cluster when it arrives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from combofunc.planner.model import Container, Creation, Plan, Resize, Size
from combofunc.pods.steps import Room
from combofunc.reconcile.plan_result import PlanResult, failed_result, is_stale

MIB = 2**20
SMALL, LARGE = Size("small", 500, 512 * MIB, 1), Size("large", 2000, 2048 * MIB, 8)
ON_A, ON_B, LEAVING = Container("p", "a", SMALL), Container("q", "b", LARGE), Container("r", "b", LARGE)
# Needs on a: 500 + 2000 - 500 millicores, one pod more. On b: 500 - 2000 - 2000, and one pod less.
PLAN = Plan(
    9,
    kept=(),
    resized=(Resize(ON_A, LARGE), Resize(ON_B, SMALL)),
    removed=(LEAVING,),
    created=(Creation("a", SMALL),),
    scaling_s=1.0,
    resource_price=1.0,
    cost=1.0,
)
THERE = [ON_A, ON_B, LEAVING]
ROOMS = {"a": Room(4000, 4096 * MIB, 5), "b": Room(0, 0, 0)}
RESULT = PlanResult(
    (), plan=PLAN, rooms=ROOMS, containers=frozenset((c.pod, c.node, c.size.name) for c in THERE)
)


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        ({}, False),
        ({"a": Room(2000, 2048 * MIB, 1)}, False),  # exactly what is needed
        ({"a": Room(1999, 2048 * MIB, 1)}, True),
        ({"a": Room(2000, 2048 * MIB - 1, 1)}, True),
        ({"a": Room(2000, 2048 * MIB, 0)}, True),
        ({"a": None}, True),  # the node is gone
        ({"b": Room(-500, -MIB, -1)}, False),  # the plan only frees room there
        ({"c": None}, False),  # the plan does not use it
    ],
)
def test_other_pods_took_the_room(changed: dict[str, Room | None], stale: bool) -> None:
    now: dict[str, Room | None] = {**ROOMS, **changed}
    assert is_stale(RESULT, THERE, now.get) == stale


def test_room_that_lacked_from_the_start_does_not_make_a_plan_stale() -> None:
    """The plan knew: its pods wait for others to leave."""
    full = {**ROOMS, "a": Room(1000, 4096 * MIB, 5)}
    assert not is_stale(replace(RESULT, rooms=full), THERE, full.get)
    assert is_stale(replace(RESULT, rooms=full), THERE, {**full, "a": Room(999, 4096 * MIB, 5)}.get)


def test_a_node_that_was_not_known_then() -> None:
    assert is_stale(replace(RESULT, rooms={"b": ROOMS["b"]}), THERE, ROOMS.get)


@pytest.mark.parametrize(
    "there",
    [
        THERE[1:],
        [*THERE, Container("new", "a", SMALL)],
        [replace(ON_A, node="b"), *THERE[1:]],
        [replace(ON_A, size=LARGE), *THERE[1:]],
    ],
)
def test_the_functions_pods_changed(there: list[Container]) -> None:
    assert is_stale(RESULT, there, ROOMS.get)


def test_a_failure_is_not_stale() -> None:
    assert not is_stale(failed_result((), ValueError("no sizes")), THERE, ROOMS.get)
