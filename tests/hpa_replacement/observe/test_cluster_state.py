"""Who is Ready since when, and what room is left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from hpa_replacement.observe.cluster_state import ClusterState, NodeRoom, read_node, read_pod
from surgekit.kube.scale_target import read_selector
from tests.hpa_replacement.builders import node, pod

WEB = {"app": "web"}


class Fed(ClusterState):
    """As the watches' tables feed it, and the nodes beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, NodeRoom] = {}

    def replace_pods(self, objects: Iterable[dict[str, Any]], now_s: float) -> None:
        listed = list(objects)
        self.keep_pods({obj["metadata"]["uid"] for obj in listed}, now_s)
        for obj in listed:
            self.apply_pod("MODIFIED", obj, now_s)

    def apply_pod(self, kind: str, obj: dict[str, Any], now_s: float) -> None:
        self.put_pod(obj["metadata"]["uid"], None if kind == "DELETED" else read_pod(obj), now_s)

    def apply_node(self, kind: str, obj: dict[str, Any]) -> None:
        room = None if kind == "DELETED" else read_node(obj)
        self.nodes = {room.name: room} if room else {}


def state(*pods: dict[str, Any], at_s: float = 100.0) -> Fed:
    cluster = Fed()
    cluster.apply_node("ADDED", node())
    cluster.replace_pods(pods, at_s)
    return cluster


def deleting(obj: dict[str, Any]) -> dict[str, Any]:
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return obj


def names(cluster: ClusterState, selector: dict[str, str] = WEB) -> set[str]:
    return {replica.name for replica in cluster.replicas("shop", selector)}


def test_the_same_pods_serve_since_the_last_one_became_ready() -> None:
    cluster = state(pod("a"), pod("b", ready=False))
    assert cluster.unchanged_since_s("shop", WEB) == 100.0
    cluster.apply_pod("MODIFIED", pod("b"), 130.0)
    assert cluster.unchanged_since_s("shop", WEB) == 130.0
    cluster.apply_pod("MODIFIED", pod("a"), 150.0)  # told again, nothing new
    assert cluster.unchanged_since_s("shop", WEB) == 130.0


def test_ready_lost_and_found_counts_from_when_it_was_found() -> None:
    cluster = state(pod("a"), pod("b"))
    cluster.apply_pod("MODIFIED", pod("a", ready=False), 110.0)
    assert cluster.unchanged_since_s("shop", WEB) == 110.0
    cluster.apply_pod("MODIFIED", pod("a"), 120.0)
    assert cluster.unchanged_since_s("shop", WEB) == 120.0


def test_a_pod_that_takes_another_number_of_requests_serves_as_that_from_then_on() -> None:
    def sized(concurrency: str) -> dict[str, Any]:
        obj = pod("a")
        obj["metadata"]["annotations"] = {"surgekit.dev/concurrency": concurrency}
        return obj

    cluster = state(sized("2"))
    cluster.apply_pod("MODIFIED", sized("2"), 120.0)
    assert cluster.unchanged_since_s("shop", WEB) == 100.0
    cluster.apply_pod("MODIFIED", sized("8"), 140.0)
    assert cluster.unchanged_since_s("shop", WEB) == 140.0
    assert [replica.concurrency for replica in cluster.replicas("shop", WEB)] == [8]
    cluster.apply_pod("MODIFIED", sized("several"), 150.0)
    assert [replica.concurrency for replica in cluster.replicas("shop", WEB)] == [1]


def test_a_drained_pod_serves_no_more_until_it_stays_after_all() -> None:
    """Of a ComboFunc: it is deleted later, when nobody uses it any more."""

    def drained(since: str | None) -> dict[str, Any]:
        obj = pod("b")
        obj["metadata"]["annotations"] = {"surgekit.dev/draining-since": since} if since else {}
        return obj

    cluster = state(pod("a"), pod("b"))
    cluster.apply_pod("MODIFIED", drained("110.000"), 110.0)
    assert names(cluster) == {"a"}
    cluster.apply_pod("MODIFIED", drained("110.000"), 115.0)
    assert cluster.unchanged_since_s("shop", WEB) == 110.0
    left = state(pod("a"), pod("b"))
    left.apply_pod("MODIFIED", drained("110.000"), 110.0)
    left.apply_pod("DELETED", drained("110.000"), 140.0)
    assert left.unchanged_since_s("shop", WEB) == 110.0
    cluster.apply_pod("MODIFIED", drained(None), 120.0)
    assert names(cluster) == {"a", "b"}
    assert cluster.unchanged_since_s("shop", WEB) == 120.0


@pytest.mark.parametrize("how", ["deleted", "deleting", "finished", "not listed any more"])
def test_a_pod_that_leaves_makes_the_window_unclean(how: str) -> None:
    cluster = state(pod("a"), pod("b"))
    gone = pod("b")
    if how == "deleted":
        cluster.apply_pod("DELETED", gone, 140.0)
    elif how == "deleting":
        cluster.apply_pod("MODIFIED", deleting(gone), 140.0)
        cluster.apply_pod("DELETED", gone, 170.0)  # it served nobody since 140
    elif how == "finished":
        gone["status"]["phase"] = "Failed"
        cluster.apply_pod("MODIFIED", gone, 140.0)
    else:
        cluster.replace_pods([pod("a")], 140.0)
    assert names(cluster) == {"a"}
    assert cluster.unchanged_since_s("shop", WEB) == 140.0


def test_others_comings_and_goings_change_nothing() -> None:
    cluster = state(pod("a"), pod("x", app="other"))
    cluster.apply_pod("DELETED", pod("x", app="other"), 140.0)
    cluster.apply_pod("ADDED", pod("y", app="other"), 150.0)
    cluster.apply_pod("DELETED", pod("pending", ready=False), 160.0)
    assert cluster.unchanged_since_s("shop", WEB) == 100.0


def test_pods_are_found_by_all_labels_of_the_selector_in_their_namespace() -> None:
    elsewhere, two = pod("e"), pod("two")
    elsewhere["metadata"]["namespace"] = "bank"
    two["metadata"]["labels"]["tier"] = "front"
    cluster = state(pod("a"), two, elsewhere)
    assert names(cluster) == {"a", "two"}
    assert names(cluster, {"app": "web", "tier": "front"}) == {"two"}
    assert names(cluster, {"app": "web", "tier": "back"}) == set()
    assert names(cluster, {}) == set(), "no selector selects nothing, not everything"
    unlabelled = pod("a")
    unlabelled["metadata"]["labels"] = {}
    cluster.apply_pod("MODIFIED", unlabelled, 120.0)
    assert names(cluster) == {"two"}


def test_room_is_what_nobody_has_requested() -> None:
    waiting, finished = pod("waiting", node=""), pod("finished")
    finished["status"]["phase"] = "Succeeded"
    cluster = state(pod("a"), deleting(pod("b")), waiting, finished)
    room = cluster.nodes["node-0"]
    assert cluster.free(room) == (8000 - 400, (16 << 30) - (128 << 20), 108), "one that goes still holds its"
    cluster.apply_pod("DELETED", pod("b"), 120.0)
    assert cluster.free(room) == (8000 - 200, (16 << 30) - (64 << 20), 109)
    cluster.apply_pod("MODIFIED", pod("waiting"), 130.0)  # now it has a node
    assert cluster.free(room)[0] == 8000 - 400


def test_a_pod_with_requests_that_cannot_be_read_still_takes_its_place() -> None:
    odd = pod("odd")
    odd["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    cluster = state(odd)
    assert cluster.free(cluster.nodes["node-0"]) == (8000, 16 << 30, 109)


@pytest.mark.parametrize("why", ["cordoned", "not ready", "silent", "odd", "deleted"])
def test_nodes_that_take_no_pods(why: str) -> None:
    cluster = state()
    obj = node("node-0")
    if why == "cordoned":
        obj["spec"]["unschedulable"] = True
    elif why == "not ready":
        obj["status"]["conditions"][0]["status"] = "Unknown"
    elif why == "silent":
        del obj["status"]["allocatable"]
    elif why == "odd":
        obj["status"]["allocatable"]["cpu"] = "lots"
    cluster.apply_node("DELETED" if why == "deleted" else "MODIFIED", obj)
    assert cluster.nodes == {}


GPU = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "may"),
    [
        ([], [], True),
        ([GPU], [], False),
        ([GPU], [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}], True),
        ([GPU], [{"key": "gpu", "value": "a100"}], True),
        ([GPU], [{"key": "gpu", "value": "h100"}], False),
        ([GPU], [{"key": "gpu"}], False),
        ([GPU], [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], False),
        ([GPU], [{"key": "gpu", "operator": "Exists"}], True),
        ([GPU], [{"operator": "Exists"}], True),
        ([GPU, {"key": "spot", "effect": "NoExecute"}], [{"key": "gpu", "operator": "Exists"}], False),
        ([{"key": "spot", "effect": "NoExecute"}], [{"key": "spot", "operator": "Equal"}], True),
        ([{"key": "slow", "effect": "PreferNoSchedule"}], [], True),
    ],
)
def test_taints(taints: list[dict[str, str]], tolerations: list[dict[str, str]], may: bool) -> None:
    cluster = state(pod("a", tolerations=tolerations))
    cluster.apply_node("MODIFIED", node(taints=taints))
    (replica,) = cluster.replicas("shop", WEB)
    assert replica.may_go_to(cluster.nodes["node-0"]) is may


@pytest.mark.parametrize(("selector", "may"), [({"pool": "blue"}, True), ({"pool": "red"}, False)])
def test_node_selectors(selector: dict[str, str], may: bool) -> None:
    (replica,) = (cluster := state(pod("a", nodeSelector=selector))).replicas("shop", WEB)
    assert replica.may_go_to(cluster.nodes["node-0"]) is may


def test_labels_that_are_used_once_are_forgotten() -> None:
    """Jobs give every pod labels of its own; a controller runs for months."""
    cluster = Fed()
    for day in range(100):
        job = pod(f"job-{day}", app=f"job-{day}")
        cluster.apply_pod("ADDED", job, day * 86400.0)
        cluster.apply_pod("DELETED", job, day * 86400.0 + 60)
    assert len(cluster._left_s) == 1
    assert not cluster._by_label


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("app=web", {"app": "web"}),
        ("app==web,tier=front", {"app": "web", "tier": "front"}),
        ("app=", {"app": ""}),
        ("", {}),
    ],
)
def test_selectors(text: str, labels: dict[str, str]) -> None:
    assert read_selector(text) == labels


@pytest.mark.parametrize("text", ["app in (a,b)", "app!=web", "!app", "app", "x=y,app notin (a)"])
def test_selectors_that_are_more_than_labels(text: str) -> None:
    with pytest.raises(ValueError, match="is more than labels and values"):
        read_selector(text)
