"""When a plan no longer holds, and when to check again."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import pytest

from combofunc.pods.memory_in_use import Refused
from combofunc.pods.pod import FunctionPod, Resizing
from combofunc.reconcile.function_state import FunctionState, Observation
from combofunc.reconcile.plan_validity import next_check_s, note_refusals, replan_reason, stuck_pods
from combofunc.reconcile.spec import ComboFunc
from combofunc.settings import Settings
from tests.combofunc.function_in_world import FunctionInWorld
from tests.combofunc.pods.world import World, node


def unschedulable(since_s: float) -> FunctionPod:
    """A pod of a real shape that the scheduler tried to place in vain since then."""
    function = FunctionInWorld(World([node("node-0")]))
    function.wants(1)
    function.reconcile()
    (pod,) = function.pods
    return replace(pod, node="", gated=False, unschedulable_since_s=since_s)


@pytest.mark.parametrize(
    ("stuck_plans", "wait_s"), [(0, 10.0), (1, 20.0), (2, 40.0), (6, 640.0), (7, 640.0), (100, 640.0)]
)
def test_the_wait_doubles_with_each_plan_made_in_vain(stuck_plans: int, wait_s: float) -> None:
    settings, state = Settings(unschedulable_s=10.0), FunctionState(stuck_plans=stuck_plans)
    pod = unschedulable(since_s=1000.0)
    for early_s, stuck in ((0.1, set[str]()), (-0.1, {pod.uid})):
        seen = Observation(cast(ComboFunc, None), 1, [pod], 1000.0 + wait_s - early_s)
        assert stuck_pods(seen, state, settings) == stuck


class Case:
    """A function with one pod that serves its plan, and 100 s to spare before anything times out."""

    def __init__(self) -> None:
        made = FunctionInWorld(World([node("node-0")]), resize_wait_limit_s=15.0)
        made.wants(8, drain="5s", keepWarm="60s")
        made.run(3)
        (self.pod,) = made.pods
        assert made.state.assignment is not None
        self.state, self.assignment, self.settings = made.state, made.state.assignment, made.settings
        self.seen = Observation(made.function, 8, [self.pod], 1_000_000.0)

    def with_pod(self, **changes: Any) -> Observation:
        return replace(self.seen, pods=[replace(self.pod, **changes)])

    def why(self, seen: Observation | None = None, **state: Any) -> str:
        return replan_reason(seen or self.seen, replace(self.state, **state), frozenset(), {}, self.settings)


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


def test_a_plan_holds(case: Case) -> None:
    assert case.why() == ""
    assert next_check_s(case.seen, case.state) == math.inf


def test_without_a_plan(case: Case) -> None:
    assert case.why(assignment=None) == "there was no plan"
    assert case.why(assignment=None, planner_failure="ValueError") == "the last plan failed"


def test_a_pod_that_no_node_took(case: Case) -> None:
    assert replan_reason(case.seen, case.state, frozenset("u"), {}, case.settings) == "no node took a pod"


def test_a_higher_target_is_held_for_as_long_as_the_spec_says(case: Case) -> None:
    now_s = case.seen.now_s
    held = replace(case.state, recent_targets=((now_s - 50.0, 8), (now_s, 3)))
    assert case.why(recent_targets=held.recent_targets) == "", "planned for 8"
    assert next_check_s(case.seen, held) == pytest.approx(10.0)
    assert case.why(recent_targets=((now_s, 3),)) == "less is kept warm"


def test_a_short_plan_is_tried_again_when_its_time_comes(case: Case) -> None:
    now_s = case.seen.now_s
    short = replace(case.assignment, target=9)
    assert short.short
    later = replace(case.state, assignment=short, retry_short_at_s=now_s + 7.0)
    assert case.why(assignment=short, retry_short_at_s=now_s + 7.0) == ""
    assert next_check_s(case.seen, later) == pytest.approx(7.0)
    assert case.why(assignment=short, retry_short_at_s=now_s) == (
        "the last plan was short and there may be room now"
    )
    waits = case.with_pod(gated=True)
    assert case.why(waits, assignment=short, retry_short_at_s=now_s) == "", "its own pod waits for room"
    assert next_check_s(waits, later) == math.inf
    left = case.why(assignment=short, retry_short_at_s=now_s + 7.0, outdated_pods=frozenset({"old"}))
    assert left == "pods of an earlier template have left room"


def test_pods_and_memory_that_time_alone_changes(case: Case) -> None:
    now_s = case.seen.now_s
    assert next_check_s(case.with_pod(unschedulable_since_s=1.0), case.state) == 1.0
    assert next_check_s(case.with_pod(unschedulable_since_s=1.0, deleting=True), case.state) == math.inf
    assert next_check_s(case.seen, replace(case.state, least_memory={"u": 1.0})) == 60.0
    refused = {"u": Refused(1.0, now_s + 30.0, 1)}
    assert next_check_s(case.seen, replace(case.state, memory_refusals=refused)) == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("resizing", "waited_s", "refused_for_s"),
    [
        (Resizing.NONE, 99.0, None),
        (Resizing.IN_PROGRESS, 99.0, None),
        (Resizing.INFEASIBLE, 0.0, 300.0),
        (Resizing.DEFERRED, 20.0, None),  # resize_wait_limit_s and spec.drain
        (Resizing.DEFERRED, 20.1, 60.0),
        (Resizing.FAILING, 20.0, None),
        (Resizing.FAILING, 20.1, 60.0),
    ],
)
def test_how_long_a_pod_is_not_resized_again(
    case: Case, resizing: Resizing, waited_s: float, refused_for_s: float | None
) -> None:
    now_s = case.seen.now_s
    seen = case.with_pod(resizing=resizing, resizing_since_s=now_s - waited_s)
    known = note_refusals(seen, case.state, case.settings).no_resize_until_s
    assert known == ({} if refused_for_s is None else {case.pod.uid: now_s + refused_for_s})


def test_refusals_end_and_go_with_their_pods(case: Case) -> None:
    now_s, uid = case.seen.now_s, case.pod.uid
    for until, kept in (
        ({uid: now_s + 1.0}, {uid: now_s + 1.0}),
        ({uid: now_s}, {}),
        ({"gone": now_s + 1.0}, {}),
    ):
        state = replace(case.state, no_resize_until_s=until)
        assert note_refusals(case.seen, state, case.settings).no_resize_until_s == kept
