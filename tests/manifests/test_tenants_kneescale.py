"""KneeScale and accounts of one namespace: nobody has scaled by a policy what they may not scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kwok.lab import Lab
from surgekit.kube.client import ApiError, Kube
from tests.manifests.installed_cluster import NAMESPACE, until

pytestmark = pytest.mark.lab
GROUP = "/apis/surgekit.dev/v1alpha1"
TENANT, VICTIM = "scaling-tenant", "scaling-victim"  # of this file: the lab is shared
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def policies(namespace: str = TENANT) -> str:
    return f"{GROUP}/namespaces/{namespace}/kneepolicies"


def policy(name: str = "p", target: dict[str, Any] = DEPLOYMENT, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "KneePolicy",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "maxReplicas": 40, "mode": "enforce"} | spec,
    }


def bind(lab: Lab, account: str, role: dict[str, str]) -> Kube:
    """An account of the tenant's namespace with one role there."""
    lab.kube.create(f"/api/v1/namespaces/{TENANT}/serviceaccounts", {"metadata": {"name": account}})
    binding = {
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", **role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": TENANT}],
    }
    lab.kube.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TENANT}/rolebindings", binding)
    return Kube.connect(lab.account_kubeconfig(TENANT, account))


@pytest.fixture(scope="module")
def tenants(installed: Lab) -> Iterator[tuple[Kube, Kube]]:
    """An account with `edit` in its namespace, and one that may write KneePolicies there and nothing else."""
    for name in (TENANT, VICTIM):
        installed.kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
    editor = bind(installed, "editor", {"kind": "ClusterRole", "name": "edit"})
    rules = [{"apiGroups": ["surgekit.dev"], "resources": ["kneepolicies"], "verbs": ["*"]}]
    role = {"metadata": {"name": "policies-only"}, "rules": rules}
    installed.kube.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TENANT}/roles", role)
    writer = bind(installed, "writer", {"kind": "Role", "name": "policies-only"})

    def in_force() -> bool:
        """Roles are aggregated, and the admission policy is compiled, in moments."""
        try:
            editor.create(policies(), policy(), dryRun="All")
            writer.create(policies(), policy(), dryRun="All")
        except ApiError as error:
            return "so KneeScale does not do it either" in error.message
        return False

    until(in_force, "roles and the admission policy are in force", timeout_s=90)
    yield editor, writer
    for name in (TENANT, VICTIM):
        installed.kube.delete(f"/api/v1/namespaces/{name}")


def test_who_may_scale_may_have_it_scaled(tenants: tuple[Kube, Kube]) -> None:
    editor, _ = tenants
    editor.create(policies(), policy("mine"))
    editor.patch(f"{policies()}/mine", {"spec": {"maxReplicas": 50}})
    editor.delete(f"{policies()}/mine")
    function = {"apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc", "name": "f"}
    editor.create(policies(), policy(target=function), dryRun="All")


def test_who_may_not_scale_may_not_have_it_scaled(tenants: tuple[Kube, Kube]) -> None:
    editor, writer = tenants
    for mode in ("enforce", "shadow", "off"):
        with pytest.raises(ApiError, match="may not patch deployments/scale of web") as refused:
            writer.create(policies(), policy(mode=mode))
        assert refused.value.code == 403
    editor.create(policies(), policy("theirs", mode="shadow"))
    with pytest.raises(ApiError, match="may not patch deployments/scale of web"):
        writer.patch(f"{policies()}/theirs", {"spec": {"mode": "enforce"}})
    # As the garbage collector does it, which has no right on scales.
    writer.patch(f"{policies()}/theirs", {"metadata": {"labels": {"a": "b"}}})
    writer.delete(f"{policies()}/theirs")


def test_no_account_of_a_namespace_reaches_another(tenants: tuple[Kube, Kube]) -> None:
    editor, _ = tenants
    with pytest.raises(ApiError, match="403"):
        editor.create(policies(VICTIM), policy())
    for name in ("../../victim/deployments/web", "..", "web/../../x", "a%2fb", "web?x", "web#x", "Web", ""):
        with pytest.raises(ApiError, match=r"spec\.scaleTargetRef\.name") as refused:
            editor.create(policies(), policy(target=DEPLOYMENT | {"name": name}))
        assert refused.value.code == 422
    for field, value in (
        ("kind", "a/b"),
        ("kind", "../x"),
        ("apiVersion", "apps/v1/../.."),
        ("apiVersion", ""),
    ):
        with pytest.raises(ApiError, match=rf"spec\.scaleTargetRef\.{field}") as refused:
            editor.create(policies(), policy(target=DEPLOYMENT | {field: value}))
        assert refused.value.code == 422


def test_kinds_that_no_administrator_listed_are_refused(installed: Lab, tenants: tuple[Kube, Kube]) -> None:
    editor, _ = tenants
    goose = {"apiVersion": "example.dev/v1", "kind": "Goose", "name": "g"}
    for kube in (editor, installed.kube):
        with pytest.raises(ApiError, match=r"Goose\.example\.dev is not listed in the ConfigMap"):
            kube.create(policies(), policy(target=goose), dryRun="All")
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/surgekit-kneescale-targets"
    installed.kube.patch(path, {"data": {"Goose.example.dev": "geese"}})

    def listed() -> bool:
        try:
            installed.kube.create(policies(), policy(target=goose), dryRun="All")
        except ApiError:
            return False
        return True

    until(listed, "the kind is listed", timeout_s=90)
    with pytest.raises(ApiError, match="may not patch geese/scale of g"):
        editor.create(policies(), policy(target=goose), dryRun="All")


def test_the_controller_may_write_policies_for_knative(installed: Lab, tenants: tuple[Kube, Kube]) -> None:
    """Its own right on every scale is the one that is asked for."""
    assert tenants
    user = f"system:serviceaccount:{NAMESPACE}:surgekit-kneescale"
    attributes = {
        "verb": "patch", "group": "apps", "resource": "deployments", "subresource": "scale",
        "namespace": TENANT, "name": "web",
    }  # fmt: skip
    review = {"spec": {"user": user, "resourceAttributes": attributes}}
    said = installed.kube.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert said["status"]["allowed"]
