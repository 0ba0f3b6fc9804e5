"""The fake API server against the real one: the same tests run on both, so that the fake stays true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from kwok.lab import Lab
from surgekit.kube.client import ApiError, Kube
from tests.etcd import compact_etcd
from tests.fake_api_server import FakeApiServer, Json
from tests.fake_api_server.patches import JSON, MERGE, STRATEGIC
from tests.paths import MANIFESTS

CRD = MANIFESTS / "combofunc" / "combofunc.yaml"
GATES = [{"name": "example.dev/one"}, {"name": "example.dev/two"}]


@dataclass(frozen=True)
class Api:
    kube: Kube
    namespace: str

    def path(self, plural: str, name: str = "", sub: str = "", group: str = "/api/v1") -> str:
        parts = [group, "namespaces", self.namespace, plural, name, sub]
        return "/".join(part for part in parts if part)

    def config_map(self, name: str, **metadata: Any) -> Json:
        body = {"metadata": {"name": name} | metadata, "data": {"a": "1", "b": "2"}}
        return self.kube.create(self.path("configmaps"), body)

    def pod(self, name: str, **spec: Any) -> Json:
        container = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}
        body = {"metadata": {"name": name}, "spec": {"containers": [container]} | spec}
        return self.kube.create(self.path("pods"), body)

    def deployment(self, name: str, replicas: int) -> Json:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "a"}]}}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
            "paused": True,
        }
        body = {"metadata": {"name": name}, "spec": spec}
        return self.kube.create(self.path("deployments", group="/apis/apps/v1"), body)

    def combofunc(self, name: str) -> Json:
        template = {"spec": {"containers": [{"name": "app", "image": "app"}]}}
        sizes = [{"name": "small", "concurrency": 1, "cpu": "1", "memory": "1Gi"}]
        spec = {"targetConcurrency": 3, "template": template, "sizes": sizes}
        body = {"apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc", "metadata": {"name": name}}
        return self.kube.create(self.path("combofuncs", group=SURGEKIT), body | {"spec": spec})

    def events(self, path: str, version: str, **query: Any) -> list[tuple[str, str]]:
        """What a short watch says: types and names."""
        told = self.watch(path, version, **query)
        return [(event["type"], event["object"]["metadata"]["name"]) for event in told]

    def watch(self, path: str, version: str, real_timeout_s: int = 1, **query: Any) -> list[Json]:
        timeout_s: Any = 0.1 if isinstance(self.kube, FakeApiServer) else real_timeout_s
        batches = self.kube.stream(
            path, watch=True, resourceVersion=version, timeoutSeconds=timeout_s, **query
        )
        return [orjson.loads(line) for lines in batches for line in lines]


SURGEKIT = "/apis/surgekit.dev/v1alpha1"


@pytest.fixture(scope="module")
def real_kube(request: pytest.FixtureRequest) -> Kube:
    lab: Lab = request.getfixturevalue("lab")
    lab.apply(CRD)
    return lab.kube


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.lab)])
def api(request: pytest.FixtureRequest) -> Api:
    if request.param == "fake":
        return Api(FakeApiServer(), "test")
    return Api(request.getfixturevalue("real_kube"), request.getfixturevalue("namespace"))


def refusal(act: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ApiError) as raised:
        act()
    return raised.value.code, raised.value.reason


def test_create_gives_a_name_a_uid_and_a_version(api: Api) -> None:
    made = api.config_map("one")
    metadata = made["metadata"]
    assert (made["apiVersion"], made["kind"], metadata["namespace"]) == ("v1", "ConfigMap", api.namespace)
    assert metadata["uid"]
    assert int(metadata["resourceVersion"])
    assert metadata["creationTimestamp"].endswith("Z")
    assert "generation" not in metadata
    assert api.kube.get(api.path("configmaps", "one"))["data"] == {"a": "1", "b": "2"}
    names = [
        api.kube.create(api.path("configmaps"), {"metadata": {"generateName": "many-"}})["metadata"]["name"]
        for _ in range(3)
    ]
    assert len(set(names)) == 3
    assert all(len(name) == 10 and name.startswith("many-") for name in names)
    assert api.pod("pod")["status"]["phase"] == "Pending"
    assert api.combofunc("func")["metadata"]["generation"] == 1


def test_create_refuses(api: Api) -> None:
    api.config_map("one")
    path = api.path("configmaps")
    assert refusal(lambda: api.config_map("one")) == (409, "AlreadyExists")
    assert refusal(lambda: api.kube.create(path, {"metadata": {}})) == (422, "Invalid")
    elsewhere = {"metadata": {"name": "two", "namespace": "elsewhere"}}
    assert refusal(lambda: api.kube.create(path, elsewhere)) == (400, "BadRequest")


def test_what_is_not_there(api: Api) -> None:
    with pytest.raises(ApiError) as raised:
        api.kube.get(api.path("deployments", "none", group="/apis/apps/v1"))
    error = raised.value
    assert (error.code, error.reason, error.message) == (
        404, "NotFound", 'deployments.apps "none" not found',
    )  # fmt: skip
    for path in ("/api/v1/unicorns", "/api/v1/namespaces/x/pods/y/unicorn"):
        with pytest.raises(ApiError, match="could not find the requested resource"):
            api.kube.get(path)
    assert refusal(lambda: api.kube.get("/apis/example.dev/v1/unicorns"))[0] == 404
    assert refusal(lambda: api.kube.get("/apis/example.dev/v1"))[0] == 404
    assert refusal(lambda: api.kube.patch(api.path("pods", "none"), {"metadata": {}})) == (404, "NotFound")
    assert refusal(lambda: api.kube.delete(api.path("pods", "none"))) == (404, "NotFound")


def test_discovery_names_subresources(api: Api) -> None:
    resources = api.kube.get("/apis/apps/v1")["resources"]
    kinds = {r["name"]: r["kind"] for r in resources}
    assert (kinds["deployments"], kinds["deployments/scale"]) == ("Deployment", "Scale")
    assert kinds["deployments/status"] == "Deployment"
    assert "daemonsets/scale" not in kinds


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"labelSelector": "tier=web"}, "ab"),
        ({"labelSelector": "tier==web,size=1"}, "a"),
        ({"labelSelector": "tier!=web"}, "cd"),
        ({"labelSelector": "tier"}, "abc"),
        ({"labelSelector": "!tier"}, "d"),
        ({"labelSelector": "size in (1, 3),tier"}, "ac"),
        ({"labelSelector": "size notin (1,3)"}, "bd"),
        ({"fieldSelector": "metadata.name=c"}, "c"),
        ({"fieldSelector": "metadata.name!=c"}, "abd"),
        ({"fieldSelector": "metadata.name!=c,metadata.name!=a", "labelSelector": "tier"}, "b"),
    ],
)
def test_selectors_of_lists(api: Api, query: dict[str, str], names: str) -> None:
    path = api.path("secrets")  # a new namespace has none; it has a ConfigMap
    tiers = {"a": "web", "b": "web", "c": "base"}
    for size, (name, tier) in enumerate(tiers.items(), start=1):
        metadata = {"name": name, "labels": {"tier": tier, "size": str(size)}}
        api.kube.create(path, {"metadata": metadata})
    api.kube.create(path, {"metadata": {"name": "d"}})
    found, version = api.kube.list_all(path, **query)
    assert "".join(obj["metadata"]["name"] for obj in found) == names
    assert all((obj["apiVersion"], obj["kind"]) == ("v1", "Secret") for obj in found)
    assert int(version)


def test_field_selectors_of_pods_and_others(api: Api) -> None:
    api.pod("bound", nodeName="nowhere")
    api.pod("free")
    found, _ = api.kube.list_all(api.path("pods"), fieldSelector="spec.nodeName!=")
    assert [pod["metadata"]["name"] for pod in found] == ["bound"]
    unknown = {"fieldSelector": "data.a=1"}
    assert refusal(lambda: api.kube.list_all(api.path("configmaps"), **unknown)) == (400, "BadRequest")


def test_pages_show_the_list_as_it_was(api: Api) -> None:
    for name in "abcde":
        api.config_map(name, labels={"paged": "yes"})
    path = api.path("configmaps")
    page = api.kube.get(path, limit=2, labelSelector="paged")
    api.kube.delete(api.path("configmaps", "c"))
    api.config_map("f", labels={"paged": "yes"})
    token = page["metadata"]["continue"]
    rest = api.kube.get(path, limit=9, labelSelector="paged", **{"continue": token})
    assert [obj["metadata"]["name"] for obj in page["items"] + rest["items"]] == list("abcde")
    assert page["metadata"]["resourceVersion"] == rest["metadata"]["resourceVersion"]
    assert not rest["metadata"].get("continue")


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


def test_writers_that_are_too_late_get_a_conflict(api: Api) -> None:
    old = api.config_map("one")
    path = api.path("configmaps", "one")
    new = api.kube.replace(path, old | {"data": {"a": "2"}})
    assert new["data"] == {"a": "2"}
    conflict = (409, "Conflict")
    assert refusal(lambda: api.kube.replace(path, old)) == conflict
    version = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"z": "1"}}
    assert refusal(lambda: api.kube.patch(path, version)) == conflict
    another = {"metadata": {"name": "one", "uid": "another"}, "data": {"z": "1"}}
    assert refusal(lambda: api.kube.replace(path, another)) == conflict
    own = {"metadata": {"uid": old["metadata"]["uid"]}, "data": {"z": "1"}}
    assert api.kube.patch(path, own)["data"] == {"a": "2", "z": "1"}
    unconditional = {"metadata": {"name": "one"}, "data": {"y": "1"}}
    assert api.kube.replace(path, unconditional)["data"] == {"y": "1"}
    assert refusal(lambda: api.kube.replace(path, {"metadata": {"name": "two"}})) == (400, "BadRequest")


def test_a_uid_in_a_patch_is_a_forbidden_change_and_no_conflict(api: Api) -> None:
    api.pod("one")
    another = {"metadata": {"uid": "another"}}
    for path, body in (
        (api.path("pods", "one"), {"metadata": {"uid": "another", "labels": {"a": "b"}}}),
        (api.path("pods", "one", "status"), another | {"status": {"message": "x"}}),
    ):
        for content_type in (MERGE, STRATEGIC):
            said = refusal(lambda p=path, b=body, c=content_type: api.kube.patch(p, b, c))  # type: ignore[misc]
            assert said == (422, "Invalid")
    api.combofunc("func")
    func = api.path("combofuncs", "func", group=SURGEKIT)
    assert refusal(lambda: api.kube.patch(func, another | {"spec": {"targetConcurrency": 9}}))[0] == 422
    written = api.kube.patch(f"{func}/status", another | {"status": {"selector": "a=b"}})
    assert written["status"] == {"selector": "a=b"}, "the status of a custom resource ignores the uid"
    late = {"metadata": {"resourceVersion": "1"}, "status": {"selector": "c=d"}}
    assert refusal(lambda: api.kube.patch(f"{func}/status", late)) == (409, "Conflict")


def test_a_lease_is_replaced_by_version_only(api: Api) -> None:
    group = "/apis/coordination.k8s.io/v1"
    lease = api.kube.create(api.path("leases", group=group), {"metadata": {"name": "l"}, "spec": {}})
    path = api.path("leases", "l", group=group)
    blind = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    assert refusal(lambda: api.kube.replace(path, blind)) == (422, "Invalid")
    held = api.kube.replace(path, lease | {"spec": {"holderIdentity": "a"}})
    assert held["spec"]["holderIdentity"] == "a"
    assert refusal(lambda: api.kube.replace(path, lease)) == (409, "Conflict")


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


def test_a_watch_tells_what_came_after_its_version(api: Api) -> None:
    path = api.path("configmaps")
    api.config_map("before")
    _, version = api.kube.list_all(path)
    api.config_map("a", labels={"tier": "web"})
    api.kube.patch(api.path("configmaps", "a"), {"data": {"x": "1"}})
    api.kube.patch(api.path("configmaps", "a"), {"metadata": {"labels": {"tier": "base"}}})
    api.kube.patch(api.path("configmaps", "before"), {"metadata": {"labels": {"tier": "web"}}})
    api.kube.delete(api.path("configmaps", "before"))
    modified = ("MODIFIED", "a")
    assert api.events(path, version) == [
        ("ADDED", "a"), modified, modified, ("MODIFIED", "before"), ("DELETED", "before"),
    ]  # fmt: skip
    assert api.events(path, version, labelSelector="tier=web") == [
        ("ADDED", "a"), modified, ("DELETED", "a"), ("ADDED", "before"), ("DELETED", "before"),
    ]  # fmt: skip
    assert api.events(path, version, fieldSelector="metadata.name=a") == [("ADDED", "a"), modified, modified]


def test_a_watch_ends_with_a_bookmark(api: Api) -> None:
    path = api.path("configmaps")
    _, version = api.kube.list_all(path)
    made = api.config_map("a")
    told = api.watch(path, version, real_timeout_s=4, allowWatchBookmarks=True)  # 2 s before the end
    added, *bookmarks = told  # the real API server may send more than one
    assert (added["type"], added["object"]) == ("ADDED", made)
    assert {event["type"] for event in bookmarks} == {"BOOKMARK"}
    last = bookmarks[-1]["object"]["metadata"]["resourceVersion"]
    assert int(last) >= int(made["metadata"]["resourceVersion"])


def test_versions_before_a_compaction_are_gone(api: Api, request: pytest.FixtureRequest) -> None:
    # Events: the one resource that the real API server does not keep in its watch cache.
    for name in "abc":
        about = {"kind": "Pod", "namespace": api.namespace, "name": name}
        body = {"metadata": {"name": name}, "involvedObject": about, "reason": "R", "message": "m"}
        api.kube.create(api.path("events"), body)
    page = api.kube.get(api.path("events"), limit=1)
    last = [api.config_map(name) for name in "ab"][-1]["metadata"]["resourceVersion"]
    if isinstance(api.kube, FakeApiServer):
        api.kube.compact()
    else:
        compact_etcd(request.getfixturevalue("lab"), last)
    (event,) = api.watch(api.path("events"), page["metadata"]["resourceVersion"])
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    token = {"continue": page["metadata"]["continue"]}
    assert refusal(lambda: api.kube.get(api.path("events"), limit=1, **token)) == (410, "Expired")
