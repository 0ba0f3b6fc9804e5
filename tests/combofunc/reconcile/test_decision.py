"""From a target to pods that serve it, in a small world."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cluster_model.contention import CONTENTION, ContentionForm
from combofunc.labels import PLACEMENT_GATE
from combofunc.planner import planning
from combofunc.planner.model import Plan, PlanRequest
from combofunc.reconcile.decision import decide
from combofunc.reconcile.function_state import Observation
from tests.combofunc.function_in_world import SIZES, FunctionInWorld
from tests.combofunc.pods.world import World, node


def in_world(nodes: int = 4, cpu: str = "8", **settings: Any) -> FunctionInWorld:
    return FunctionInWorld(World([node(f"node-{i}", cpu) for i in range(nodes)]), **settings)


def test_scales_up_on_the_planned_nodes_and_down_again() -> None:
    function = in_world()
    function.wants(20)
    assert function.run(5).waiting == ""
    assert function.ready >= 20
    assert all(pod.node == pod.planned_node and not pod.gated for pod in function.pods)
    function.wants(0)
    function.run(5)
    assert function.world.pods == {}


@pytest.mark.parametrize("form", ContentionForm)
def test_the_setting_chooses_the_form_of_eq_6(form: ContentionForm) -> None:
    asked: list[PlanRequest] = []

    def planner(request: PlanRequest) -> Plan:
        asked.append(request)
        return planning.plan(request)

    function = in_world(planner=planner, contention=form)
    function.wants(20)
    function.run(5)
    assert {request.contention for request in asked} == {CONTENTION[form]}


UNREADABLE = [f"pod-{i}" for i in range(6)]
NAMED = "6 of its pods cannot be read (pod-0, pod-1, pod-2, pod-3, pod-4 and others)"


@pytest.mark.parametrize(
    ("target", "spec", "unreadable", "reason", "valid"),
    [
        (20, {}, [], "the plan holds", True),
        (60, {}, [], "the spec or the target changed", True),
        (60, {"paused": True}, [], "spec.paused is true", True),
        (None, {"targetFrom": "Collector"}, [], "no target is known", False),
        (60, {}, UNREADABLE, NAMED, False),
        (60, {"paused": True}, ["a", "b"], "2 of its pods cannot be read (a, b)", False),
    ],
)
def test_a_decision_explains_itself(
    target: int | None, spec: dict[str, Any], unreadable: list[str], reason: str, valid: bool
) -> None:
    function = in_world()
    function.wants(20)
    function.run(5)
    function.wants(target, **spec)
    decision = function.decide(unreadable_pods=unreadable, inputs_age_s={"pods": 0.5})
    assert (decision.reasons, decision.valid) == ((reason,), valid)
    assert decision.inputs_age_s == {"pods": 0.5}
    assert decision.action.replanned == (reason == "the spec or the target changed")
    assert bool(decision.action.actions) == decision.action.replanned


def test_nothing_is_done_when_all_is_as_planned() -> None:
    function = in_world()
    function.wants(20)
    function.run(5)
    before = len(function.world.calls)
    function.run(30)
    assert len(function.world.calls) == before


def test_the_next_look_is_when_the_drain_is_over() -> None:
    function = in_world(nodes=1)
    function.wants(8)
    function.run(3)
    function.wants(0)
    function.run(0.7)  # spec.drain is 1 s
    update = function.reconcile()
    assert update.waiting == "1 to drain"
    (pod,) = function.pods
    assert pod.draining_since_s is not None
    assert update.again_in_s == pytest.approx(pod.draining_since_s + 1.0 - function.world.now_s)
    assert 0.0 < update.again_in_s < 0.5


def test_grows_in_place_and_says_so_only_when_it_holds() -> None:
    function = in_world(nodes=1, cpu="3")
    function.wants(3)
    function.run(3)
    assert list(function.sizes.values()) == ["medium"]
    (pod,) = function.sizes
    function.wants(8)
    function.reconcile()
    assert function.sizes == {pod: "medium"}, "the balancer must not send more before the resize is done"
    function.run(3)
    assert function.sizes == {pod: "large"}
    assert function.ready == 8


def test_shrinks_by_saying_so_first() -> None:
    function = in_world(nodes=1, cpu="2")
    function.wants(8)
    function.run(3)
    (pod,) = function.sizes
    calls = len(function.world.calls)
    # One large where one small will do; nothing else is offered, so it can only shrink.
    function.wants(1, priceWeight=100)
    function.run(3)
    assert function.sizes == {pod: "small"}
    said, asked = (c for c in function.world.calls[calls:] if c.startswith(f"patch {pod}"))
    assert (said, asked) == (f"patch {pod} ", f"patch {pod} resize")


def test_a_node_that_became_impossible_is_passed_over() -> None:
    function = in_world(nodes=2)
    function.wants(8)
    function.reconcile()
    (pod,) = function.pods
    function.world.nodes[pod.planned_node]["spec"]["unschedulable"] = True
    function.run(3)
    assert function.ready == 8
    (pod,) = function.pods
    assert pod.node not in ("", pod.planned_node)


def test_a_pod_that_ends_is_replaced() -> None:
    function = in_world()
    function.wants(16)
    function.run(3)
    gone = min(function.sizes)
    function.world.kill(gone)
    function.run(5)
    assert function.ready >= 16
    assert gone not in function.sizes


def test_pods_on_a_lost_node_do_not_count() -> None:
    function = in_world()
    function.wants(24)
    function.run(3)
    lost = function.pods[0].node
    function.world.nodes[lost]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    function.run(5)
    serving = sum(pod.concurrency for pod in function.pods if pod.serves and pod.node != lost)
    assert serving >= 24


def test_a_new_image_replaces_all_pods_and_never_serves_less() -> None:
    function = in_world()
    function.wants(24)
    function.run(3)
    old = set(function.sizes)
    function.wants(24, image="app:2")
    least = 24
    for _ in range(100):
        function.run(0.1)
        least = min(least, function.ready)
    assert least >= 24
    assert not old & set(function.sizes)
    assert function.reconcile().waiting == ""


def test_a_new_image_rolls_through_a_full_cluster() -> None:
    function = in_world(nodes=2, cpu="2")
    function.wants(16)
    function.run(3)
    old = set(function.sizes)
    assert function.ready == 16
    function.wants(16, image="app:2")
    function.run(60)
    assert function.ready == 16
    assert not old & set(function.sizes)


def test_a_shortage_is_filled_when_there_is_room() -> None:
    function = in_world(nodes=1, cpu="2")
    function.wants(16)
    function.run(3)
    assert function.state.plan is not None
    assert (function.ready, function.state.plan.shortage) == (8, 8)
    function.world.nodes["node-9"] = node("node-9")
    function.run(40)
    assert function.ready >= 16


def test_a_planner_that_raises_leaves_the_pods_alone() -> None:
    function = in_world()
    function.wants(16)
    function.run(3)
    before, calls = dict(function.sizes), len(function.world.calls)

    def planner(request: PlanRequest) -> Plan:
        raise ZeroDivisionError("no such luck")

    function.planner = planner
    function.wants(40)
    function.run(20)
    assert function.state.planner_failure == "ZeroDivisionError: no such luck"
    assert (function.sizes, len(function.world.calls)) == (before, calls)
    function.planner = planning.plan
    function.run(40)
    assert function.ready >= 40


def test_the_wait_after_a_failed_plan_doubles_and_starts_again_with_another_target() -> None:
    function = in_world(nodes=1, planner=lambda _: 1 / 0)
    function.wants(8)
    waits = []
    for _ in range(7):
        decision = function.decide()
        assert (decision.valid, decision.action.replanned) == (False, True)
        function.state = decision.action.state
        waits.append(decision.action.again_in_s)
        function.world.now_s += decision.action.again_in_s
    assert waits == pytest.approx([1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0])
    function.wants(9)
    assert function.decide().action.again_in_s == pytest.approx(1.0)


def test_a_plan_that_forgets_a_container_is_not_carried_out() -> None:
    function = in_world()
    function.wants(16)
    function.run(3)
    calls = len(function.world.calls)
    function.planner = lambda request: Plan(
        request.target, (), (), tuple(request.containers[1:]), (), 0.0, 0.0, 0.0
    )
    function.wants(8)
    function.run(3)
    assert "must keep, resize or remove every container" in function.state.planner_failure
    assert len(function.world.calls) == calls


@pytest.mark.parametrize("spec", [{"paused": True}, {"mode": "shadow"}])
def test_paused_or_in_shadow_nothing_is_touched(spec: dict[str, Any]) -> None:
    function = in_world()
    function.wants(16, **spec)
    function.run(3)
    assert function.world.calls == []
    assert (function.state.plan is None) == ("paused" in spec)


def test_a_gate_is_taken_off_even_when_paused() -> None:
    function = in_world()
    function.wants(8)
    function.world.lose_answers = 1  # of the creation: the pod is there, its gate on
    function.reconcile()
    (pod,) = function.world.pods.values()
    assert pod["spec"]["schedulingGates"] == [{"name": PLACEMENT_GATE}]
    function.wants(8, paused=True)
    function.run(3)
    assert function.ready == 8


def test_a_creation_whose_answer_was_lost_is_not_done_twice() -> None:
    function = in_world()
    function.wants(8)
    function.world.lose_answers = 1
    function.reconcile()
    function.reconcile()  # the watch has told nothing yet
    assert len(function.world.pods) == 1
    function.run(5)
    assert (function.ready, len(function.world.pods)) == (8, 1)


def test_a_resize_that_can_never_be_falls_back_to_another_plan() -> None:
    function = in_world(nodes=2)
    function.wants(3)
    function.run(3)
    (pod,) = function.pods
    # The node says it has 8 cores and the kubelet knows better, as with a static CPU policy.
    function.cluster.put_node(function.world.nodes[pod.node])
    function.world.nodes[pod.node] = smaller = node(pod.node, "1")
    smaller["status"]["allocatable"]["cpu"] = "1"
    watched = function.world.nodes
    function.world.nodes = {**watched, pod.node: node(pod.node)}
    function.wants(8, sizes=[{"name": "large", "cpu": "2", "memory": "2Gi", "concurrency": 8}])
    function.reconcile()
    function.world.nodes = watched
    for _ in range(100):
        function.world.tick(0.1)
        for obj in function.world.pods.values():
            function._see(obj)
        function.reconcile()
    assert function.ready >= 8
    assert pod.uid in function.state.no_resize_until_s or pod.name not in function.world.pods


def test_a_deferred_resize_is_awaited_and_then_planned_anew() -> None:
    function = in_world(nodes=2, cpu="2", resize_wait_limit_s=3.0)
    function.wants(3)
    function.run(3)
    (pod,) = function.pods
    body = {
        "metadata": {"name": "other"},
        "spec": {
            "nodeName": pod.node,
            "containers": [{"name": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        },
    }
    function.wants(8, sizes=[{"name": "large", "cpu": "2", "memory": "2Gi", "concurrency": 8}])
    function.reconcile()  # asks for the resize
    function.world.create("/api/v1/namespaces/shop/pods", body)
    function.world._until_s[function.world.pods["other"]["metadata"]["uid"]] = 0.0
    function.run(1)
    assert function.pods[0].resizing == "Deferred"
    assert function.ready == 3
    function.run(20)
    assert function.ready >= 8
    assert len({p.node for p in function.pods if p.serves}) == 1


def test_replicas_by_hand() -> None:
    function = in_world()
    sizes = [
        {"name": "small", "cpu": "500m", "memory": "512Mi", "concurrency": 1, "replicas": 3},
        {"name": "large", "cpu": "2", "memory": "2Gi", "concurrency": 8, "replicas": 1},
    ]
    function.wants(None, sizes=sizes)
    assert function.run(5).waiting == ""
    assert sorted(function.sizes.values()) == ["large", "small", "small", "small"]
    before = set(function.sizes)
    sizes[0]["replicas"], sizes[1]["replicas"] = 2, 2
    function.wants(None, sizes=sizes)
    assert function.run(5).waiting == ""
    assert sorted(function.sizes.values()) == ["large", "large", "small", "small"]
    assert set(function.sizes) == before, "one small has become large where it was"


FAULTS = st.one_of(
    st.tuples(st.just("target"), st.integers(0, 60)),
    st.tuples(st.just("kill"), st.integers(0, 9)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("lose answers"), st.integers(1, 5)),
    st.tuples(st.just("lose requests"), st.integers(1, 5)),
    st.tuples(st.just("image"), st.integers(1, 3)),
    st.tuples(st.just("in place"), st.integers(0, 1)),
    st.tuples(st.just("time"), st.integers(1, 30)),
)


@settings(max_examples=40)
@given(st.lists(FAULTS, max_size=12), st.sampled_from(["2", "4", "8"]))
@example(
    [("in place", 0), ("target", 0), ("target", 49)], "4"
)  # short while room is made: planned in circles
def test_whatever_happens_it_ends_as_planned(faults: list[tuple[str, int]], cpu: str) -> None:
    function = in_world(nodes=3, cpu=cpu, gate_timeout_s=2.0, unschedulable_s=1.0, resize_wait_limit_s=2.0)
    world, target, image, in_place = function.world, 10, "app:1", True
    function.wants(target)
    for what, number in faults:
        if what == "target":
            target = number
        elif what == "image":
            image = f"app:{number}"
        elif what == "in place":
            in_place = bool(number)
        elif what == "kill":
            alive = sorted(n for n, p in world.pods.items() if p["status"]["phase"] == "Running")
            if number < len(alive):
                world.kill(alive[number])
        elif what == "restart":
            function.restart()
        elif what == "lose answers":
            world.lose_answers = number
        elif what == "lose requests":
            world.lose_requests = number
        if what in ("target", "image", "in place"):
            function.wants(target, image=image, inPlace=in_place)
        function.run(number / 10 if what == "time" else 0.2)
        for name in world.nodes:
            assert world.used(name)[0] <= float(cpu) * 1000
    world.lose_answers = world.lose_requests = 0
    decision = function.run(150, step_s=0.5)
    assert function.state.assignment is not None
    goal = function.state.assignment.goal
    assert goal == target or cpu != "8", "8 cores are room for all"
    assert decision.waiting == ""
    assert function.ready >= goal
    assert len(function.pods) == len(function.sizes), "nothing drains or is left over"
    assert {pod.template for pod in function.pods} <= {function.function.template_hash}
    placed = [pod for pod in function.pods if not pod.awaits_node]
    assert function.ready == sum(pod.concurrency for pod in placed)
    waiting = sum(pod.concurrency for pod in function.pods) - function.ready
    assert waiting < target - goal + 8 if goal < target else waiting == 0, "as much as is short"
    assert not any(pod.gated for pod in function.pods)


def test_what_a_lower_target_does_not_need_is_kept_warm() -> None:
    function = in_world()
    function.wants(24, keepWarm="60s")
    function.run(5)
    there = function.sizes
    calls = len(function.world.calls)
    for target in (8, 24, 12):
        function.wants(target, keepWarm="60s")
        update = function.run(5)
    assert (function.sizes, function.ready) == (there, 24)
    assert len(function.world.calls) == calls, "a load that comes back is served at once"
    assert update.state.plan is not None
    assert (update.state.plan.target, update.state.plan.concurrency) == (12, 24)


def test_what_was_kept_warm_shrinks_and_then_goes() -> None:
    function = in_world()
    function.wants(24, keepWarm="10s")
    function.run(5)
    function.wants(8, keepWarm="10s")
    function.run(9)
    assert Counter(function.sizes.values()) == {"large": 3}
    function.run(6)
    assert Counter(function.sizes.values()) == {"large": 1, "small": 2}
    function.run(9)
    assert (function.ready, len(function.sizes)) == (8, 1)
    before = len(function.world.calls)
    function.run(30)
    assert len(function.world.calls) == before


def test_another_replica_keeps_warm_from_its_own_beginning_on() -> None:
    function = in_world()
    function.wants(24, keepWarm="10s")
    function.run(5)
    function.wants(8, keepWarm="10s")
    function.run(5)
    function.restart()
    function.run(9)
    assert Counter(function.sizes.values()) == {"large": 3}
    function.run(15)
    assert function.ready == 8


def test_a_load_that_returns_grows_what_was_kept() -> None:
    function = in_world()
    function.wants(24, keepWarm="10s")
    function.run(5)
    there = set(function.sizes)
    function.wants(8, keepWarm="10s")
    function.run(15)
    function.wants(24, keepWarm="10s")
    function.run(3)
    assert (set(function.sizes), function.ready) == (there, 24)


def test_what_is_idle_goes_at_once_when_another_function_lacks_room() -> None:
    function = in_world()
    function.wants(24, keepWarm="1h")
    function.run(5)
    function.wants(8, keepWarm="10s")
    function.run(15)
    assert len(function.sizes) == 3
    function.wants(8, keepWarm="0s")  # as the reconciler says it then
    function.run(4)
    assert (function.ready, len(function.sizes)) == (8, 1)


def test_a_target_of_zero_keeps_nothing() -> None:
    function = in_world()
    function.wants(24, keepWarm="1h")
    function.run(5)
    function.wants(0, keepWarm="1h")
    function.run(2)
    assert not function.sizes


def test_replicas_set_by_hand_are_not_kept() -> None:
    function = in_world()
    function.wants(24, keepWarm="1h")
    function.run(5)
    sizes = [{**size, "replicas": int(size["name"] == "small")} for size in SIZES]
    function.wants(None, keepWarm="1h", sizes=sizes)
    function.run(5)
    assert sorted(function.sizes.values()) == ["small"]


def test_what_was_kept_warm_and_lost_is_not_created_again() -> None:
    function = in_world()
    function.wants(24, keepWarm="1h")
    function.run(5)
    function.wants(8, keepWarm="1h")
    function.run(1)
    del function.world.pods[next(iter(function.world.pods))]
    function.watch()
    update = function.run(5)
    assert (function.ready, len(function.sizes)) == (16, 2)
    assert update.state.plan is not None
    assert (update.state.plan.target, update.state.plan.shortage) == (8, 0)


def test_a_target_that_was_mistyped_creates_nothing() -> None:
    function = in_world()
    function.wants(8, keepWarm="1h")
    function.run(5)
    function.wants(100_000, keepWarm="1h")
    seen = Observation(function.function, 100_000, function.pods, function.world.now_s)
    update = decide(seen, function.state, function.cluster, lambda *_: None, function.settings).action
    assert update.planning, "the target is corrected before there is a plan"
    function.state = update.state
    function.wants(8, keepWarm="1h")
    function.run(5)
    assert function.ready == 8


def test_a_roll_replaces_what_the_target_needs_only() -> None:
    function = in_world()
    function.wants(24, keepWarm="1h")
    function.run(5)
    function.wants(8, keepWarm="1h")
    function.run(1)
    function.wants(8, image="app:2", keepWarm="1h")
    function.run(10)
    assert (function.ready, len(function.sizes)) == (8, 1)


def test_time_goes_on_while_it_is_paused() -> None:
    function = in_world()
    function.wants(24, keepWarm="10s")
    function.run(5)
    function.wants(8, keepWarm="10s", paused=True)
    function.run(22)
    assert len(function.sizes) == 3
    function.wants(8, keepWarm="10s")
    function.run(3)
    assert function.ready == 8


def test_a_target_within_what_is_held_is_said_at_once_though_no_plan_can_be_made() -> None:
    function = in_world()
    function.wants(24, keepWarm="1h")
    function.run(5)
    function.wants(8, keepWarm="1h")
    function.run(1)
    function.state = replace(function.state, assignment=None, replan_not_before_s=function.world.now_s + 60)
    function.wants(20, keepWarm="1h")
    update = function.reconcile()
    assert update.state.plan is not None
    assert update.state.plan.target == 20


def test_in_shadow_too_a_plan_says_when_what_is_kept_warm_goes() -> None:
    function = in_world()
    function.wants(24, keepWarm="10s")
    function.run(5)
    function.wants(8, keepWarm="10s", mode="shadow")
    decision = function.reconcile()
    assert decision.state.plan is not None
    assert (len(decision.state.plan.removed), decision.again_in_s) == (0, 10.0)
    function.world.tick(decision.again_in_s)
    decision = function.reconcile()
    assert decision.state.plan is not None
    assert (len(decision.state.plan.resized), decision.again_in_s) == (2, 10.0)
    function.world.tick(decision.again_in_s)
    decision = function.reconcile()
    assert decision.state.plan is not None
    assert (len(decision.state.plan.removed), len(function.sizes)) == (2, 3)
