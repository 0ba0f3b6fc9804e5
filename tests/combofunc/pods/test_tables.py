"""What is known of pods and nodes: own writes count at once, old news does not."""

from __future__ import annotations

from typing import Any

from cluster_model.contention import MEASURED
from combofunc.actuator import carry_out
from combofunc.planner.model import Size
from combofunc.pods.actions import Create, Delete, Drain, Release, Resize
from combofunc.pods.cluster import Cluster
from combofunc.pods.pod_table import PodTable
from combofunc.pods.resources import of_size
from combofunc.pods.steps import Room
from tests.combofunc.pods.world import GIB, World, node

Json = dict[str, Any]


def owned(name: str = "p", uid: str = "u", version: int = 1, owner: str = "f", **labels: str) -> Json:
    reference = {
        "apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc", "uid": owner, "controller": True
    }  # fmt: skip
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": uid,
            "resourceVersion": str(version),
            "ownerReferences": [reference],
            "labels": labels,
        },
        "spec": {"containers": []},
        "status": {},
    }


def table() -> PodTable:
    return PodTable()


def test_news_that_is_older_than_an_own_write_is_passed_over() -> None:
    pods = table()
    assert pods.put(owned(version=5, **{"surgekit.dev/size": "large"})) == "f"
    assert pods.put(owned(version=4, **{"surgekit.dev/size": "small"})) == ""
    assert [pod.size for pod in pods.of("shop", "f")] == ["large"]


def test_a_pod_we_deleted_does_not_come_back_by_old_news() -> None:
    pods = table()
    pods.put(owned(version=5))
    assert pods.drop("u", seen=False) == "f"
    assert pods.put(owned(version=6)) == ""
    assert pods.of("shop", "f") == []
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
    assert ([p.name for p in pods.of("shop", "f")], pods.of("shop", "g")) == (["a"], [])


def test_pods_elsewhere_that_name_an_owner_are_not_its_pods() -> None:
    """Owner references are written by whoever makes a pod."""
    pods, elsewhere = table(), owned(uid="forged")
    elsewhere["metadata"]["namespace"] = "tenant-b"
    pods.put(owned())
    pods.put(elsewhere)
    assert [pod.uid for pod in pods.of("shop", "f")] == ["u"]
    elsewhere["metadata"]["uid"] = "unread"
    pods.put_unread(elsewhere)
    assert pods.unread("shop", "f") == []


def test_a_pod_that_cannot_be_read_is_there_until_it_is_gone_or_can_be() -> None:
    pods = table()
    pods.put(owned("a", "ua", 1, "f", **{"surgekit.dev/size": "small"}))
    assert pods.put_unread(owned("a", "ua", version=2)) == "f"
    assert pods.put_unread(owned("b", "ub")) == "f"
    assert (pods.unread("shop", "f"), [pod.size for pod in pods.of("shop", "f")]) == (["a", "b"], ["small"])
    assert pods.put(owned("a", "ua", 3, "f", **{"surgekit.dev/size": "small"})) == "f"
    assert pods.unread("shop", "f") == ["b"]
    assert pods.keep_only({"ua"}) == {"f"}
    assert pods.unread("shop", "f") == []


def cluster() -> Cluster:
    found = Cluster(1.0, 0.1, 2.0, 120.0)
    found.put_node(node("n1"))
    found.put_node(node("n2", unschedulable=True))
    found.put_owner("shop", "f", 0.0)
    return found


def planned(uid: str, where: str, bound: str = "", tried: bool = False) -> Json:
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}] if tried else []
    requests = {"cpu": "2", "memory": "1Gi"}
    return {
        "metadata": owned(uid=uid)["metadata"] | {"annotations": {"surgekit.dev/planned-node": where}},
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


def test_anybodys_pod_with_our_mark_takes_no_room() -> None:
    """80 of them would leave room for no function at all."""
    there, empty = cluster(), Room(8000, 16 * GIB, 110)
    nobodys, forged, elsewhere = planned("a", "n1"), planned("b", "n1"), planned("c", "n1")
    del nobodys["metadata"]["ownerReferences"]
    forged["metadata"]["ownerReferences"][0]["uid"] = "no such function"
    elsewhere["metadata"]["namespace"] = "tenant-b"
    others = planned("d", "n1")
    others["metadata"]["ownerReferences"][0]["apiVersion"] = "apps/v1"
    for pod in (nobodys, forged, elsewhere, others):
        there.put_pod(pod, 0.0)
        assert there.room("n1") == empty
    forged["spec"]["nodeName"] = "n1"  # where it runs it takes room, whoever made it
    there.put_pod(forged, 1.0)
    assert there.room("n1") == Room(6000, 15 * GIB, 109)


def test_planned_pods_count_from_when_their_owner_is_known() -> None:
    """The watches of pods and of owners tell in any order."""
    there, empty = cluster(), Room(8000, 16 * GIB, 110)
    pod = planned("a", "n1")
    pod["metadata"]["ownerReferences"][0]["uid"] = "later"
    there.put_pod(pod, 0.0)
    assert (there.room("n1"), there.pods) == (empty, {"a"})
    there.put_owner("shop", "later", 1.0)
    assert there.room("n1") == Room(6000, 15 * GIB, 109)
    there.put_owner("shop", "later", 2.0)  # told again
    assert there.room("n1") == Room(6000, 15 * GIB, 109)
    there.drop_owner("later")
    assert there.room("n1") == empty
    there.put_owner("shop", "later", 3.0)
    there.drop_pod("a")
    assert (there.room("n1"), there.pods) == (empty, set())
    there.put_owner("shop", "later", 4.0)
    assert there.room("n1") == empty


def test_what_is_about_to_be_created_takes_room_until_it_is_told_of() -> None:
    there = cluster()
    there.assume("shop/p", "n1", 1000, GIB, 0.0)
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
    (beside_another, _) = there.planner_nodes({"containers": [{"image": "app:1"}, {"image": "proxy:1"}]})
    assert beside_another.tau_create_s == 3.0 * MEASURED.work(2)
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
        "schedulingGates": [{"name": "surgekit.dev/planned-placement"}],
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
