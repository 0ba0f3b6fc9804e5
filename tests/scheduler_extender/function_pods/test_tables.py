"""What is known of pods and nodes: own writes count at once, old news does not."""

from __future__ import annotations

from typing import Any

from scheduler_extender.function_pods.actions import Create, Delete, Drain, Release, Resize
from scheduler_extender.function_pods.actuator import carry_out
from scheduler_extender.function_pods.cluster import Cluster
from scheduler_extender.function_pods.pod_table import PodTable
from scheduler_extender.function_pods.resources import of_size
from scheduler_extender.function_pods.steps import Room
from scheduler_extender.planner.model import Size
from scheduler_extender.sources import read_node, read_pod, read_speed
from tests.scheduler_extender.function_pods.world import GIB, World, node

Json = dict[str, Any]


def owned(name: str = "p", uid: str = "u", version: int = 1, owner: str = "f", **labels: str) -> Json:
    reference = {
        "apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc", "uid": owner, "controller": True
    }  # fmt: skip
    return {
        "metadata": {
            "name": name,
            "uid": uid,
            "resourceVersion": str(version),
            "ownerReferences": [reference],
            "labels": labels,
        },
        "spec": {"containers": []},
        "status": {},
    }


def table() -> PodTable:
    return PodTable(frozenset({"ComboFunc"}))


def test_news_that_is_older_than_an_own_write_is_passed_over() -> None:
    pods = table()
    assert pods.put(owned(version=5, **{"surgekit.dev/size": "large"})) == "f"
    assert pods.put(owned(version=4, **{"surgekit.dev/size": "small"})) == ""
    assert [pod.size for pod in pods.of("f")] == ["large"]


def test_a_pod_we_deleted_does_not_come_back_by_old_news() -> None:
    pods = table()
    pods.put(owned(version=5))
    assert pods.drop("u", seen=False) == "f"
    assert pods.put(owned(version=6)) == ""
    assert pods.of("f") == []
    pods.drop("u", seen=True)  # the watch has told: nothing to remember any more
    assert pods.put(owned(version=7)) == "f"


def test_nothing_is_told_when_nothing_that_matters_changed() -> None:
    pods = table()
    pods.put(owned(version=5))
    assert pods.put(owned(version=6)) == ""


def test_pods_of_others_are_not_ours() -> None:
    pods = table()
    other = owned()
    other["metadata"]["ownerReferences"][0] |= {"apiVersion": "example.com/v1"}
    assert pods.put(other) == ""
    assert pods.put(owned() | {"metadata": owned()["metadata"] | {"ownerReferences": []}}) == ""


def test_a_whole_list_takes_away_what_is_not_in_it() -> None:
    pods = table()
    pods.put(owned("a", "ua"))
    pods.put(owned("b", "ub", owner="g"))
    assert pods.keep_only({"ua"}) == {"g"}
    assert ([p.name for p in pods.of("f")], pods.of("g")) == (["a"], [])


def cluster() -> Cluster:
    found = Cluster(1.0, 0.1, 2.0, 120.0, read_node, read_pod, read_speed)
    found.put_node(node("n1"))
    found.put_node(node("n2", unschedulable=True))
    return found


def planned(uid: str, where: str, bound: str = "", tried: bool = False) -> Json:
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}] if tried else []
    requests = {"cpu": "2", "memory": "1Gi"}
    return {
        "metadata": {"uid": uid, "annotations": {"surgekit.dev/planned-node": where}},
        "spec": {"nodeName": bound, "containers": [{"name": "app", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending", "conditions": conditions},
    }


def test_a_planned_pod_takes_room_on_its_node_until_it_is_somewhere() -> None:
    there = cluster()
    there.put_pod(planned("a", "n1"), 0.0)
    assert there.room("n1") == Room(6000, 15 * GIB, 109)
    there.put_pod(planned("a", "n1", bound="n2"), 1.0)
    assert (there.room("n1"), there.room("n2")) == (Room(8000, 16 * GIB, 110), Room(6000, 15 * GIB, 109))
    there.put_pod(planned("b", "n1", tried=True), 1.0)  # no node takes it: it holds no room
    assert there.room("n1") == Room(8000, 16 * GIB, 110)
    there.drop_pod("a")
    assert there.room("n2") == Room(8000, 16 * GIB, 110)


def test_what_is_about_to_be_created_takes_room_until_it_is_told_of() -> None:
    there = cluster()
    there.presume("shop/p", "n1", 1000, GIB, 0.0)
    assert there.room("n1") == Room(7000, 15 * GIB, 109)
    there.forget("shop/p")
    assert there.room("n1") == Room(8000, 16 * GIB, 110)


def test_nodes_in_the_planners_words() -> None:
    there = cluster()
    there.put_speed(
        {"metadata": {"name": "n1"}, "status": {"tauCreateSeconds": 3, "tauResizeSeconds": 0.5}}, 0.0
    )
    there.put_pod(planned("a", "n1"), 0.0)
    there.age(1.0, 900.0)
    first, second = there.planner_nodes({"containers": [{"image": "app:1"}]})
    assert (first.name, first.accepts, first.creating, first.tau_create_s, first.tau_resize_s) == (
        *("n1", True, 1), *(3.0, 0.5),
    )  # fmt: skip
    assert (first.cpu_millicores, first.cpu_free_millicores, first.image_pull_s) == (8000, 6000, 2.0)
    # Not measured: as fast as its peers, and the default for resizes.
    assert (second.accepts, second.tau_create_s, second.tau_resize_s) == (False, 3.0, 0.1)
    there.drop_speed("n1")
    there.drop_node("n2")
    assert there.lost("n2")
    assert not there.lost("n1")


# --- the actuator ---


def body(name: str = "p", owner: str = "f") -> Json:
    amounts = {"cpu": "1", "memory": "1Gi"}
    spec = {
        "containers": [{"name": "app", "resources": {"requests": amounts, "limits": amounts}}],
        "schedulingGates": [{"name": "surgekit.dev/placement"}],
    }
    return {"metadata": {"name": name, "ownerReferences": [{"uid": owner}]}, "spec": spec}


def test_created_twice_is_created_once() -> None:
    world = World([node("n1")])
    first = carry_out(world, "shop", Create("p", body(), "n1", release=True))
    assert first.pod is not None
    assert (first.pod["spec"]["schedulingGates"], first.pod["status"]["nominatedNodeName"]) == ([], "n1")
    again = carry_out(world, "shop", Create("p", body(), "n1", release=True))
    assert again.pod is not None
    assert again.pod["metadata"]["uid"] == first.pod["metadata"]["uid"]


def test_a_pod_of_another_owner_is_not_taken_for_ours() -> None:
    world = World([node("n1")])
    world.create("/api/v1/namespaces/shop/pods", body(owner="somebody"))
    done = carry_out(world, "shop", Create("p", body(), "n1", release=True))
    assert (done.pod, done.refused) == (None, True)
    assert "another owner" in done.failure
    assert world.pods["p"]["spec"]["schedulingGates"]


def test_another_pod_of_the_same_name_is_left_alone() -> None:
    world = World([node("n1")])
    world.create("/api/v1/namespaces/shop/pods", body())
    for action in (Drain("p", "old", 1.0), Delete("p", "old", ""), Release("p", "old", "n1")):
        assert carry_out(world, "shop", action).failure == ""
    assert "deletionTimestamp" not in world.pods["p"]["metadata"]
    assert world.pods["p"]["spec"]["schedulingGates"]


def test_what_the_api_server_refuses_and_what_it_does_not_answer() -> None:
    world = World([node("n1")])
    pod = world.create("/api/v1/namespaces/shop/pods", body())
    resize = Resize("p", pod["metadata"]["uid"], of_size(Size("s", 500, GIB, 1), "app"))
    refused = carry_out(world, "shop", resize)
    assert (refused.failure, refused.refused) == ("resize p: not running", True)
    world.lose_requests = 1
    lost = carry_out(world, "shop", resize)
    assert (bool(lost.failure), lost.refused) == (True, False)
    assert carry_out(world, "shop", Drain("gone", "u9", 1.0)).gone == "u9"
