"""Objects: creation, lists, pages and what is not there. On the fake API server and the real one."""

from __future__ import annotations

import pytest

from surgekit.kube.client import ApiError
from tests.fake_api_server.both import Api, refusal


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
