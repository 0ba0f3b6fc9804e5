"""A reconcile of a ComboFunc: its actions, its status, and one Event a plan."""

from __future__ import annotations

from typing import Any

import pytest

from combofunc.actuator import ActionResult, carry_out
from combofunc.explanation import NothingToExplain, explain
from combofunc.metrics import ComboFuncMetrics
from combofunc.pods.actions import Create, Drain, Mark, Release
from combofunc.pods.cluster import Cluster
from combofunc.pods.pod_table import PodTable
from combofunc.reconcile.spec import ComboFunc
from combofunc.reconciler import ComboFuncReconciler, Inputs
from combofunc.settings import Settings
from combofunc.work_loop import Work
from tests.combofunc.function_in_world import SIZES, combofunc
from tests.combofunc.immediate_desk import AtOnce, Told
from tests.combofunc.pods.world import World, node

Json = dict[str, Any]
UID = "function"


class Seen:
    """A reconciler with one function, a world to act on, and the Events posted."""

    def __init__(self, obj: Json) -> None:
        self.world = World([node("node-0"), node("node-1")])
        self.cluster = Cluster(1.0, 0.1, 2.0, 120.0)
        for at in self.world.nodes.values():
            self.cluster.put_node(at)
        self.pods = PodTable()
        self.events, self.collected = Told(), dict[str, int | str]()
        inputs = Inputs(self.cluster, self.pods, self._target)
        self.functions = ComboFuncReconciler(inputs, Settings(), AtOnce(), ComboFuncMetrics(), self.events)
        self.functions.objects[UID] = obj
        self.cluster.put_owner("shop", UID, 0.0)

    def _target(self, function: ComboFunc) -> int | str:
        return self.collected.get(function.name, "not asked yet")

    def reconcile(self, act: bool = True) -> Work:
        work = self.functions.reconcile(UID, self.world.now_s)
        assert work is not None
        if work.event:
            work.event()
        if work.status:
            self.functions.objects[UID].setdefault("status", {}).update(work.status[1]["status"])
        if act:
            done = [carry_out(self.world, "shop", action) for action in work.actions]
            for came in done:
                if came.pod:
                    self.cluster.put_pod(came.pod, self.world.now_s)
                    self.pods.put(came.pod)
            self.functions.on_results(UID, done, "")
        return work

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.world.tick(0.1)
        for pod in self.world.pods.values():
            self.cluster.put_pod(pod, self.world.now_s)
            self.pods.put(pod)

    @property
    def status(self) -> Json:
        found: Json = self.functions.objects[UID]["status"]
        return found

    def condition(self, kind: str) -> tuple[str, str]:
        found = next(c for c in self.status["conditions"] if c["type"] == kind)
        return found["status"], found["reason"]


@pytest.fixture(autouse=True)
def _world_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off counts from the clock; the world's stands at a million seconds."""
    monkeypatch.setattr("combofunc.reconciler.time.time", lambda: 1_000_000.0)


def test_planned_carried_out_and_said_once() -> None:
    seen = Seen(combofunc(8))
    first = seen.reconcile()
    assert [type(action) for action in first.actions] == [Create]
    assert seen.condition("Planned") == ("True", "Planned")
    assert seen.condition("Ready") == ("False", "Progressing")
    seen.pass_time(3)
    seen.reconcile()
    assert (seen.status["readyConcurrency"], seen.condition("Ready")) == (8, ("True", "Ready"))
    again = seen.reconcile()
    assert (again.actions, again.status, again.event) == ((), None, None)
    assert [reason for reason, _ in seen.events.told] == ["Planned"]


def test_counts_are_not_written_more_often_than_twice_a_second() -> None:
    seen = Seen(combofunc(16))
    seen.reconcile()
    seen.pass_time(0.2)
    seen.world.now_s -= 0.1
    for at, pod in enumerate(seen.world.pods.values()):
        ready = [{"type": "Ready", "status": "True"}] if at == 0 else []
        pod["status"] |= {"conditions": ready, "phase": "Running"}
        pod["metadata"]["resourceVersion"] = "99"
        seen.pods.put(pod)
    held = seen.reconcile()
    assert held.status is None
    assert held.again_in_s == pytest.approx(0.4)
    seen.world.now_s += 0.5
    assert seen.reconcile().status is not None
    assert (seen.status["readyConcurrency"], seen.condition("Ready")) == (8, ("False", "Progressing"))


def test_what_the_api_server_refuses_is_tried_again_later_and_said() -> None:
    seen = Seen(combofunc(8))
    work = seen.reconcile(act=False)
    (create,) = work.actions
    seen.functions.on_results(
        UID, [ActionResult(create, failure="create p: exceeded quota", refused=True)], ""
    )
    seen.world.now_s += 0.6
    held = seen.reconcile()
    assert held.actions == ()
    assert seen.condition("Ready") == ("False", "Failing")
    assert held.again_in_s <= 1.0
    seen.world.now_s += 0.6
    assert [type(action) for action in seen.reconcile().actions] == [Create]
    assert len(seen.events.told) == 1, "the same plan is not told again"


def test_what_was_not_answered_keeps_its_name() -> None:
    seen = Seen(combofunc(8))
    (first,) = seen.reconcile(act=False).actions
    seen.functions.on_results(UID, [ActionResult(first, failure="create p: no answer")], "")
    seen.world.now_s += 2
    (second,) = seen.reconcile().actions
    assert first.pod == second.pod


def test_what_was_done_though_its_answer_was_lost_is_no_trouble_any_more() -> None:
    seen = Seen(combofunc(8))
    (create,) = seen.reconcile(act=False).actions
    carry_out(seen.world, "shop", create)
    seen.functions.on_results(UID, [ActionResult(create, failure="create p: no answer")], "")
    seen.pass_time(0.6)
    seen.reconcile()
    assert seen.condition("Ready") == ("False", "Failing")
    seen.pass_time(3)
    assert seen.reconcile().actions == ()
    assert seen.condition("Ready") == ("True", "Ready")


def test_another_target_does_not_wait_for_a_back_off() -> None:
    seen = Seen(combofunc(8))
    (create,) = seen.reconcile(act=False).actions
    seen.functions.on_results(
        UID, [ActionResult(create, failure="create p: exceeded quota", refused=True)], ""
    )
    seen.functions.objects[UID]["spec"]["targetConcurrency"] = 1
    assert seen.reconcile().actions


LONG = "9" * 5000  # int() refuses it


def test_a_mark_that_cannot_be_read_is_put_right_and_nothing_is_created_for_it() -> None:
    seen = Seen(combofunc(8))
    seen.reconcile()
    seen.pass_time(3)
    seen.reconcile()
    (pod,) = seen.world.pods.values()
    pod["metadata"]["annotations"]["surgekit.dev/concurrency"] = LONG
    pod["metadata"]["resourceVersion"] = "900"
    seen.pods.put(pod)
    seen.functions.reset()  # another replica leads, and has never read the pod
    assert [type(action) for action in seen.reconcile().actions] == [Mark]
    assert pod["metadata"]["annotations"]["surgekit.dev/concurrency"] == "8"


def test_while_a_pod_of_it_cannot_be_read_nothing_is_created_or_removed() -> None:
    seen = Seen(combofunc(16))
    seen.reconcile()
    seen.pass_time(3)
    seen.reconcile()
    bad = min(seen.world.pods.values(), key=lambda pod: str(pod["metadata"]["name"]))
    seen.pods.keep_only(set())  # a replica that starts
    for pod in seen.world.pods.values():
        seen.pods.put_unread(pod) if pod is bad else seen.pods.put(pod)
    seen.functions.reset()
    for target in (16, 40, 0):
        seen.functions.objects[UID]["spec"]["targetConcurrency"] = target
        seen.world.now_s += 60
        assert seen.reconcile().actions == ()
        assert seen.condition("Planned") == ("False", "PodsUnreadable")
        assert seen.condition("Ready")[1] == "Failing"
    message = next(c["message"] for c in seen.status["conditions"] if c["type"] == "Planned")
    assert f"1 of its pods cannot be read ({bad['metadata']['name']}); pods stay as they are" in message
    bad["metadata"]["resourceVersion"] = "900"
    seen.pods.put(bad)
    seen.functions.objects[UID]["spec"]["targetConcurrency"] = 40
    seen.world.now_s += 60
    assert Create in [type(action) for action in seen.reconcile().actions]
    assert seen.condition("Planned") == ("True", "Planned")


def test_a_spec_that_cannot_be_read_lets_gates_go_and_nothing_else() -> None:
    seen = Seen(combofunc(8))
    (create,) = seen.reconcile(act=False).actions
    made = seen.world.create("/api/v1/namespaces/shop/pods", create.body)  # type: ignore[union-attr]
    seen.pods.put(made)
    seen.functions.objects[UID]["spec"]["sizes"] = []
    work = seen.reconcile()
    assert [type(action) for action in work.actions] == [Release]
    assert seen.condition("Planned") == ("False", "InvalidSpec")
    assert seen.reconcile().status is None


def test_the_collectors_target() -> None:
    obj = combofunc(5, targetFrom="Collector")
    seen = Seen(obj)
    seen.reconcile()
    assert seen.condition("TargetKnown") == ("False", "NoData")
    assert seen.world.pods == {}
    seen.collected["video"] = 8
    seen.world.now_s += 1
    seen.reconcile()
    assert (seen.status["targetConcurrency"], seen.condition("TargetKnown")) == (8, ("True", "SpecIgnored"))
    # Another replica leads, and Prometheus is gone: what was last known stands.
    seen.functions.reset()
    seen.collected["video"] = "Prometheus does not answer"
    seen.world.now_s += 1
    seen.reconcile()
    assert (seen.status["targetConcurrency"], seen.condition("TargetKnown")) == (8, ("False", "NoData"))
    assert set(seen.functions.collected()) == {UID}


def test_room_that_is_planned_is_not_planned_twice() -> None:
    seen = Seen(combofunc(8))
    before = [seen.cluster.room(name) for name in ("node-0", "node-1")]
    work = seen.reconcile(act=False)
    during = [seen.cluster.room(name) for name in ("node-0", "node-1")]
    assert during != before
    for action in work.actions:
        assert isinstance(action, Create)
        seen.cluster.forget(action.key)
    assert [seen.cluster.room(name) for name in ("node-0", "node-1")] == before


def test_an_explanation_names_each_pod_and_where_it_was_planned() -> None:
    seen = Seen(combofunc(8))
    seen.reconcile()
    (pod,) = seen.world.pods.values()
    planned = pod["metadata"]["annotations"]["surgekit.dev/planned-node"]
    said = explain(seen.functions.objects[UID], list(seen.world.pods.values()))
    assert [(line.planned_node, line.node, line.state) for line in said.pods] == [
        (planned, "", "waits for the scheduler")
    ]
    seen.pass_time(3)
    seen.reconcile()
    said = explain(seen.functions.objects[UID], list(seen.world.pods.values()))
    assert [(line.node, line.state) for line in said.pods] == [(planned, "serving")]
    assert (said.target, said.ready, said.plan["kept"]) == (8, 8, 0)
    with pytest.raises(NothingToExplain, match="serve combofunc"):
        explain(combofunc(1), [])


def test_what_is_kept_warm_makes_way_for_another_function_that_is_short() -> None:
    seen = Seen(combofunc(40, keepWarm="60s"))
    seen.reconcile()
    seen.pass_time(8)
    seen.reconcile()
    assert seen.status["readyConcurrency"] == 40
    seen.functions.objects[UID]["spec"]["targetConcurrency"] = 8
    for _ in range(3):  # says that it takes less, is made smaller
        seen.reconcile()
        seen.pass_time(1)
    assert "kept warm" in " ".join(seen.status["plan"]["reasons"])
    assert not seen.reconcile().actions

    other = combofunc(1000)
    other["metadata"] |= {"name": "other", "uid": "other"}
    seen.functions.objects["other"] = other
    work = seen.functions.reconcile("other", seen.world.now_s)
    assert work is not None
    assert work.concerns_all, "the others are looked at"
    gone = {action.pod for action in seen.reconcile().actions if isinstance(action, Drain)}
    assert gone == set(seen.status["plan"]["removed"]) != set()
    assert "kept warm" not in " ".join(seen.status["plan"]["reasons"])


def short_one(**spec: Any) -> Json:
    obj = combofunc(1000, **spec)
    obj["metadata"] |= {"name": "other", "uid": "other"}
    return obj


@pytest.mark.parametrize(
    ("spec", "presses"),
    [
        ({}, True),
        ({"sizes": [*SIZES, {"name": "vast", "cpu": "512", "memory": "1Gi", "concurrency": 9}]}, True),
        ({"sizes": [{"name": "vast", "cpu": "512", "memory": "1Gi", "concurrency": 9}]}, False),
        ({"mode": "shadow"}, False),
    ],
)
def test_who_is_short_of_room_that_others_have(spec: Json, presses: bool) -> None:
    seen = Seen(combofunc(8))
    seen.functions.objects["other"] = short_one(**spec)
    work = seen.functions.reconcile("other", seen.world.now_s)
    assert work is not None
    assert work.concerns_all is presses


@pytest.mark.parametrize("change", [{"paused": True}, {"sizes": []}])
def test_who_wants_nothing_any_more_is_not_short(change: Json) -> None:
    """Or nobody would keep anything warm for as long as it stays so."""
    seen = Seen(combofunc(8))
    seen.functions.objects["other"] = short_one()
    seen.functions.reconcile("other", seen.world.now_s)
    seen.functions.objects["other"]["spec"] |= change
    seen.functions.reconcile("other", seen.world.now_s)
    seen.functions.objects["other"] = short_one()
    again = seen.functions.reconcile("other", seen.world.now_s + 60)
    assert again is not None
    assert again.concerns_all, "short anew"


def test_memory_that_is_kept_is_said_once() -> None:
    seen = Seen(combofunc(8))
    seen.reconcile()
    seen.pass_time(3)
    seen.reconcile()
    assert seen.condition("Resized") == ("True", "Resized")
    (name,) = seen.world.pods
    seen.world.memory_in_use[name] = 1.5 * 2**30
    seen.functions.objects[UID]["spec"] = combofunc(1, keepWarm="0s")["spec"]
    for _ in range(6):
        seen.reconcile()
        seen.pass_time(1)
    assert seen.condition("Resized") == ("False", "MemoryInUse")
    assert seen.condition("Ready") == ("True", "Ready")
    told = [note for reason, note in seen.events.told if reason == "MemoryInUse"]
    assert len(told) == 1
    assert f"{name} (small) on node-" in told[0]


def test_a_quota_that_refuses_pods_that_wait_for_nodes_stops_nothing_else() -> None:
    seen = Seen(combofunc(1000))
    seen.reconcile()
    seen.pass_time(5)
    work = seen.reconcile(act=False)
    for_nodes = [action for action in work.actions if isinstance(action, Create) and not action.node]
    assert for_nodes
    refused = [ActionResult(action, failure="create: exceeded quota", refused=True) for action in for_nodes]
    seen.functions.on_results(UID, refused, "")
    work = seen.reconcile(act=False)
    assert not any(isinstance(action, Create) for action in work.actions), "a minute's pause"
    assert "Failing" not in seen.condition("Ready")
    (planned,) = [c for c in seen.status["conditions"] if c["type"] == "Planned"]
    assert planned["reason"] == "Shortage"
    assert "no pod can wait for a node: create: exceeded quota" in planned["message"]
