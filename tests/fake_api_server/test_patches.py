"""The three patches. On the fake API server and the real one."""

from __future__ import annotations

from tests.fake_api_server import Json
from tests.fake_api_server.both import GATES, SURGEKIT, Api, refusal
from tests.fake_api_server.patches import JSON, STRATEGIC


def test_merge_patch(api: Api) -> None:
    made = api.config_map("one", labels={"keep": "1", "drop": "2"})
    patch = {"metadata": {"labels": {"drop": None, "new": "3"}}, "data": {"a": None, "c": "3"}}
    patched = api.kube.patch(api.path("configmaps", "one"), patch)
    assert patched["data"] == {"b": "2", "c": "3"}
    assert patched["metadata"]["labels"] == {"keep": "1", "new": "3"}
    assert patched["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(patched["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    again = api.kube.patch(api.path("configmaps", "one"), patch)
    assert again == patched, "what changes nothing makes no new version"


def test_json_patch(api: Api) -> None:
    api.config_map("one")
    path = api.path("configmaps", "one")
    patched = api.kube.patch(
        path,
        [
            {"op": "test", "path": "/data/a", "value": "1"},
            {"op": "replace", "path": "/data/a", "value": "9"},
            {"op": "move", "from": "/data/b", "path": "/data/c"},
            {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}},
            {"op": "add", "path": "/metadata/labels/example.dev~1x", "value": "z"},
            {"op": "replace", "path": "/data/new", "value": "8"},
            {"op": "copy", "from": "/data/a", "path": "/data/d"},
        ],
        JSON,
    )
    assert patched["data"] == {"a": "9", "c": "2", "d": "9", "new": "8"}
    assert patched["metadata"]["labels"] == {"x": "y", "example.dev/x": "z"}
    failing: list[list[Json]] = [
        [{"op": "test", "path": "/data/a", "value": "1"}],
        [{"op": "remove", "path": "/data/none"}],
    ]
    for operations in failing:
        assert refusal(lambda ops=operations: api.kube.patch(path, ops, JSON)) == (422, "Invalid")  # type: ignore[misc]
    assert api.kube.get(path) == patched


def test_strategic_merge_patch_of_lists(api: Api) -> None:
    api.pod("one", schedulingGates=GATES)
    path = api.path("pods", "one")
    drop = {"$patch": "delete", "name": "example.dev/one"}
    gates = [{"$patch": "delete", "name": "example.dev/never"}, drop]
    patched = api.kube.patch(path, {"spec": {"schedulingGates": gates}}, STRATEGIC)
    assert patched["spec"]["schedulingGates"] == GATES[1:]
    image = {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}
    patched = api.kube.patch(path, image, STRATEGIC)
    (container,) = patched["spec"]["containers"]
    assert (container["image"], container["resources"]) == ("app:2", {"requests": {"cpu": "100m"}})
    for type_ in ("example.dev/A", "example.dev/B", "example.dev/A"):
        condition = {"type": type_, "status": "True"}
        body = {"status": {"conditions": [condition]}}
        patched = api.kube.patch(api.path("pods", "one", "status"), body, STRATEGIC)
    types = [c["type"] for c in patched["status"]["conditions"] if c["type"].startswith("example.dev")]
    assert sorted(types) == ["example.dev/A", "example.dev/B"]
    api.combofunc("func")
    func = api.path("combofuncs", "func", group=SURGEKIT)
    code, _ = refusal(lambda: api.kube.patch(func, {"metadata": {"labels": {"a": "b"}}}, STRATEGIC))
    assert code == 415


def test_a_merge_patch_takes_all_gates_and_no_gate_can_be_added(api: Api) -> None:
    api.pod("one", schedulingGates=GATES)
    path = api.path("pods", "one")
    assert "schedulingGates" not in api.kube.patch(path, {"spec": {"schedulingGates": None}})["spec"]
    assert refusal(lambda: api.kube.patch(path, {"spec": {"schedulingGates": GATES}})) == (422, "Invalid")
    assert refusal(lambda: api.kube.patch(path, {"spec": {"nodeName": "x"}})) == (422, "Invalid")
