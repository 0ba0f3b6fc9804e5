"""Keeping warm: by hand, and what must hold whatever the problem."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_extender.planner import planning
from scheduler_extender.planner.model import Container, Plan, Weights
from scheduler_extender.planner.random_problems import RandomProblem
from scheduler_extender.planner.verifier import violations
from scheduler_extender.planner.warm import plan_keeping_warm
from tests.scheduler_extender.planner.builders import (
    LARGE,
    MIB,
    MIDDLE,
    SIZES,
    SMALL,
    node,
    problems,
    running,
)

KEEP_S = 60.0
NEW: Mapping[str, float] = {}


def keeping_warm(
    problem: RandomProblem,
    idle_since: dict[str, float] | None = None,
    keep_s: float = KEEP_S,
    now_s: float = 0.0,
) -> tuple[Plan, dict[str, float]]:
    return plan_keeping_warm(
        planning.plan,
        *(problem.sizes, problem.nodes, problem.containers, problem.target, problem.weights),
        *(idle_since or {}, keep_s, now_s),
    )


def asked(containers: tuple[Container, ...], target: int, in_place: bool = True) -> RandomProblem:
    weights = Weights(in_place=in_place)
    return RandomProblem("by hand", SIZES, (node("a"), node("b")), containers, target, weights)


def test_what_is_not_needed_shrinks_and_counts() -> None:
    plan, idle = keeping_warm(asked(running(LARGE, LARGE, LARGE), 10), now_s=7.0)
    assert not plan.removed
    assert not plan.created
    assert plan.replicas == {"large": 1, "small": 2}, "8 + 1 + 1: the warm ones are part of the ten"
    assert idle == {"pod-a-1": 7.0}, "the other was shrunk for what is needed beside the eight"


def test_when_its_time_is_over_it_goes() -> None:
    containers = running(LARGE, SMALL)
    plan, idle = keeping_warm(asked(containers, 8), {"pod-a-1": 0.0}, now_s=59.0)
    assert (plan.removed, plan.resized, idle) == ((), (), {"pod-a-1": 0.0})
    plan, idle = keeping_warm(asked(containers, 8), idle, now_s=60.0)
    assert [c.pod for c in plan.removed] == ["pod-a-1"]
    plan, _ = keeping_warm(asked(containers, 8), idle, now_s=61.0)
    assert [c.pod for c in plan.removed] == ["pod-a-1"], "also if it is still there, draining"


def test_who_is_needed_again_is_not_idle() -> None:
    plan, idle = keeping_warm(asked(running(LARGE, SMALL), 16), {"pod-a-1": 0.0}, now_s=59.0)
    assert ([r.to for r in plan.resized], idle) == ([LARGE], {})


def test_without_in_place_it_stays_as_it_is() -> None:
    containers = running(LARGE, LARGE)
    plan, _ = keeping_warm(asked(containers, 8, in_place=False))
    assert plan.kept == containers
    idle = dict.fromkeys(("pod-a-0", "pod-a-1"), 0.0)
    plan, _ = keeping_warm(asked(containers, 8, in_place=False), idle, now_s=60.0)
    assert len(plan.removed) == 1


def test_who_wants_nothing_keeps_nothing() -> None:
    plan, idle = keeping_warm(asked(running(LARGE, SMALL), 0))
    assert (len(plan.removed), idle) == (2, {})


def test_who_is_on_its_way_is_not_waited_for() -> None:
    plan, _ = keeping_warm(asked(running(LARGE) + running(LARGE, on="b", resizable=False), 8))
    assert [c.node for c in plan.removed] == ["b"]


def test_it_goes_where_its_room_is_needed() -> None:
    """A container of a size not offered any more, alone on the only node, makes way for a new one."""
    old = Container("old", "a", MIDDLE, resizable=True)
    problem = RandomProblem(
        "by hand",
        (LARGE,),
        (node(cpu_free_millicores=600, memory_free_bytes=600 * MIB),),
        (old,),
        8,
        Weights(),
    )
    plan, idle = keeping_warm(problem)
    assert plan.shortage == 0
    assert idle == {}


@settings(max_examples=300, deadline=None)
@given(problems(), st.sets(st.integers(0, 5)), st.sampled_from([0.0, 30.0, 60.0]))
def test_it_is_a_plan_that_costs_no_time(problem: RandomProblem, idle: set[int], now_s: float) -> None:
    question = (problem.sizes, problem.nodes, problem.containers, problem.target, problem.weights)
    alone = planning.plan(*question)
    before = {f"pod-{i}": 0.0 for i in idle}
    plan, after = keeping_warm(problem, before, now_s=now_s)
    assert violations(plan, *question) == []
    assert plan.shortage <= alone.shortage
    assert len(plan.created) <= len(alone.created)
    removed = {c.pod for c in plan.removed}
    assert all(since_s == before.get(pod, now_s) for pod, since_s in after.items())
    assert all(since_s + KEEP_S > now_s for pod, since_s in after.items() if pod not in removed)
    assert keeping_warm(problem, keep_s=0.0)[0] == alone


@settings(max_examples=100, deadline=None)
@given(problems())
def test_in_the_end_it_is_the_plan_without(problem: RandomProblem) -> None:
    """All that is idle goes in time: nothing is kept for ever by being renewed."""
    idle: dict[str, float] = {}
    for now_s in (0.0, KEEP_S, 2 * KEEP_S, 3 * KEEP_S, 4 * KEEP_S):
        plan, idle = keeping_warm(problem, idle, now_s=now_s)
    alone = planning.plan(problem.sizes, problem.nodes, problem.containers, problem.target, problem.weights)
    assert plan.concurrency == alone.concurrency or idle
