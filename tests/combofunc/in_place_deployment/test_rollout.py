"""An InPlaceDeployment's pods in a small world."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combofunc.actuator import carry_out
from combofunc.in_place_deployment import rollout
from combofunc.in_place_deployment.reconciler import new_pod_body
from combofunc.in_place_deployment.spec import InPlaceDeployment, read
from combofunc.in_place_deployment.status import Counts
from combofunc.pods.pod import FunctionPod
from combofunc.pods.pod_table import PodTable
from tests.combofunc.pods.world import World, node

Json = dict[str, Any]


def spec_of(replicas: int, image: str = "app:1", cpu: str = "500m", **rest: Any) -> Json:
    amounts = {"cpu": cpu, "memory": "256Mi"}
    container = {"name": "app", "image": image, "resources": {"requests": amounts, "limits": amounts}}
    return {"replicas": replicas, "template": {"spec": {"containers": [container]}}, "drain": "1s"} | rest


class InWorld:
    def __init__(self, *nodes: Json) -> None:
        self.world = World(list(nodes))
        self.spec, self.resize_wait_limit_s = spec_of(0), 15.0
        self.restart()

    def restart(self) -> None:
        self.overdue = ""
        self.table = PodTable()
        self.watch()

    def watch(self) -> None:
        self.table.keep_only({pod["metadata"]["uid"] for pod in self.world.pods.values()})
        for pod in self.world.pods.values():
            self.table.put(pod)

    @property
    def deployment(self) -> InPlaceDeployment:
        metadata = {"name": "web", "namespace": "shop", "uid": "web", "generation": 1}
        return read({"metadata": metadata, "spec": self.spec})

    @property
    def pods(self) -> list[FunctionPod]:
        return self.table.of("shop", "web")

    def reconcile(self) -> None:
        deployment, now_s = self.deployment, self.world.now_s
        before_s = now_s - self.resize_wait_limit_s - deployment.drain_s
        self.overdue = rollout.overdue(deployment, self.pods, self.overdue, before_s)
        seen = rollout.Observation(deployment, self.pods, now_s, overdue=self.overdue)
        decision = rollout.decide(seen, partial(new_pod_body, deployment))
        assert decision.valid
        for action in decision.action.actions:
            done = carry_out(self.world, "shop", action)
            if done.pod is not None:
                self.table.put(done.pod)

    @property
    def counts(self) -> Counts:
        return rollout.counts(rollout.Observation(self.deployment, self.pods, self.world.now_s))

    def run(self, seconds: float, step_s: float = 0.1) -> tuple[int, int]:
        """The fewest that served, and the most there were."""
        least, most = len([p for p in self.pods if p.serves]), len(self.pods)
        self.reconcile()
        for _ in range(round(seconds / step_s)):
            self.world.tick(step_s)
            self.watch()
            self.reconcile()
            least = min(least, len([p for p in self.pods if p.serves]))
            most = max(most, len([p for p in self.pods if p.live and p.draining_since_s is None]))
        return least, most


def deployed(replicas: int, *nodes: Json, **rest: Any) -> InWorld:
    found = InWorld(*(nodes or (node("node-0"), node("node-1"))))
    found.spec = spec_of(replicas, **rest)
    found.run(3)
    assert len([p for p in found.pods if p.serves]) == replicas
    return found


def test_a_decision_explains_itself() -> None:
    web = deployed(2)
    seen = rollout.Observation(web.deployment, web.pods, web.world.now_s, inputs_age_s={"pods": 0.5})
    make = partial(new_pod_body, web.deployment)
    done = rollout.decide(seen, make)
    assert (done.action.actions, done.reasons) == ((), ("all pods are as the template says",))
    assert (done.valid, done.inputs_age_s) == (True, {"pods": 0.5})
    more = rollout.decide(replace(seen, deployment=replace(web.deployment, replicas=3)), make)
    assert (len(more.action.actions), more.reasons) == (1, ("1 to be created",))
    held = rollout.decide(replace(seen, pods=[], unreadable_pods=["web-a", "web-b"]), make)
    assert (held.valid, held.action.actions) == (False, ())
    assert held.reasons == ("2 of its pods cannot be read, web-a for one",)


def test_only_resources_changed_resizes_the_same_pods() -> None:
    web = deployed(4)
    before = {pod.uid for pod in web.pods}
    web.spec = spec_of(4, cpu="1")
    least, most = web.run(3)
    assert {pod.uid for pod in web.pods} == before
    assert (least, most) == (4, 4)
    counts = web.counts
    assert (counts.updated, counts.resizing) == (4, 0)


def test_another_image_rolls_within_surge_and_unavailable() -> None:
    web = deployed(8)
    before = {pod.uid for pod in web.pods}
    web.spec = spec_of(8, image="app:2", cpu="1")
    least, most = web.run(20)
    assert not before & {pod.uid for pod in web.pods}
    assert least >= 6
    assert most <= 10
    assert web.counts.updated == 8


def test_without_surge_it_rolls_by_those_that_may_be_missing() -> None:
    rolling = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    web = deployed(3, strategy=rolling)
    web.spec = spec_of(3, image="app:2", strategy=rolling)
    least, most = web.run(30)
    assert (least, most) == (2, 3)
    assert web.counts.updated == 3


def test_a_resize_that_can_never_be_replaces_the_pod() -> None:
    web = deployed(2, node("node-0", "1"))
    web.world.nodes["node-1"] = node("node-1", "8")
    web.spec = spec_of(2, cpu="3")
    web.run(20)
    assert {pod.node for pod in web.pods if pod.serves} == {"node-1"}
    assert web.counts.updated == 2


def test_a_deferred_resize_is_awaited() -> None:
    web = deployed(2, node("node-0", "2"))
    before = {pod.uid for pod in web.pods}
    web.spec = spec_of(2, cpu="1500m")
    web.run(10)
    counts = web.counts
    assert (counts.deferred, counts.infeasible) == (1, 0)
    assert {pod.uid for pod in web.pods} == before
    web.world.nodes["node-0"] = node("node-0", "8")
    web.run(3)
    assert web.counts.updated == 2


@pytest.mark.parametrize(
    "rolling", [{"maxSurge": 0, "maxUnavailable": 1}, {"maxSurge": 1, "maxUnavailable": 0}]
)
def test_deferred_for_too_long_one_is_replaced_and_the_others_get_its_room(rolling: Json) -> None:
    strategy = {"rollingUpdate": rolling}
    web = deployed(4, node("node-0", "4"), cpu="1", strategy=strategy)
    before = {pod.uid for pod in web.pods}
    web.world.nodes["node-1"] = node("node-1", "8")
    web.spec = spec_of(4, cpu="1300m", strategy=strategy)
    least, most = web.run(16)
    assert web.counts.deferred == 4
    assert (least, most) == (4, 4), "all wait"
    web.reconcile()
    least, most = web.run(10)
    assert least == 4 - rolling["maxUnavailable"]
    assert most == 4 + rolling["maxSurge"]
    assert len(before - {pod.uid for pod in web.pods}) == 1, "room enough for three"
    web.run(30)
    assert web.counts == Counts(4, 4, 4)
    assert len(before & {pod.uid for pod in web.pods}) == 3


def test_a_resize_taken_back_while_it_is_overdue_replaces_nothing() -> None:
    web = deployed(2, node("node-0", "2"), cpu="1")
    before = {pod.uid for pod in web.pods}
    web.spec = spec_of(2, cpu="1500m")
    web.run(17)
    assert web.overdue
    web.spec = spec_of(2, cpu="1")
    web.run(30)
    assert {pod.uid for pod in web.pods if pod.serves} == before
    assert not web.overdue


def test_overdue_waits_for_those_that_do_not_serve() -> None:
    """Nobody is taken away while another is missing, be it for want of room."""
    web = deployed(2, node("node-0", "2"), cpu="1")
    web.spec = spec_of(3, cpu="1500m")
    web.run(60)
    before = {pod.uid for pod in web.pods if pod.serves}
    assert len(before) == 2
    web.spec = spec_of(2, cpu="1500m")
    web.run(2)
    assert web.overdue in before


def test_scaled_down_the_newest_go_and_drain_first() -> None:
    web = deployed(3)
    web.spec = spec_of(1)
    web.reconcile()
    assert len([pod for pod in web.pods if pod.serves]) == 1
    assert len(web.world.pods) == 3
    web.run(3)
    assert len(web.world.pods) == 1


def test_one_that_drains_is_taken_back() -> None:
    web = deployed(3)
    before = {pod.uid for pod in web.pods}
    web.spec = spec_of(1)
    web.reconcile()
    web.spec = spec_of(3)
    web.run(3)
    assert {pod.uid for pod in web.pods if pod.serves} == before


CHANGES = st.one_of(
    st.tuples(st.just("replicas"), st.integers(0, 8)),
    st.tuples(st.just("image"), st.integers(1, 2)),
    st.tuples(st.just("cpu"), st.integers(1, 3)),
    st.tuples(st.just("kill"), st.integers(0, 7)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("lose answers"), st.integers(1, 4)),
    st.tuples(st.just("time"), st.integers(1, 30)),
)


@settings(max_examples=40)
@given(st.lists(CHANGES, max_size=12), st.sampled_from(["12", "64"]))
def test_whatever_happens_it_ends_as_the_spec_says(changes: list[tuple[str, int]], cpu: str) -> None:
    web = InWorld(*(node(f"node-{i}", cpu) for i in range(3)))  # with 12, resizes wait for room
    web.resize_wait_limit_s = 2.0
    wanted = {"replicas": 3, "image": 1, "cpu": 1}
    for what, number in [("replicas", 3), *changes]:
        if what in wanted:
            wanted[what] = number
            web.spec = spec_of(wanted["replicas"], f"app:{wanted['image']}", f"{wanted['cpu']}")
        elif what == "kill":
            alive = sorted(n for n, p in web.world.pods.items() if p["status"]["phase"] == "Running")
            if number < len(alive):
                web.world.kill(alive[number])
        elif what == "restart":
            web.restart()
        elif what == "lose answers":
            web.world.lose_answers = number
        web.run(number / 10 if what == "time" else 0.2)
    web.world.lose_answers = 0
    web.run(120, step_s=0.5)
    counts = web.counts
    assert len(web.world.pods) == counts.updated == counts.ready == wanted["replicas"]
