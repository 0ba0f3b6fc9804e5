"""Paths of the API server: what Kubernetes allows, and nothing else."""

from __future__ import annotations

import ast
from io import BytesIO
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client

from surgekit.kube.api_path import InvalidPath, Resource, checked, group_path, is_api_version, is_kind
from surgekit.kube.client import Kube
from tests.paths import ROOT

DEPLOYMENTS = Resource("apps/v1", "deployments")
PODS = Resource("v1", "pods")
HOSTILE = [
    "../../victim/deployments/web", "..", ".", "", "a/b", "web/scale", "a?x=y", "a#b", "a%2e%2e", "%2F..",
    "a\n", "a\x00", "a b", "a;b", "a\\..\\b", "WEB", "a_b", "-a", "a-", "é", "\uff0e\uff0e", "a" * 254,
    "a..b",
]  # fmt: skip


class Recorder:
    """In place of urllib3's pool: remembers what would have been sent."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    def request(self, method: str, url: str, **_: Any) -> urllib3.HTTPResponse:
        self.urls.append(url)
        return urllib3.HTTPResponse(BytesIO(b"{}"), status=200, preload_content=False)


def recording_kube() -> tuple[Kube, Recorder]:
    configuration = client.Configuration()
    configuration.host = "https://api"
    kube, recorder = Kube(configuration), Recorder()
    kube._pool = cast(Any, recorder)
    return kube, recorder


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("shop"), "/api/v1/namespaces/shop/pods"),
        (PODS.path("shop", "web-0.a"), "/api/v1/namespaces/shop/pods/web-0.a"),
        (DEPLOYMENTS.path("shop", "web", "scale"), "/apis/apps/v1/namespaces/shop/deployments/web/scale"),
        (
            Resource("surgekit.dev/v1alpha1", "nodespeeds").path(name="node-0", subresource="status"),
            "/apis/surgekit.dev/v1alpha1/nodespeeds/node-0/status",
        ),
        (group_path("apps/v1"), "/apis/apps/v1"),
        (group_path("v1"), "/api/v1"),
    ],
)
def test_paths_are_those_of_the_api_server(path: str, expected: str) -> None:
    assert path == expected == checked(path)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_part_of_a_path_can_be_more_than_a_part(text: str) -> None:
    for build in (
        lambda: DEPLOYMENTS.path("shop", text, "scale"),
        lambda: DEPLOYMENTS.path(text, "web", "scale"),
        lambda: DEPLOYMENTS.path("shop", "web", text),
        lambda: Resource("apps/v1", text),
        lambda: Resource(f"{text}/v1", "deployments"),
        lambda: Resource(f"apps/{text}", "deployments"),
        lambda: group_path(f"apps/v1/{text}"),
    ):
        with pytest.raises(InvalidPath):
            build()


def test_a_subresource_needs_an_object() -> None:
    with pytest.raises(InvalidPath, match="without a name"):
        DEPLOYMENTS.path("shop", subresource="scale")


@pytest.mark.parametrize(
    "path",
    [
        "/apis/apps/v1/namespaces/a/deployments/../../victim/deployments/web/scale",
        "/api/v1/./pods", "/api/v1/..", "/api//v1", "/api/v1/", "api/v1", "", "/", "/api/v1/pods?limit=1",
        "/api/v1/pods#x", "/api/v1/%2e%2e/pods", "/api/v1/pods\n", "/api/v1/pods\r\nHost: x", "/api/v1/a\\b",
        "/api/v1/a;b", "/api/v1/é", "/api/v1/.hidden",
    ],
)  # fmt: skip
def test_the_client_sends_no_path_that_is_not_plain(path: str) -> None:
    kube, recorder = recording_kube()
    for send in (
        lambda: kube.get(path),
        lambda: kube.list_all(path),
        lambda: kube.create(path, {}),
        lambda: kube.replace(path, {}),
        lambda: kube.patch(path, {}),
        lambda: kube.delete(path),
        lambda: next(kube.stream(path, timeoutSeconds=1)),
    ):
        with pytest.raises(InvalidPath):
            send()
    assert recorder.urls == []


def test_selectors_are_encoded() -> None:
    kube, recorder = recording_kube()
    kube.get(PODS.path(), labelSelector="a=b&limit=0#x/../y")
    assert recorder.urls == ["https://api/api/v1/pods?labelSelector=a%3Db%26limit%3D0%23x%2F..%2Fy"]


_PARTS = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(),
    st.text("abc-./%?#\n", max_size=6),
    st.from_regex(r"[a-z0-9]([-a-z0-9]{0,5}[a-z0-9])?", fullmatch=True),
)


@given(namespace=_PARTS, name=_PARTS, subresource=_PARTS)
def test_whatever_is_sent_names_exactly_these_parts(namespace: str, name: str, subresource: str) -> None:
    kube, recorder = recording_kube()
    try:
        kube.get(DEPLOYMENTS.path(namespace, name, subresource))
    except InvalidPath:
        assert recorder.urls == []
        return
    (url,) = recorder.urls
    parts = urlsplit(url)
    assert parts.path.split("/")[4:] == ["namespaces", namespace, "deployments", name, subresource]
    assert (parts.query, parts.fragment) == ("", "")


@pytest.mark.parametrize("text", ["v1", "apps/v1", "serving.knative.dev/v1", "surgekit.dev/v1alpha1"])
def test_api_versions_of_the_ecosystem_are_taken(text: str) -> None:
    assert is_api_version(text)


@pytest.mark.parametrize("text", ["Deployment", "ComboFunc", "TFJob", "Rollout"])
def test_kinds_of_the_ecosystem_are_taken(text: str) -> None:
    assert is_kind(text)


# Served, or written for the lab: no string of a tenant reaches these.
_EXEMPT = (
    "surgekit/kube/api_path.py",
    "hpa_replacement/adapter/server.py",
    "surgekit/cli/bench",
    "surgekit/cli/demo",
    "surgekit/cli/lab.py",
    "limit_allocator/cgroups/",  # paths of files; it does not know the API server
)
# The lab and the experiments read no tenant's objects; tests write as they like.
_PACKAGES = {file.parent.name for file in ROOT.glob("*/__init__.py")} - {"experiments", "kwok", "tests"}
_ASKING = ("get", "list_all", "create", "replace", "patch", "delete", "stream")


def _written_together(tree: ast.AST) -> list[int]:
    """Lines in which a path of the API server is put together from text."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            constants = [v.value for v in node.values if isinstance(v, ast.Constant)]
            words = [str(c) for c in constants]
            names = [ast.unparse(v.value) for v in node.values if isinstance(v, ast.FormattedValue)]
            of_path = any("path" in n.lower() for n in names) and any(w.startswith("/") for w in words)
            if len(constants) < len(node.values) and (
                of_path or any(mark in w for w in words for mark in ("/api/", "/apis/", "/namespaces/"))
            ):
                lines.append(node.lineno)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            of_kube = ast.unparse(node.func.value).endswith("kube") and node.func.attr in _ASKING
            if of_kube and isinstance(node.args[0], ast.JoinedStr | ast.BinOp):
                lines.append(node.lineno)
    return lines


def test_no_part_writes_a_path_together() -> None:
    assert {"surgekit", "combofunc", "function_gateway", "cluster_model"} <= _PACKAGES
    found = {
        f"{file.relative_to(ROOT)}:{line}"
        for package in sorted(_PACKAGES)
        for file in sorted((ROOT / package).rglob("*.py"))
        if not str(file.relative_to(ROOT)).startswith(_EXEMPT)
        for line in _written_together(ast.parse(file.read_text()))
    }
    assert found == set(), "use surgekit.kube.api_path.Resource"
