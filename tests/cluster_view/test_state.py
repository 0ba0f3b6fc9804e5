"""Whatever arrives, a snapshot and all later changes give the later snapshot; and what rows say."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_view.decisions import read_plan
from cluster_view.facts import Told
from cluster_view.functions import READERS
from cluster_view.model import MOST_DECISIONS, Snapshot, apply
from cluster_view.readers import read_node, read_pod, read_speed
from cluster_view.state import State
from tests.cluster_view import objects
from tests.cluster_view.objects import START_S

PRICES = {"m5.large": 0.1}
LABELS = ("surgekit.dev/price-per-hour", "eks-node-viewer/instance-price")


class World:
    """A state, and somebody who applies each change to what he had."""

    def __init__(self) -> None:
        self.state = State("test", PRICES)
        self.at_s = START_S
        self.seen: Snapshot = self.state.snapshot(self.at_s)

    def put(self, obj: dict[str, Any]) -> None:
        match obj["kind"]:
            case "Node":
                self.state.put_node(read_node(obj, LABELS))
            case "Pod":
                pod = read_pod(obj)
                assert pod is not None
                self.state.put_pod(pod, self.at_s)
            case "NodeSpeed":
                speed = read_speed(obj)
                assert speed is not None
                self.state.put_speed(speed, self.at_s)
            case "NodePlan":
                self.state.put_plan(read_plan(obj), self.at_s)
            case kind:
                self.state.put_function(READERS[kind](obj), self.at_s)

    def look(self, later_s: float = 0.5) -> Snapshot:
        self.at_s += later_s
        if (change := self.state.change(self.at_s)) is not None:
            # Over the wire, as the page gets it.
            self.seen = apply(self.seen, json.loads(orjson.dumps(change)))
        return self.seen


NODES, PODS = ["n0", "n1", "n2"], ["a", "b", "c", "d"]
OPERATIONS = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NODES), st.booleans()),
    st.tuples(st.just("drop node"), st.sampled_from(NODES), st.none()),
    st.tuples(
        st.just("pod"),
        st.sampled_from(PODS),
        st.tuples(st.sampled_from(["", *NODES]), st.booleans(), st.sampled_from(["web", "api", ""])),
    ),
    st.tuples(st.just("drop pod"), st.sampled_from(PODS), st.none()),
    st.tuples(st.just("keep pods"), st.just(""), st.sets(st.sampled_from(PODS))),
    st.tuples(st.just("speed"), st.sampled_from(NODES), st.floats(0.1, 5.0)),
    st.tuples(st.just("knee"), st.sampled_from(["web", "api"]), st.integers(1, 9)),
    st.tuples(st.just("limits"), st.sampled_from(["all", "other"]), st.booleans()),
    st.tuples(st.just("drop function"), st.sampled_from(["KneePolicy/shop/web", "X/y/z"]), st.none()),
    st.tuples(st.just("placement"), st.sampled_from(PODS), st.sampled_from(["shadow", "enforce"])),
    st.tuples(st.just("event"), st.sampled_from(PODS), st.none()),
    st.tuples(st.just("look"), st.just(""), st.floats(0.0, 70.0)),
)


def do(world: World, operation: tuple[str, str, Any]) -> None:
    what, name, more = operation
    state = world.state
    match what:
        case "node":
            world.put(objects.node(name, {LABELS[0]: "0.2"} if more else {}, ready=more))
        case "drop node":
            state.drop_node(name)
        case "pod":
            node, ready, of = more
            owner = ("ReplicaSet", f"{of}-77") if of else None
            labels = {"pod-template-hash": "77", "app": of}
            ready_s = world.at_s if ready and node else None
            world.put(objects.pod(name, node, ready_s=ready_s, owner=owner, labels=labels))
        case "drop pod":
            state.drop_pod(f"shop/{name}")
        case "keep pods":
            state.keep_pods({f"shop/{pod}" for pod in more})
        case "speed":
            world.put(objects.speed(name, more, at_s=world.at_s))
        case "knee":
            world.put(objects.knee_policy(name, wanted=more, at_s=world.at_s))
        case "limits":
            selector = {"matchLabels": {"app": "web"}} if more else {}
            world.put(objects.custom("DistributedContainer", name, {"selector": selector}, {"pods": 1}))
        case "drop function":
            state.drop_function(name)
        case "placement":
            said = objects.placement(name, {"n0": 0.4, "n1": 0.9}, mode=more, at_s=world.at_s)
            state.put_placement(said, world.at_s)
        case "event":
            about: Any = {"kind": "Pod", "namespace": "shop", "name": name}
            state.put_event(Told("e", "hpa_replacement", about, "", "Left: alone"), world.at_s)
        case "look":
            world.look(more)


@given(st.lists(OPERATIONS, max_size=60))
def test_changes_applied_to_a_snapshot_give_the_later_snapshot(operations: list[Any]) -> None:
    world = World()
    for operation in operations:
        do(world, operation)
        if operation[0] == "look":
            now = json.loads(orjson.dumps(world.state.snapshot(world.at_s)))
            assert world.seen | {"at": now["at"]} == now
    world.look()
    now = json.loads(orjson.dumps(world.state.snapshot(world.at_s)))
    assert world.seen | {"at": now["at"]} == now
    for node in now["nodes"].values():  # each pod is counted where it is
        here = [pod for pod in now["pods"].values() if pod["node"] == node["name"]]
        assert node["pods"] == len(here)
        assert node["cpu"]["requested"] == pytest.approx(sum(pod["cpu"] for pod in here))
        assert node["creating"] == sum(pod["phase"] == "Creating" for pod in here)
    keys = now["functions"].keys()
    assert {pod["function"] for pod in now["pods"].values()} <= {*keys, None}
    assert now["head"]["nodes"] == len(now["nodes"])
    assert now["head"]["pods"] == len(now["pods"])


@given(st.lists(OPERATIONS, max_size=40))
def test_a_look_in_between_changes_nothing_that_is_shown(operations: list[Any]) -> None:
    """But for times and decisions, which tell when something was seen, and speeds, which follow in steps."""
    often, once = World(), World()
    for operation in operations:
        if operation[0] != "look":
            do(often, operation)
            often.look(0.0)
            do(once, operation)
    a, b = often.look(5.0), once.look(5.0)
    for snapshot in (a, b):
        for node in snapshot["nodes"].values():
            node["speed_age_s"] = node["relative_speed"] = None
        for function in snapshot["functions"].values():
            function["decisions"] = []
        for pod in snapshot["pods"].values():
            pod["why"] = []
    assert (a["nodes"], a["pods"], a["functions"]) == (b["nodes"], b["pods"], b["functions"])


def test_no_change_is_none() -> None:
    world = World()
    world.put(objects.node("n0"))
    assert world.state.change(START_S + 1) is not None
    assert world.state.change(START_S + 2) is None
    world.put(objects.node("n0"))
    assert world.state.change(START_S + 3) is None


@pytest.mark.parametrize(
    ("labels", "usd"),
    [
        ({}, None),
        ({"node.kubernetes.io/instance-type": "x9.huge"}, None),
        ({"node.kubernetes.io/instance-type": "m5.large"}, 0.1),
        ({"node.kubernetes.io/instance-type": "m5.large", LABELS[0]: "7"}, 0.1),  # the catalogue comes first
        ({LABELS[0]: "0.25"}, 0.25),
        ({LABELS[1]: "0.3"}, 0.3),
        ({LABELS[1]: "0"}, None),  # eks-node-viewer knows none
        ({LABELS[0]: "-1"}, None),
        ({LABELS[0]: "nan"}, None),
        ({LABELS[0]: "9" * 400}, None),
    ],
)
def test_an_unknown_price_is_none_and_never_zero(labels: dict[str, str], usd: float | None) -> None:
    world = World()
    world.put(objects.node("n0", labels))
    seen = world.look()
    assert seen["nodes"]["n0"]["usd_per_hour"] == usd
    assert seen["head"]["usd_per_hour"] == usd


def test_the_price_and_the_reason_of_a_planned_node_outlive_the_plan() -> None:
    world = World()
    plan = {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "NodePlan",
        "metadata": {"uid": "p", "name": "fcma"},
        "status": {
            "mode": "enforce", "phase": "Launched", "plan": "abc", "currency": "USD", "costPerHour": 0.4,
            "lowerBoundPerHour": 0.35,
            "nodes": [{"claim": "c1", "instanceClass": "r5.x", "pricePerHour": 0.4, "pods": {"k": 3}}],
            "kinds": [{"id": "k", "example": "shop/web-1"}],
        },
    }  # fmt: skip
    world.put(objects.node("n0", {"node.kubernetes.io/instance-type": "r5.x", "surgekit.dev/claim": "c1"}))
    world.put(plan)
    seen = world.look()
    assert [d["sentence"] for d in seen["decisions"]] == [
        "rents 1 nodes for 3 pods: 1 x r5.x, at $0.4000 an hour; no choice costs less than $0.3500"
    ]
    world.put({**plan, "status": {"mode": "enforce", "phase": "Idle"}})
    node = world.look()["nodes"]["n0"]
    assert node["usd_per_hour"] == 0.4
    assert "rented for 3 pods: 3 like shop/web-1 (plan abc)" in node["why"]


def test_prices_in_other_currencies_are_unknown() -> None:
    plan = {"metadata": {"name": "p"}, "status": {"currency": "EUR", "nodes": [{"pricePerHour": 1.0}]}}
    assert read_plan(plan).price_of_class == {}


def test_creation_is_timed_by_arrivals_where_they_were_seen() -> None:
    world = World()
    world.at_s = START_S + 0.3
    world.put(objects.pod("a", "n0"))
    world.at_s = START_S + 1.7
    world.put(objects.pod("a", "n0", ready_s=world.at_s))
    world.put(objects.pod("old", "n0", created_s=START_S - 60, ready_s=START_S - 50))
    seen = world.look()
    assert seen["pods"]["shop/a"]["ready_after_s"] == pytest.approx(1.4)
    assert seen["pods"]["shop/old"]["ready_after_s"] == 10.0
    world.state.drop_pod("shop/a")
    world.put(objects.pod("a", "n0", created_s=START_S + 1))
    assert world.look()["pods"]["shop/a"]["ready_after_s"] is None


def test_speeds_are_relative_to_the_median_node() -> None:
    world = World()
    for name, tau in (("n0", 0.5), ("n1", 1.0), ("n2", 2.0)):
        world.put(objects.node(name))
        world.put(objects.speed(name, tau))
    seen = world.look(10.0)["nodes"]
    assert {name: node["relative_speed"] for name, node in seen.items()} == {"n0": 2.0, "n1": 1.0, "n2": 0.5}
    assert seen["n0"]["speed_age_s"] == 10.0
    world.put(objects.pod("a", "n0"))
    assert world.look(5.0)["nodes"]["n0"]["speed_age_s"] == 15.0  # with what else changed
    world.put(objects.node("n0"))
    before = world.seen
    assert world.look(5.0) is before  # an age alone is no change


def test_a_function_shows_its_curve_its_knee_and_its_pods() -> None:
    world = World()
    world.put(objects.node("n0", {LABELS[0]: "0.8"}))
    for i in range(4):
        labels = {"pod-template-hash": "77"}
        owner = ("ReplicaSet", "web-77")
        world.put(objects.pod(f"web-{i}", "n0", owner=owner, labels=labels, ready_s=START_S))
    world.put(objects.knee_policy("web", replicas=4, wanted=6))
    seen = world.look()
    function = seen["functions"]["KneePolicy/shop/web"]
    assert function["knee"] == 6
    assert function["curve"] == [
        {"replicas": 1, "score": 0.3}, {"replicas": 2, "score": 0.5},
        {"replicas": 6, "score": 0.9}, {"replicas": 8, "score": 0.91},
    ]  # fmt: skip
    assert function["sizes"] == [{"cpu": 0.5, "memory": 2.0**30, "count": 4}]
    assert seen["pods"]["shop/web-0"]["function"] == "KneePolicy/shop/web"
    (decision,) = seen["decisions"]
    assert decision["sentence"] == "4 replicas, 6 wanted: the knee is at 6"
    # Two more, each half a core of four on a node of 0.8 $ an hour.
    differs = decision["would_differ"]
    assert differs is not None
    assert differs["seconds"] is None
    assert differs["usd_per_hour"] == pytest.approx(0.2)
    assert [d["sentence"] for d in function["decisions"]] == [decision["sentence"]]
    # The same decision in the next interval is no news; another one is.
    world.put(objects.knee_policy("web", replicas=4, wanted=6, at_s=START_S + 30))
    assert len(world.look()["decisions"]) == 1
    world.put(objects.knee_policy("web", replicas=4, wanted=5, at_s=START_S + 60))
    assert len(world.look()["decisions"]) == 2


def test_a_placement_waits_for_the_choice_of_the_scheduler() -> None:
    world = World()
    for name in NODES:
        world.put(objects.node(name))
    world.put(objects.pod("a"))
    world.state.put_placement(objects.placement("a", {"n0": 0.4, "n1": 0.9}), world.at_s)
    world.state.put_placement(objects.placement("a", {"n0": 0.4, "n1": 0.9}), world.at_s)
    assert world.look()["decisions"] == []
    world.put(objects.pod("a", "n1"))
    seen = world.look()
    (decision,) = seen["decisions"]
    assert decision["would_differ"] == {"seconds": -0.5, "usd_per_hour": None}
    assert "n0 would have been chosen; it chose n1" in seen["pods"]["shop/a"]["why"][0]
    # Nobody knows where this one went.
    world.state.put_placement(objects.placement("b", {"n0": 0.4}), world.at_s)
    assert len(world.look(1.0)["decisions"]) == 1
    assert len(world.look(5.0)["decisions"]) == 2


def test_an_enforced_placement_would_not_differ() -> None:
    world = World()
    world.put(objects.pod("a", "n1"))
    world.state.put_placement(objects.placement("a", {"n0": 0.4, "n1": 0.9}, mode="enforce"), world.at_s)
    assert world.look()["decisions"][0]["would_differ"] is None


def test_the_chosen_node_is_estimated_where_the_extender_does_not_name_it() -> None:
    world = World()
    world.put(objects.node("n2"))
    world.put(objects.speed("n2", 2.0))
    world.put(objects.pod("a", "n2"))
    world.look()
    world.state.put_placement(objects.placement("a", {"n0": 0.5}), world.at_s)
    assert world.look()["decisions"][0]["would_differ"] == {"seconds": -1.5, "usd_per_hour": None}


def test_one_namespace_does_not_fill_the_decisions() -> None:
    world = World()
    world.put(objects.knee_policy("web"))
    for i in range(300):
        about: Any = {"kind": "KneePolicy", "namespace": "noisy", "name": f"p{i}"}
        world.state.put_event(Told(str(i), "hpa_replacement", about, "", f"Failed: {i}"), world.at_s)
    seen = world.look()["decisions"]
    assert len(seen) == 21
    assert {d["object"]["namespace"] for d in seen} == {"shop", "noisy"}
    for round_ in range(20):
        for i in range(30):
            about = {"kind": "KneePolicy", "namespace": "noisy", "name": f"{round_}"}
            world.state.put_event(Told(str(i), "hpa_replacement", about, "", f"{i}"), world.at_s)
        seen = world.look()["decisions"]
    assert len(seen) == MOST_DECISIONS


def test_cold_starts_are_counted_for_a_minute() -> None:
    world = World()
    assert world.look()["head"]["cold_starts_last_minute"] is None
    world.put(objects.knee_policy("web"))
    made: dict[str, Any] = {"owner": ("ReplicaSet", "web-77"), "labels": {"pod-template-hash": "77"}}
    world.put(objects.pod("a", "n0", **made))
    world.put(objects.pod("a", "n0", ready_s=world.at_s, **made))
    assert world.look()["head"]["cold_starts_last_minute"] == 1
    assert world.look(61.0)["head"]["cold_starts_last_minute"] == 0
