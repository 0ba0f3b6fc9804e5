"""Opting in: labels of pods and namespaces become a request of zero, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from kwok.lab import Lab
from tests.manifests.installed_cluster import (
    MANIFESTS,
    PLACEMENT,
    SCORED,
    create,
    marks,
    placed,
    pod,
    until,
    wait_for_opt_in,
)

pytestmark = pytest.mark.lab


@pytest.mark.parametrize(
    ("namespace", "label", "marked"),
    [
        ("on", None, True),
        ("watching", None, True),
        ("refusing", None, False),
        ("silent", None, False),
        ("silent", "enforce", True),
        ("silent", "shadow", True),
        ("refusing", "enforce", True),
        ("on", "off", False),
        ("watching", "off", False),
        ("on", "shadow", True),
        ("on", "nonsense", False),
    ],
)
def test_the_pods_label_decides_else_the_namespaces(
    namespaces: Lab, namespace: str, label: str | None, marked: bool
) -> None:
    created = create(namespaces, namespace, pod("p", {PLACEMENT: label} if label else {}), dry=True)
    assert marks(created) == (["c"] if marked else [])


REQUESTS = {"requests": {"cpu": "100m"}}
LIMITS = {"limits": {"memory": "64Mi"}}


@pytest.mark.parametrize(
    "resources",
    [None, {}, REQUESTS, LIMITS, REQUESTS | LIMITS, {"requests": {}, "limits": {}}],
    ids=["none", "empty", "requests", "limits", "both", "empty maps"],
)
def test_what_a_pod_asked_for_stays_as_it_was(namespaces: Lab, resources: dict[str, Any] | None) -> None:
    first: dict[str, Any] = {"name": "first", "image": "example/app"}
    if resources is not None:
        first["resources"] = resources
    # Twice the same variable: Kubernetes takes it, a server-side merge would not.
    first["env"] = [{"name": "TWICE", "value": "1"}, {"name": "TWICE", "value": "2"}]
    second = {"name": "second", "image": "example/sidecar", "resources": REQUESTS}
    body = pod("p", containers=[first, second], initContainers=[{"name": "init", "image": "example/init"}])
    plain = create(namespaces, "silent", body, dry=True)["spec"]
    created = create(namespaces, "on", body, dry=True)
    assert marks(created) == ["first"]
    # Empty maps and missing ones are the same to the API.
    added = created["spec"]["containers"][0].pop("resources")
    before = plain["containers"][0].pop("resources")
    for kind in ("requests", "limits"):
        assert added[kind] == before.get(kind, {}) | {SCORED: "0"}
    for spec in (plain, created["spec"]):  # the token's volume has a random name
        spec.pop("volumes")
        for container in spec["containers"] + spec["initContainers"]:
            container.pop("volumeMounts")
    assert created["spec"] == plain


def test_a_pod_that_carries_the_mark_is_left_alone(namespaces: Lab) -> None:
    marked = {kind: {SCORED: "0"} for kind in ("requests", "limits")}
    containers = [
        {"name": "first", "image": "example/app"},
        {"name": "second", "image": "example/app", "resources": marked},
    ]
    assert marks(create(namespaces, "on", pod("p", containers=containers), dry=True)) == ["second"]
    in_init = pod("p", initContainers=[{"name": "init", "image": "example/app", "resources": marked}])
    assert marks(create(namespaces, "on", in_init, dry=True)) == []


def test_pods_of_a_deployment_are_marked_and_it_settles(namespaces: Lab) -> None:
    """The template has no mark and its pods do: no controller may take that for drift."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("")["spec"]}
    namespaces.kube.create(
        "/apis/apps/v1/namespaces/on/deployments",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
        },
    )
    namespaces.kubectl("-n", "on", "rollout", "status", "deployment/web", "--timeout=60s")
    pods, _ = namespaces.kube.list_all("/api/v1/namespaces/on/pods", labelSelector="app=web")
    assert [marks(p) for p in pods] == [["c"]] * 3


def test_taking_the_opt_in_out_leaves_pods_schedulable(namespaces: Lab) -> None:
    """The README's rollback of the opt-in."""
    assert marks(create(namespaces, "on", pod("marked-before"))) == ["c"]
    namespaces.kubectl("delete", "-k", MANIFESTS / "base" / "opt-in")
    try:
        until(lambda: marks(create(namespaces, "on", pod("any"), dry=True)) == [], "pods are not marked")
        create(namespaces, "on", pod("after"))
        for name in ("marked-before", "after"):
            until(lambda n=name: placed(namespaces, "on", n), f"{name} is placed")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
    finally:
        namespaces.apply(MANIFESTS / "base" / "opt-in")
        wait_for_opt_in(namespaces)
