"""Status, scale and resize. On the fake API server and the real one."""

from __future__ import annotations

from tests.fake_api_server import Json
from tests.fake_api_server.both import SURGEKIT, Api, refusal
from tests.fake_api_server.patches import STRATEGIC


def test_spec_and_status_are_written_apart(api: Api) -> None:
    made = api.combofunc("func")
    assert "status" not in made
    path = api.path("combofuncs", "func", group=SURGEKIT)
    body = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"targetConcurrency": 5},
        "status": {"selector": "a=b"},
    }
    by_status = api.kube.patch(f"{path}/status", body)
    assert by_status["status"] == {"selector": "a=b"}
    assert by_status["spec"] == made["spec"]
    assert by_status["metadata"].get("labels") is None
    assert by_status["metadata"]["generation"] == 1
    by_spec = api.kube.patch(path, body | {"status": {"selector": "c=d"}})
    assert (by_spec["spec"]["targetConcurrency"], by_spec["status"]) == (5, {"selector": "a=b"})
    assert (by_spec["metadata"]["generation"], by_spec["metadata"]["labels"]) == (2, {"a": "b"})
    replaced = api.kube.replace(f"{path}/status", by_spec | {"status": {"selector": "e=f"}})
    assert replaced["status"] == {"selector": "e=f"}


def test_scale_of_a_workload(api: Api) -> None:
    made = api.deployment("web", 3)
    path = api.path("deployments", "web", group="/apis/apps/v1")
    scale = api.kube.get(f"{path}/scale")
    assert (scale["kind"], scale["spec"]["replicas"], scale["status"]["selector"]) == ("Scale", 3, "app=web")
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    scaled = api.kube.patch(f"{path}/scale", {"spec": {"replicas": 5}})
    assert (scaled["kind"], scaled["spec"]["replicas"]) == ("Scale", 5)
    obj = api.kube.get(path)
    assert (obj["spec"]["replicas"], obj["metadata"]["generation"]) == (5, 2)
    assert "replicas" not in api.kube.patch(f"{path}/scale", {"spec": {"replicas": 0}})["spec"]
    another = {"metadata": {"uid": "another"}, "spec": {"replicas": 9}}
    assert refusal(lambda: api.kube.patch(f"{path}/scale", another)) == (409, "Conflict")
    none = api.path("deployments", "none", "scale", group="/apis/apps/v1")
    assert refusal(lambda: api.kube.get(none)) == (404, "NotFound")


def test_scale_of_a_custom_resource(api: Api) -> None:
    api.combofunc("func")
    path = api.path("combofuncs", "func", group=SURGEKIT)
    api.kube.patch(f"{path}/status", {"status": {"readyConcurrency": 2, "selector": "a=b"}})
    scale = api.kube.get(f"{path}/scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "a=b"})
    api.kube.patch(f"{path}/scale", {"spec": {"replicas": 4}})
    assert api.kube.get(path)["spec"]["targetConcurrency"] == 4


def test_resize_of_a_pod(api: Api) -> None:
    pod = api.pod("one")
    path = api.path("pods", "one")
    resources = {"requests": {"cpu": "200m"}}
    body = {"metadata": {"uid": pod["metadata"]["uid"]}}
    body |= {"spec": {"containers": [{"name": "app", "resources": resources}]}}
    container: Json = {
        "name": "app", "image": "app:1", "imageID": "", "ready": True, "restartCount": 0,
        "state": {"running": {}},
    }  # fmt: skip
    running: Json = {"phase": "Running", "containerStatuses": [container]}
    api.kube.patch(f"{path}/status", {"status": running})
    assert refusal(lambda: api.kube.patch(f"{path}/resize", body, STRATEGIC)) == (422, "Invalid")
    container["resources"] = {"requests": {"cpu": "100m"}}
    api.kube.patch(f"{path}/status", {"status": running})
    resized = api.kube.patch(f"{path}/resize", body, STRATEGIC)
    assert resized["spec"]["containers"][0]["resources"] == resources
    assert resized["metadata"]["generation"] == pod["metadata"]["generation"] + 1
    assert resized["status"]["containerStatuses"][0]["resources"] == {"requests": {"cpu": "100m"}}
    body["metadata"] = {"uid": "another"}
    assert refusal(lambda: api.kube.patch(f"{path}/resize", body, STRATEGIC)) == (422, "Invalid")
