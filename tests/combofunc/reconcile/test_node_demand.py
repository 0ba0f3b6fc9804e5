"""What fits nowhere becomes pods that wait for nodes: as many as are short, as long as they are needed."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from combofunc.labels import PLANNED_NODE_ANNOTATION, SIZE_OFFER_ANNOTATION
from combofunc.pods.size_offer import batch_of
from combofunc.reconcile.report import report
from surgekit.process.modes import Mode
from tests.combofunc.function_in_world import SIZES, FunctionInWorld
from tests.combofunc.pods.world import World, node

Json = dict[str, Any]


def short(target: int = 16, **settings: Any) -> FunctionInWorld:
    """A function with room for one large container."""
    function = FunctionInWorld(World([node("node-0", cpu="2")]), **settings)
    function.wants(target)
    return function


def waiting(function: FunctionInWorld) -> Counter[str]:
    return Counter(pod.size for pod in function.pods if pod.awaits_node and pod.live)


def test_pods_wait_as_the_scheduler_and_autoscalers_expect() -> None:
    function = short()
    function.run(2)
    assert not waiting(function), "a moment later idle containers of others may be gone"
    function.run(3)
    assert waiting(function) == {"large": 1}
    (pod,) = [pod for pod in function.world.pods.values() if not pod["spec"].get("nodeName")]
    assert "schedulingGates" not in pod["spec"]
    assert PLANNED_NODE_ANNOTATION not in pod["metadata"]["annotations"]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "function"
    assert pod["status"]["conditions"][0]["reason"] == "Unschedulable"
    offer = json.loads(pod["metadata"]["annotations"][SIZE_OFFER_ANNOTATION])
    assert offer["need"] == 8
    assert [size["name"] for size in offer["sizes"]] == ["small", "medium", "large"]
    assert batch_of(pod["metadata"]["annotations"][SIZE_OFFER_ANNOTATION]) == offer["batch"]


def test_a_node_that_comes_takes_the_pod_and_the_plan_keeps_it() -> None:
    function = short()
    function.run(5)
    (pod,) = [pod.name for pod in function.pods if pod.awaits_node]
    function.world.nodes["node-9"] = node("node-9", cpu="2")
    function.run(5)
    assert function.ready == 16
    assert pod in function.sizes
    assert not waiting(function)
    before = len(function.world.calls)
    function.run(40)
    assert len(function.world.calls) == before, "nothing is left to do"


@pytest.mark.parametrize("target", [0, 8])
def test_pods_go_when_the_target_falls(target: int) -> None:
    function = short()
    function.run(5)
    assert waiting(function)
    function.wants(target)
    function.run(3)
    assert not waiting(function)
    assert function.ready == target


def test_when_less_is_short_less_waits() -> None:
    function = short(16)
    function.run(5)
    function.wants(9)
    function.run(6)
    assert waiting(function) == {"small": 1}, "a large one would bring a node for eight times as much"


def test_pods_go_when_there_is_room_elsewhere() -> None:
    function = short(target=40, price_weight=0.01)
    function.run(5)
    assert waiting(function) == {"large": 4}
    function.world.nodes["node-9"] = node("node-9", cpu="6")
    function.run(40)
    assert function.ready == 32
    assert waiting(function) == {"large": 1}


def test_no_more_than_the_setting_allows() -> None:
    function = short(target=1000, max_waiting_pods=3)
    function.run(10)
    assert waiting(function).total() == 3


def test_other_sizes_are_tried_then_a_pause_that_doubles() -> None:
    function = short(node_wait_s=20.0)
    tried: list[tuple[float, dict[str, int]]] = []
    began_s = function.world.now_s
    for _ in range(200):
        function.run(1, step_s=0.5)
        now = dict(waiting(function))
        if not tried or tried[-1][1] != now:
            tried.append((function.world.now_s - began_s, now))
    sizes = [now for _, now in tried if now]
    assert sizes[:3] == [{"large": 1}, {"medium": 3}, {"small": 8}]
    pauses = [after - at for (at, now), (after, _) in itertools.pairwise(tried) if not now]
    assert pauses[-1] > 15, "nobody brings nodes: a pause"
    assert function.state.nodes.in_vain >= 1
    update = function.reconcile()
    assert "no node came" in update.node_demand or update.awaiting_nodes


def test_off_and_shadow_remove_them_and_shadow_says_which() -> None:
    function = short()
    function.run(5)
    assert waiting(function)
    function.settings = replace(function.settings, node_demand=Mode.SHADOW)
    assert function.run(1).node_demand == "with node_demand: enforce, pods would wait for nodes: 1 x large"
    assert not waiting(function)
    function.settings = replace(function.settings, node_demand=Mode.ENFORCE)
    function.run(5)
    function.settings = replace(function.settings, node_demand=Mode.OFF)
    assert function.run(1).node_demand == ""
    assert not waiting(function)


def test_a_new_leader_goes_on_with_the_pods_it_finds() -> None:
    function = short()
    function.run(5)
    before = {pod.name for pod in function.pods}
    function.restart()
    function.run(10)
    assert {pod.name for pod in function.pods} == before


def test_a_new_template_and_a_changed_size_get_new_pods() -> None:
    function = short()
    function.run(5)
    old = {pod.name for pod in function.pods if pod.awaits_node}
    sizes = [size | {"cpu": "1500m"} if size["name"] == "large" else size for size in SIZES]
    function.wants(16, sizes=sizes)
    function.run(10)
    new = {pod.name for pod in function.pods if pod.awaits_node}
    assert new
    assert not old & new


def test_fixed_replicas_wait_in_their_sizes_and_offer_no_others() -> None:
    function = FunctionInWorld(World([node("node-0", cpu="2")]))
    function.wants(None, sizes=[s | {"replicas": n} for s, n in zip(SIZES, (2, 1, 1), strict=True)])
    function.run(6)
    missing = Counter({"small": 2, "medium": 1, "large": 1})
    missing.subtract(pod.size for pod in function.pods if pod.node)
    assert waiting(function) == +missing
    assert not any(pod.batch for pod in function.pods)


def test_chosen_sizes_take_the_place_of_the_batch() -> None:
    function = short()
    function.run(5)
    (pod,) = [pod for pod in function.pods if pod.awaits_node]
    decision = function.decide(chosen_sizes={pod.batch: {"medium": 2, "small": 2}})
    assert Counter(type(action).__name__ for action in decision.action.actions) == {"Create": 4, "Delete": 1}
    function.chosen = {pod.batch: {"medium": 2, "small": 2}}
    function.run(1)
    assert waiting(function) == {"medium": 2, "small": 2}
    assert not any(pod.batch for pod in function.pods if pod.awaits_node), "they are chosen: no offer"
    before = len(function.world.calls)
    function.run(20)
    assert len(function.world.calls) == before


@pytest.mark.parametrize(
    "sizes", [{"huge": 1}, {"small": 51}, {"large": 3}], ids=["not offered", "too many", "far too much"]
)
def test_a_choice_that_does_not_do_is_not_followed(sizes: dict[str, int]) -> None:
    function = short()
    function.run(5)
    (pod,) = [pod for pod in function.pods if pod.awaits_node]
    function.chosen = {pod.batch: sizes}
    function.run(5)
    assert waiting(function) == {"large": 1}


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", '{"batch": 7}', '{"batch": "' + "x" * 64 + '"}', "[" * 10_000, "7" * 20_000]
)
def test_an_offer_that_anybody_wrote_is_read_or_is_none(text: object) -> None:
    assert batch_of(text) == ""


def test_the_condition_says_what_is_awaited() -> None:
    function = short()
    function.run(5)
    decision = function.decide()
    seen = function.observed()
    said = {c["type"]: c for c in report(seen, {}, decision, "")["conditions"]}
    assert said["Planned"]["reason"] == "AwaitingNodes"
    assert said["Planned"]["message"].endswith("1 pods wait for nodes that an autoscaler brings")
