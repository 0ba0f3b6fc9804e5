"""Algorithm 1: by hand, and against the loop as it is printed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combofunc.planner import greedy
from combofunc.planner.choice import plan_of
from combofunc.planner.model import PlanRequest, Weights
from combofunc.planner.problem import prepare
from combofunc.planner.verifier import violations
from experiments.planner.random_problems import RandomProblem
from tests.combofunc.planner.builders import (
    LARGE,
    MIB,
    MIDDLE,
    SIZES,
    SMALL,
    node,
    problems,
    running,
)
from tests.combofunc.planner.plain_loop import PlainLoop

FREE = Weights(price_weight=0.0)


def test_takes_the_cheapest_per_unit_and_stops_at_the_target() -> None:
    """Two on each node would do 32; the third step is the slow node's first, then Q' = 20 is there."""
    nodes = [node("quick"), node("slow", tau_create_s=2.5)]
    plan = greedy.plan(PlanRequest(SIZES, nodes, (), 20, FREE))
    assert [(c.node, c.size) for c in plan.created] == [("quick", LARGE), ("quick", LARGE), ("slow", LARGE)]
    assert plan.scaling_s == pytest.approx(1.0 + 2.0 + 2.5)
    assert plan.concurrency == 24
    assert plan.shortage == 0


def test_a_target_that_is_met_exactly_ends_the_loop() -> None:
    assert greedy.plan(PlanRequest(SIZES, [node()], (), 8, FREE)).replicas == {"large": 1}


def test_a_container_that_fits_exactly_fits() -> None:
    tight = node(cpu_free_millicores=1000, memory_free_bytes=1024 * MIB, pods_free=1)
    assert greedy.plan(PlanRequest(SIZES, [tight], (), 8, FREE)).replicas == {"large": 1}
    assert greedy.plan(PlanRequest(SIZES, [node(cpu_free_millicores=999)], (), 3, FREE)).replicas == {
        "middle": 1
    }


def test_what_is_being_created_counts() -> None:
    nodes = [node("busy", creating=3), node("idle", tau_create_s=3.9)]
    assert [c.node for c in greedy.plan(PlanRequest([LARGE], nodes, (), 8, FREE)).created] == ["idle"]


def test_when_nothing_fits_the_partial_plan_says_what_is_short() -> None:
    plan = greedy.plan(PlanRequest([LARGE], [node(cpu_free_millicores=2500)], (), 30, FREE))
    assert (plan.concurrency, plan.shortage) == (16, 14)
    assert "16 of 30 fit" in plan.reasons[0]


def test_keeping_comes_first_and_the_rest_is_removed() -> None:
    plan = greedy.plan(PlanRequest(SIZES, [node()], running(LARGE, MIDDLE, SMALL), 8))
    assert [c.size for c in plan.kept] == [LARGE]
    assert len(plan.removed) == 2
    assert plan.scaling_s == 0.0


def test_the_last_step_overshoots_as_printed() -> None:
    """What ours does better: 9 needs a large and a small one."""
    assert greedy.plan(PlanRequest(SIZES, [node()], (), 9, FREE)).replicas == {"large": 2}


@settings(max_examples=150)
@given(problems())
def test_the_same_plan_as_the_plain_loop(problem: RandomProblem) -> None:
    plan = greedy.plan(problem.request)
    assert not violations(plan, problem.request)
    steps = PlainLoop(problem).run()
    assert {c.pod for c in plan.kept} == {s.container.pod for s in steps if s.kind == 0 and s.container}
    resized = {(s.container.pod, s.size) for s in steps if s.kind == 1 and s.container}
    assert {(r.container.pod, r.to) for r in plan.resized} == resized
    created = sorted((s.node, s.size.name) for s in steps if s.kind == 2)
    assert sorted((c.node, c.size.name) for c in plan.created) == created


@settings(max_examples=100)
@given(problems(), st.integers(0, 600))
def test_cut_short_it_keeps_what_it_did_not_come_to(problem: RandomProblem, most_work: int) -> None:
    prepared = prepare(problem.request)
    whole, part = greedy.choose(prepared), greedy.choose(prepared, most_work)
    plan = plan_of(prepared, part.choice)
    assert violations(plan, problem.request) == []
    if not part.cut_short:
        assert part.choice == whole.choice
        return
    goes = [c for i, c in enumerate(prepared.containers) if c in plan.removed and prepared.keepable[i]]
    assert goes == [], "an unfinished plan takes nothing away"
