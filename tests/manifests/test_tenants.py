"""What an account with `edit` in one namespace can do, and what our controller can: pods and their marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kwok.lab import Lab
from surgekit.kube.client import ApiError, Kube
from surgekit.kube.events import EventRecorder
from surgekit.kube.table import Seen, Unreadable
from tests.manifests.installed_cluster import NAMESPACE, PLACEMENT, create, marks, pod, until

pytestmark = pytest.mark.lab

Json = dict[str, Any]
TENANT = "tenant-a"
PODS = f"/api/v1/namespaces/{TENANT}/pods"
PLANNED = "surgekit.dev/planned-node"
DRAINING = "surgekit.dev/draining-since"
CONCURRENCY = "surgekit.dev/concurrency"
GATE = {"name": "surgekit.dev/planned-placement"}
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture(scope="module")
def tenant(namespaces: Lab) -> Kube:
    """May edit tenant-a, as a team of a shared cluster may."""
    lab = namespaces
    lab.kube.create("/api/v1/namespaces", {"metadata": {"name": TENANT, "labels": {PLACEMENT: "enforce"}}})
    lab.kube.create(f"/api/v1/namespaces/{TENANT}/serviceaccounts", {"metadata": {"name": "dev"}})
    lab.kube.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TENANT}/rolebindings",
        {
            "metadata": {"name": "dev"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": "dev", "namespace": TENANT}],
        },
    )
    kube = Kube.connect(lab.account_kubeconfig(TENANT, "dev"))
    until(lambda: _allowed(lambda: kube.create(PODS, pod("p"), dryRun="All")), "the tenant may make pods")
    until(
        lambda: not _allowed(lambda: kube.create(PODS, annotated(**{PLANNED: "n"}), dryRun="All")),
        "the policy for marks is in force",
    )
    return kube


@pytest.fixture(scope="module")
def controller(tenant: Kube, namespaces: Lab) -> Kube:
    kube = Kube.connect(namespaces.account_kubeconfig(NAMESPACE, "surgekit-combofunc"))
    until(
        lambda: not _allowed(lambda: kube.create(PODS, pod("p"), dryRun="All")),
        "the policy for the controller is in force",
    )
    return kube


def _allowed(call: Callable[[], object]) -> bool:
    return not said(call)


def said(call: Callable[[], object]) -> str:
    """Why it was refused; empty: it was not."""
    try:
        call()
    except ApiError as error:
        return error.message or str(error)
    return ""


def annotated(name: str = "p", **annotations: str) -> Json:
    body = pod(name)
    body["metadata"]["annotations"] = annotations
    return body


def owned(
    name: str = "p", marks: dict[str, str] | None = None, kind: str = "ComboFunc", controller: bool = True
) -> Json:
    body = annotated(name, **(marks or {}))
    body["metadata"]["ownerReferences"] = [reference(kind, controller)]
    return body


def reference(kind: str = "ComboFunc", controller: bool = True, group: str = "surgekit.dev") -> Json:
    return {
        "apiVersion": f"{group}/v1alpha1", "kind": kind, "name": "f", "uid": "0", "controller": controller,
    }  # fmt: skip


def gated(body: Json) -> Json:
    body["spec"]["schedulingGates"] = [GATE]
    return body


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (annotated(**{PLANNED: "node-0"}), "planned-node"),
        (annotated(**{PLANNED: ""}), "planned-node"),
        (annotated(**{DRAINING: "0"}), "draining-since"),
        (gated(pod("p")), "holds pods back"),
        (owned(), "makes pods that a ComboFunc"),
        (owned(kind="InPlaceDeployment"), "makes pods that a ComboFunc"),
        (owned(marks={CONCURRENCY: "5"}), "surgekit.dev/concurrency"),
    ],
    ids=["planned", "empty mark", "draining", "gate", "owner", "other owner", "concurrency"],
)
def test_a_tenant_cannot_pass_pods_off_as_ours(tenant: Kube, body: Json, why: str) -> None:
    assert why in said(lambda: tenant.create(PODS, body, dryRun="All"))


@pytest.mark.parametrize(
    "body",
    [
        pod("p"),
        annotated(**{CONCURRENCY: "7", "surgekit.dev/anything": "x", "example.com/planned-node": "n"}),
        pod("p", {PLACEMENT: "shadow"}),
        pod("p", {"surgekit.dev/combofunc": "f", "surgekit.dev/serving": "true"}),
        pod("p", schedulingGates=[{"name": "example.com/quota"}]),
        owned(controller=False),
    ],
    ids=["plain", "annotations", "opt-in", "labels", "gate of others", "not its controller"],
)
def test_what_is_meant_for_users_stays_possible(tenant: Kube, body: Json) -> None:
    assert said(lambda: tenant.create(PODS, body, dryRun="All")) == ""


def test_pods_of_the_tenant_still_opt_in(tenant: Kube) -> None:
    """Our own mutation of them is the API server's, and is not taken for the tenant's."""
    until(lambda: marks(tenant.create(PODS, pod("p"), dryRun="All")) == ["c"], "the opt-in is in force")


@pytest.fixture(scope="module")
def functions_pod(controller: Kube, tenant: Kube) -> str:
    """Made by the controller, of a ComboFunc of the tenant's; the garbage collector must find the owner."""
    function = tenant.create(
        f"/apis/surgekit.dev/v1alpha1/namespaces/{TENANT}/combofuncs",
        {
            "apiVersion": "surgekit.dev/v1alpha1",
            "kind": "ComboFunc",
            "metadata": {"name": "f"},
            "spec": {
                "template": {"spec": pod("")["spec"]},
                "sizes": [{"name": "small", "cpu": "100m", "memory": "64Mi", "concurrency": 1}],
                "targetConcurrency": 0,
            },
        },
    )
    body = gated(owned("held", {PLANNED: "node-0", CONCURRENCY: "1"}))
    body["metadata"]["ownerReferences"][0]["uid"] = function["metadata"]["uid"]
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    controller.create(PODS, body)
    return f"{PODS}/held"


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"metadata": {"annotations": {CONCURRENCY: "9" * 5000}}}, "surgekit.dev/concurrency"),
        ({"metadata": {"annotations": {CONCURRENCY: None}}}, "surgekit.dev/concurrency"),
        (
            {"metadata": {"ownerReferences": None, "annotations": {CONCURRENCY: "2"}}},
            "surgekit.dev/concurrency",
        ),
        ({"metadata": {"annotations": {PLANNED: "node-1"}}}, "planned-node"),
        ({"metadata": {"annotations": {DRAINING: "0"}}}, "draining-since"),
        ({"metadata": {"annotations": {"example.com/note": "x"}}}, ""),
        ({"metadata": {"labels": {"team": "a"}}}, ""),
        ({"spec": {"schedulingGates": None}}, ""),  # whoever may edit pods may let them go
    ],
    ids=lambda value: str(value)[:80],
)
def test_what_a_tenant_may_change_of_a_functions_pod(
    tenant: Kube, functions_pod: str, patch: Json, why: str
) -> None:
    message = said(lambda: tenant.patch(functions_pod, patch, dryRun="All"))
    assert why in message if why else message == ""


def test_a_tenant_may_delete_a_functions_pod(tenant: Kube, functions_pod: str) -> None:
    assert said(lambda: tenant.delete(functions_pod, dryRun="All")) == ""


def test_another_namespace_is_another_world(tenant: Kube) -> None:
    for path in ("/api/v1/namespaces/silent/pods", "/api/v1/namespaces/kube-system/pods"):
        assert "forbidden" in said(lambda path=path: tenant.create(path, pod("p"), dryRun="All"))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        assert "forbidden" in said(lambda path=path: tenant.get(path))  # type: ignore[misc]  # the same


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete"])
def test_a_tenant_may_write_functions_but_not_their_status(tenant: Kube, namespaces: Lab, verb: str) -> None:
    user = f"system:serviceaccount:{TENANT}:dev"
    for resource in ("combofuncs", "inplacedeployments", "kneepolicies", "distributedcontainers"):
        for subresource, namespace, allowed in (
            ("", TENANT, True),
            ("", "silent", False),
            ("status", TENANT, False),
        ):
            review = namespaces.kube.create(
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                {
                    "spec": {
                        "user": user,
                        "groups": ["system:authenticated"],
                        "resourceAttributes": {
                            "verb": verb, "group": "surgekit.dev", "resource": resource,
                            "subresource": subresource, "namespace": namespace,
                        },
                    }
                },
            )  # fmt: skip
            assert review["status"]["allowed"] is allowed, (resource, subresource, namespace)


def test_what_cannot_be_read_is_named_where_its_owner_looks(tenant: Kube, namespaces: Lab) -> None:
    """In an Event on the object, by the account that could not read it; on a node as well."""
    extender = Kube.connect(namespaces.account_kubeconfig(NAMESPACE, "surgekit-extender"))
    events = EventRecorder(extender, "extender")
    unreadable = Unreadable(events)
    named = tenant.create(PODS, pod("odd"))
    (node, *_), _ = namespaces.kube.list_all("/api/v1/nodes")
    for obj in (named, node):
        metadata = obj["metadata"]
        seen = Seen(metadata["uid"], metadata.get("namespace", ""), metadata["name"], obj)
        unreadable.note(seen, ValueError("spec.size: 9999"))
    events.start()

    def told(kube: Kube, namespace: str, about: Json) -> bool:
        events, _ = kube.list_all(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        return any(
            e["regarding"]["uid"] == about["metadata"]["uid"] and e["reason"] == "Unreadable" for e in events
        )

    until(lambda: told(tenant, TENANT, named), "the tenant sees why its pod is left out", 90)
    until(lambda: told(namespaces.kube, "default", node), "the node's Event", 90)
    events.stop()


# --- the controller ---


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (owned(marks={PLANNED: "node-0", CONCURRENCY: "2"}), ""),
        (gated(owned(kind="InPlaceDeployment")), ""),
        (pod("p"), "no others"),
        (owned(controller=False), "no others"),
        (owned(kind="KneePolicy"), "no others"),
        (owned() | {"spec": pod("p", nodeName="node-0")["spec"]}, "without a node"),
    ],
    ids=["function's", "deployment's", "nobody's", "not its controller", "another kind", "bound"],
)
def test_the_controller_makes_pods_of_its_objects_only(controller: Kube, body: Json, why: str) -> None:
    message = said(lambda: controller.create(PODS, body, dryRun="All"))
    assert why in message if why else message == ""


def test_the_controller_makes_no_pod_with_a_finalizer_or_a_second_owner(controller: Kube) -> None:
    with_finalizer, two = owned(), owned()
    with_finalizer["metadata"]["finalizers"] = ["example.com/stay"]
    two["metadata"]["ownerReferences"].append(reference("Deployment", False, "apps"))
    other_group = pod("p")
    other_group["metadata"]["ownerReferences"] = [reference(group="example.com")]
    for body in (with_finalizer, two, other_group):
        assert "surgekit-combofunc" in said(lambda body=body: controller.create(PODS, body, dryRun="All"))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", NAMESPACE])
def test_the_controller_keeps_out_of_system_namespaces(controller: Kube, namespace: str) -> None:
    path, body = f"/api/v1/namespaces/{namespace}/pods", owned()
    body["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    body["spec"]["containers"][0]["securityContext"] = {  # as the namespace wants it
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "keeps out" in said(lambda: controller.create(path, body, dryRun="All"))


@pytest.fixture(scope="module")
def others_pod(controller: Kube, namespaces: Lab) -> str:
    create(namespaces, TENANT, pod("others", schedulingGates=[{"name": "example.com/quota"}]))
    return f"{PODS}/others"


def test_the_controller_leaves_pods_of_others_alone(controller: Kube, others_pod: str) -> None:
    touches: list[Callable[[], object]] = [
        lambda: controller.delete(others_pod, dryRun="All"),
        lambda: controller.patch(
            others_pod, {"metadata": {"labels": {"surgekit.dev/size": "x"}}}, dryRun="All"
        ),
        lambda: controller.patch(
            f"{others_pod}/status", {"status": {"nominatedNodeName": "node-0"}}, dryRun="All"
        ),
        lambda: controller.patch(
            others_pod,
            {"metadata": {"ownerReferences": [reference()]}},
            dryRun="All",
        ),
    ]
    for touch in touches:
        assert "no others" in said(touch)
    resize = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    assert said(lambda: controller.patch(f"{others_pod}/resize", resize, STRATEGIC, dryRun="All")) != ""


@pytest.mark.parametrize(
    ("subresource", "patch", "why"),
    [
        ("", {"metadata": {"labels": {"surgekit.dev/size": "small", "surgekit.dev/serving": None}}}, ""),
        ("", {"metadata": {"annotations": {CONCURRENCY: "3", DRAINING: "12.5"}}}, ""),
        ("", {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE["name"]}]}}, ""),
        ("status", {"status": {"nominatedNodeName": "node-0"}}, ""),
        ("", {"metadata": {"labels": {"team": "b"}}}, "no others"),
        ("", {"metadata": {"annotations": {"example.com/a": "b"}}}, "no others"),
        ("", {"metadata": {"annotations": {PLANNED: "node-1"}}}, "no others"),
        ("", {"metadata": {"finalizers": ["example.com/stay"]}}, "nor finalizers"),
        ("", {"metadata": {"ownerReferences": [{"$patch": "replace"}]}}, "neither ownerReferences"),
        ("", {"spec": {"containers": [{"name": "c", "image": "evil"}]}}, "takes its gate off"),
        ("", {"spec": {"activeDeadlineSeconds": 1}}, "takes its gate off"),
        ("", {"spec": {"nodeSelector": {"a": "b"}}}, "takes its gate off"),
        ("status", {"status": {"phase": "Failed"}}, "nominatedNodeName"),
        ("status", {"status": {"reason": "Evicted"}}, "nominatedNodeName"),
        ("status", {"status": {"startTime": "2026-01-01T00:00:00Z"}}, "nominatedNodeName"),
        ("status", {"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}}, "nominatedNodeName"),
        (
            "status",
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            "nominatedNodeName",
        ),
        ("status", {"metadata": {"annotations": {CONCURRENCY: "3"}}}, "no others"),
    ],
    ids=lambda value: str(value)[:80],
)
def test_what_the_controller_may_change_of_a_functions_pod(
    controller: Kube, functions_pod: str, subresource: str, patch: Json, why: str
) -> None:
    path = f"{functions_pod}/{subresource}".rstrip("/")
    message = said(lambda: controller.patch(path, patch, STRATEGIC, dryRun="All"))
    assert why in message if why else message == ""


def test_the_controller_adds_no_toleration(controller: Kube, functions_pod: str) -> None:
    patch = [{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]
    json_patch = "application/json-patch+json"
    message = said(lambda: controller.patch(functions_pod, patch, json_patch, dryRun="All"))
    assert "takes its gate off" in message


def test_the_controller_may_delete_a_functions_pod(controller: Kube, functions_pod: str) -> None:
    assert said(lambda: controller.delete(functions_pod, dryRun="All")) == ""
