"""What the tests of the manifests share: names, and ways to ask the cluster they are installed on."""

from __future__ import annotations

from typing import Any

from kwok.lab import Lab
from kwok.waiting import wait_for
from tests.paths import ROOT

MANIFESTS = ROOT / "manifests"
NAMESPACE = "surgekit-system"
PLACEMENT = "surgekit.dev/placement"  # label
SCORED = "surgekit.dev/scored"  # resource
SERVICE = f"surgekit-extender.{NAMESPACE}.svc"


until = wait_for


def pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "example/app"}]
    metadata = {"name": name, "labels": labels or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers} | spec,
    }


def create(lab: Lab, namespace: str, body: dict[str, Any], dry: bool = False) -> dict[str, Any]:
    return lab.kube.create(f"/api/v1/namespaces/{namespace}/pods", body, **({"dryRun": "All"} if dry else {}))


def marks(created: dict[str, Any]) -> list[str]:
    """The containers that carry the zero resource, in requests and limits alike."""
    found = []
    for container in created["spec"]["containers"]:
        resources = container["resources"]
        requested = resources.get("requests", {}).get(SCORED)
        assert requested == resources.get("limits", {}).get(SCORED)
        if requested is not None:
            found.append(container["name"])
    return found


def placed(lab: Lab, namespace: str, name: str) -> bool:
    return "nodeName" in lab.kube.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["spec"]


def wait_for_opt_in(lab: Lab) -> None:
    """A policy takes moments to come into force. For the namespaces of conftest.py."""
    until(lambda: marks(create(lab, "on", pod("any"), dry=True)) == ["c"], "the policy is in force")
    until(
        lambda: marks(create(lab, "silent", pod("any", {PLACEMENT: "shadow"}), dry=True)) == ["c"],
        "the policy is in force for pods",
    )
