"""Containers that use more memory than the smallest size has, in a small world."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surgekit.kube.pods import requests
from surgekit.kube.quantity import parse
from tests.combofunc.function_in_world import FunctionInWorld
from tests.combofunc.pods.world import World, node

MIB, GIB = 2**20, 2**30


def in_world(nodes: int = 1, cpu: str = "8", memory: str = "16Gi") -> FunctionInWorld:
    return FunctionInWorld(World([node(f"node-{i}", cpu, memory) for i in range(nodes)]))


def has(function: FunctionInWorld) -> list[tuple[str, str]]:
    """cpu and memory that containers really have."""
    found = []
    for pod in function.world.pods.values():
        limits = pod["status"]["containerStatuses"][0]["resources"]["limits"]
        found.append((limits["cpu"], limits["memory"]))
    return sorted(found)


def shrunk_while_using(use_bytes: float, **world: Any) -> tuple[FunctionInWorld, str]:
    """One large container that is not needed any more and uses this much."""
    function = in_world(**world)
    function.wants(8)
    function.run(3)
    (pod,) = function.sizes
    function.world.memory_in_use[pod] = use_bytes
    function.wants(1, keepWarm="0s")
    return function, pod


def test_it_gives_up_cpu_and_keeps_its_memory() -> None:
    function, pod = shrunk_while_using(1.5 * GIB)
    decision = function.run(5)
    assert has(function) == [("500m", "2Gi")]
    assert function.sizes == {pod: "small"}
    assert (decision.waiting, function.ready) == ("", 1)
    assert len(function.world.refusals) == 1
    before = len(function.world.calls)
    function.run(60, 1.0)
    assert len(function.world.calls) == before, "all is as it can be"


def test_it_grows_where_it_is_when_the_load_comes_back() -> None:
    """On a node without room for another."""
    function, pod = shrunk_while_using(1.5 * GIB, cpu="2", memory="2Gi")
    function.run(5)
    function.wants(8)
    function.run(5)
    assert function.sizes == {pod: "large"}
    assert (function.ready, has(function)) == (8, [("2000m", "2Gi")])


def test_a_shrink_that_was_refused_is_undone_when_it_is_needed_again() -> None:
    """The target rises before anything was done about the refusal."""
    function, pod = shrunk_while_using(1.5 * GIB, cpu="2", memory="2Gi")
    function.reconcile()
    function.reconcile()
    for _ in range(5):
        function.world.tick()
    assert function.world.refusals
    function.wants(8)
    function.watch()
    function.run(5)
    assert function.sizes == {pod: "large"}
    assert function.ready == 8
    assert not [c for c in function.world.calls[1:] if c.startswith("create")], "no other was created"


def test_memory_known_to_be_in_use_is_not_asked_for() -> None:
    function, pod = shrunk_while_using(1.5 * GIB)
    function.measured = {pod: 1.5 * GIB}
    function.run(5)
    assert (has(function), function.world.refusals) == ([("500m", "2Gi")], [])


def test_memory_is_given_up_once_it_is_free() -> None:
    function, pod = shrunk_while_using(1.5 * GIB)
    function.run(5)
    function.world.memory_in_use[pod] = 100 * MIB
    function.run(302, 1.0)
    assert has(function) == [("500m", "512Mi")]
    assert len(function.world.refusals) == 1


def test_it_is_asked_less_and_less_often() -> None:
    function, pod = shrunk_while_using(1.5 * GIB)
    function.run(3500, 5.0)
    times = [at_s for name, at_s, _ in function.world.refusals if name == pod]
    waits = [later - sooner for sooner, later in pairwise(times)]
    assert len(waits) == 3
    assert all(wait == pytest.approx(300 * 2**i, abs=20) for i, wait in enumerate(waits))


def test_a_resize_that_fails_for_another_reason_is_awaited_then_planned_anew() -> None:
    function = in_world(nodes=2, cpu="3")
    function.wants(3)
    function.run(3)
    (pod,) = function.sizes
    function.wants(8)
    function.reconcile()
    obj = function.world.pods[pod]
    error = {"type": "PodResizeInProgress", "status": "True", "reason": "Error", "message": "runtime is down"}
    generation, stamp = (obj["metadata"][key] for key in ("generation", "creationTimestamp"))
    error |= {"observedGeneration": generation, "lastTransitionTime": stamp}
    obj["status"]["conditions"].append(error)
    obj["metadata"]["resourceVersion"] = "999"
    function.world._until_s[obj["metadata"]["uid"]] = float("inf")
    function.run(10)
    assert function.ready == 3, "it may pass"
    function.run(20)
    assert function.ready >= 8, "another does it"


def test_two_containers_do_not_swap_whenever_a_warm_time_is_over() -> None:
    """Each holds memory that it used, so with each plan it is cheaper to grow the one that is idle."""
    function = in_world(nodes=2, cpu="4", memory="4Gi")
    for uses, target, warm in [((), 1, "0s"), ((0,), 10, "0s"), ((1100, 0), 3, "60s"), ((0, 600), 4, "60s")]:
        for pod, use in zip(function.world.pods, uses, strict=True):
            function.world.memory_in_use[pod] = min(use * MIB, 0.95 * requests(function.world.pods[pod])[1])
        function.wants(target, keepWarm=warm)
        function.run(2 if target == 1 else 1)
    function.run(130, 0.5)
    planned_at_s = function.state.planned_at_s
    function.run(200, 0.5)
    assert function.state.planned_at_s == planned_at_s
    assert function.ready >= 4


def test_memory_that_comes_into_use_while_it_is_being_taken_away_is_kept() -> None:
    """The first refusal names 600 MiB, so 1 GiB is asked for; the second names more than that."""
    function, pod = shrunk_while_using(600 * MIB)
    function.run(1)
    function.world.memory_in_use[pod] = 1100 * MIB
    function.wants(3, keepWarm="0s")
    function.run(3)
    assert [used for _, _, used in function.world.refusals] == [600 * MIB, 1100 * MIB]
    assert (function.ready, has(function)) == (3, [("1000m", "2Gi")])
    function.run(500, 1.0)
    assert len(function.world.refusals) == 2, "the wait doubled"


@settings(max_examples=60)
@given(data=st.data())
def test_whatever_is_used_and_wanted(data: st.DataObject) -> None:
    """The target is served, nothing is over-committed, no kubelet is asked in vain again and again."""
    function = in_world(nodes=2, cpu="4", memory="4Gi")
    for _ in range(data.draw(st.integers(1, 6), label="changes")):
        for pod in function.world.pods:
            use = data.draw(st.sampled_from([0, 300, 600, 1100, 1900]), label=f"use of {pod}")
            has_bytes = requests(function.world.pods[pod])[1]
            function.world.memory_in_use[pod] = min(use * MIB, 0.95 * has_bytes)
        target = data.draw(st.integers(1, 12), label="target")
        warm = data.draw(st.sampled_from(["0s", "60s", "10m"]), label="keepWarm")
        function.wants(target, keepWarm=warm)
        for _ in range(data.draw(st.integers(1, 8), label="seconds")):
            function.run(1)
            for name, place in function.world.nodes.items():
                there = [p for p in function.world.pods.values() if p["spec"].get("nodeName") == name]
                held = sum(requests(p)[1] for p in there)
                assert held <= parse(place["status"]["allocatable"]["memory"])
    function.run(170, 0.5)  # past twice a keepWarm of 60 s and its drain, well before one of 10 minutes
    assert function.ready >= function.function.target  # type: ignore[operator]
    assert function.reconcile().waiting == ""
    for name in {name for name, _, _ in function.world.refusals}:
        refused = [(at_s, used) for pod, at_s, used in function.world.refusals if pod == name]
        for (at_s, used), (later_s, then_used) in pairwise(refused):
            assert later_s - at_s >= 299 or then_used > used, "only a use that rose is news"
