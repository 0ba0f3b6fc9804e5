"""Idle containers: by hand, and what must hold for every problem."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from combofunc.planner import planning
from combofunc.planner.held_memory import respecting_held_memory
from combofunc.planner.idle import keep_idle
from combofunc.planner.model import Container, Plan, PlanRequest, Resize, Weights
from combofunc.planner.verifier import violations
from experiments.planner.random_problems import RandomProblem
from tests.combofunc.planner.builders import LARGE, MIB, MIDDLE, SIZES, SMALL, node, problems, running


def planned(containers: tuple[Container, ...], target: int, **weights: bool) -> Plan:
    nodes = (node("a"), node("b"))
    request = PlanRequest(SIZES, nodes, containers, target, Weights(**weights))
    return keep_idle(planning.plan(request), request)


def test_a_container_that_is_not_needed_shrinks_and_stays() -> None:
    plan = planned(running(LARGE, LARGE, LARGE), 8)
    assert (plan.removed, plan.replicas) == ((), {"large": 1, "small": 2})
    assert plan.concurrency == 10, "the idle ones serve too"
    assert "2 idle containers are kept, ready to grow: pod-a-" in plan.reasons[-1]


def test_the_smallest_stays_as_it_is() -> None:
    plan = planned(running(LARGE, SMALL), 8)
    assert (len(plan.kept), plan.resized, plan.removed) == (2, (), ())


def test_nothing_stays_at_a_target_of_0_or_without_in_place() -> None:
    assert len(planned(running(LARGE, SMALL), 0).removed) == 2
    assert len(planned(running(LARGE, LARGE), 8, in_place=False).removed) == 1


def test_a_container_that_is_not_ready_goes() -> None:
    plan = planned(running(LARGE) + running(LARGE, on="b", resizable=False), 8)
    assert [c.node for c in plan.removed] == ["b"]


def test_memory_in_use_is_kept_if_the_plan_leaves_room_for_it() -> None:
    holding = replace(running(LARGE, on="b")[0], least_memory_bytes=900 * MIB)
    for free_mib, stays in ((0, True), (-200, False)):
        request = PlanRequest(
            SIZES, (node("a"), node("b", memory_free_bytes=free_mib * MIB)), (*running(LARGE), holding), 8
        )
        plan = keep_idle(Plan(8, running(LARGE), (), (holding,), (), 0.0, 0.0, 0.0), request)
        assert (Resize(holding, SMALL) in plan.resized) == stays


def test_room_that_the_plan_gives_to_another_is_not_kept() -> None:
    """One grows into the room of the other, which then has no room even for the smallest size."""
    grows, goes = running(MIDDLE, MIDDLE)
    full = node("a", cpu_free_millicores=0, memory_free_bytes=0)
    request = PlanRequest((MIDDLE, LARGE), (full,), (grows, goes), 8)
    plan = keep_idle(planning.plan(request), request)
    assert [len(plan.resized), len(plan.removed)] == [1, 1]


@settings(max_examples=300)
@given(problems())
def test_plans_stay_feasible_and_serve_no_less(problem: RandomProblem) -> None:
    request = problem.request
    before = respecting_held_memory(planning.plan)(request)
    plan = keep_idle(before, request)
    assert not violations(plan, request)
    assert plan.created == before.created
    assert plan.concurrency >= before.concurrency
    assert {r.container for r in before.resized} <= {r.container for r in plan.resized}
    assert set(plan.removed) <= set(before.removed)
    if before.created or before.shortage or not request.target:
        assert plan == before
