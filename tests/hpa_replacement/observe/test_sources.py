"""What decisions are told of the cluster: room for more of the same (eq. 4), and who else scales a target."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from hpa_replacement.observe.sources import ClusterSource
from surgekit.kube.client import Kube
from surgekit.kube.scale_target import ScaleTarget
from tests.events_at_once import unreadable
from tests.hpa_replacement.builders import World, hpa, kneepolicy, node, pod

WEB = ScaleTarget("apps/v1", "Deployment", "shop", "web")


def source(**fed: list[dict[str, Any]]) -> ClusterSource:
    found = ClusterSource(cast(Kube, None), unreadable())
    for what, objects in fed.items():
        found._watches[what]._consumer.replace(objects, time.monotonic())
    return found


def room(found: ClusterSource, running: int = 1, extra_nodes: int = 0) -> int:
    replicas, _ = found.replicas("shop", {"app": "web"})
    return found.capacity(next(r for r in replicas if r.serves), running, extra_nodes)


@pytest.mark.parametrize(
    ("nodes", "capacity"),
    [
        ([node()], 40),  # 8 cores of 0.2
        ([node(), node("b", cpu="1")], 45),
        ([node(), node("b", cpu="300m"), node("c", cpu="300m")], 42),  # one each: none lies across two
        ([node(memory="640Mi")], 10),
        ([node(pods="7")], 7),
        ([node(), node("b", taints=[{"key": "gpu", "effect": "NoSchedule"}])], 40),
        ([], 1),  # what runs, runs
    ],
)
def test_whole_replicas_node_by_node(nodes: list[dict[str, Any]], capacity: int) -> None:
    assert room(source(nodes=nodes, pods=[pod("web-0")])) == capacity


def test_others_pods_take_room_and_nodes_that_could_come_give_it() -> None:
    found = source(nodes=[node()], pods=[pod("web-0"), *(pod(f"x-{i}", app="x") for i in range(9))])
    assert room(found) == 31
    assert room(found, extra_nodes=2) == 31 + 2 * 40


def test_a_node_selector_limits_where_replicas_may_go() -> None:
    red = node("red")
    red["metadata"]["labels"] = {"pool": "red"}
    found = source(nodes=[node(), red], pods=[pod("web-0", nodeSelector={"pool": "blue"})])
    assert room(found) == 40


def test_pods_that_wait_for_a_node_are_not_room() -> None:
    """60 asked for where 40 fit: the capacity stays 40, or the next search would ask for 60 again."""
    world = World(web=60)
    world.add(kneepolicy(mode="shadow", maxReplicas=100))
    placed = [pod(f"web-{i}") for i in range(40)]
    world._feed("pods", [*placed, *(pod(f"web-{i}", ready=False, node="") for i in range(40, 60))])
    world.go(world.reconciler())
    assert world.status()["lastSample"]["capacity"] == 40


def test_one_pod_that_says_nonsense_stops_nobodys_policy() -> None:
    """A number of 5,000 digits, of which int() raises, in another tenant's pod."""
    world = World(web=2)
    world.add(kneepolicy())
    bad = pod("bad", app="other")
    bad["metadata"] |= {"namespace": "tenant-b", "annotations": {"surgekit.dev/concurrency": "9" * 5000}}
    worse = pod("worse", app="other")
    worse["metadata"]["labels"], worse["spec"]["containers"] = {"app": ["web"]}, "none"
    world._feed("pods", [worse, bad, pod("web-0"), pod("web-1")])
    assert sum(world.source.unreadable.count().values()) == 1
    world.go(world.reconciler())
    assert world.status()["lastSample"]["replicas"] == 2


def test_hpas_of_the_same_target_only() -> None:
    same, version = hpa("same", "web"), hpa("older-version", "web", "apps/v1beta1")
    kind, elsewhere = hpa("kind", "web"), hpa("elsewhere", "web")
    kind["spec"]["scaleTargetRef"]["kind"] = "StatefulSet"
    elsewhere["metadata"]["namespace"] = "bank"
    others = [hpa("name", "other"), hpa("group", "web", "example.dev/v1"), kind, elsewhere]
    found = source(horizontalpodautoscalers=[same, version, *others])
    assert sorted(found.hpas_of(WEB)) == ["older-version", "same"]
    found._watches["horizontalpodautoscalers"]._consumer.apply("DELETED", same, 0.0)
    assert found.hpas_of(WEB) == ["older-version"]


def test_policies_come_in_the_order_of_their_names() -> None:
    found = source(kneepolicies=[kneepolicy("b"), kneepolicy("a")])
    found._watches["kneepolicies"]._consumer.apply("ADDED", kneepolicy("c"), 0.0)
    assert [p["metadata"]["name"] for p in found.policies()] == ["a", "b", "c"]


def test_nothing_is_known_before_the_first_lists() -> None:
    assert set(source().ages_s(time.monotonic()).values()) == {float("inf")}
