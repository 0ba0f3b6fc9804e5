"""Deletion: preconditions, finalizers, grace periods. On the fake API server and the real one."""

from __future__ import annotations

from tests.fake_api_server.both import Api, refusal


def test_deletion_with_preconditions(api: Api) -> None:
    made = api.config_map("one")
    path = api.path("configmaps", "one")
    for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
        assert refusal(lambda w=wrong: api.kube.delete(path, {"preconditions": w})) == (409, "Conflict")  # type: ignore[misc]
    said = api.kube.delete(path, {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert (said["kind"], said["status"]) == ("Status", "Success")
    assert refusal(lambda: api.kube.get(path)) == (404, "NotFound")
    assert api.config_map("one")["metadata"]["uid"] != made["metadata"]["uid"]


def test_finalizers_hold_a_deletion_up(api: Api) -> None:
    api.config_map("one", finalizers=["example.dev/hold"])
    path = api.path("configmaps", "one")
    for _ in range(2):
        assert "deletionTimestamp" in api.kube.delete(path)["metadata"]
    assert "deletionTimestamp" in api.kube.get(path)["metadata"]
    api.kube.patch(path, {"metadata": {"finalizers": None}})
    assert refusal(lambda: api.kube.get(path)) == (404, "NotFound")


def test_a_pod_on_a_node_stays_for_its_grace_period(api: Api) -> None:
    api.pod("bound", nodeName="nowhere")
    path = api.path("pods", "bound")
    said = api.kube.delete(path)
    assert (said["kind"], said["metadata"]["deletionGracePeriodSeconds"]) == ("Pod", 30)
    assert "deletionTimestamp" in api.kube.get(path)["metadata"]
    said = api.kube.delete(path, gracePeriodSeconds=0)
    assert said["metadata"]["deletionGracePeriodSeconds"] == 0
    assert refusal(lambda: api.kube.get(path)) == (404, "NotFound")


def test_a_pod_on_no_node_goes_at_once(api: Api) -> None:
    api.pod("free")
    said = api.kube.delete(api.path("pods", "free"))
    assert (said["kind"], said["metadata"]["deletionGracePeriodSeconds"]) == ("Pod", 0)
    assert refusal(lambda: api.kube.get(api.path("pods", "free"))) == (404, "NotFound")


def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for name in "abc":
        api.config_map(name, labels={"go": str(name != "b").lower()})
    api.kube.delete(api.path("configmaps"), labelSelector="go=true")
    left, _ = api.kube.list_all(api.path("configmaps"), labelSelector="go")
    assert [obj["metadata"]["name"] for obj in left] == ["b"]
