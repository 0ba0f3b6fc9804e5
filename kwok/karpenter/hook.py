"""surgekit's Karpenter hook as a process of a lab, under its own service account."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kwok.karpenter.process import NODE_CLASS, NODE_CLASS_GROUP, NODE_CLASS_KIND
from kwok.lab import Lab
from kwok.parts import MANIFESTS, NAMESPACE, apply_manifests
from kwok.pods import pod
from kwok.ports import answers_ready

__all__ = ["HOOK", "install_hook", "start_hook", "wait_until_gating"]

HOOK = "node-planner"


def install_hook(lab: Lab) -> None:
    """CRD, RBAC and policies, as the manifests have them; the namespace comes with the base."""
    apply_manifests(lab, MANIFESTS / "karpenter", MANIFESTS / "karpenter" / "opt-in")


def start_hook(
    lab: Lab, table: Path, settings: Mapping[str, Any] | None = None, name: str = HOOK, ready: bool = True
) -> int:
    """Start it; the port it serves health and metrics on."""
    port = lab.free_port()
    file = lab.directory / f"{name}.settings.yaml"
    defaults = {
        "mode": "enforce",
        "health_bind": f"127.0.0.1:{port}",
        "catalogue": str(table),
        "node_class_group": NODE_CLASS_GROUP,
        "node_class_kind": NODE_CLASS_KIND,
        "node_class_name": NODE_CLASS,
    }
    file.write_text(yaml.safe_dump(defaults | dict(settings or {})))

    lab.start(
        name,
        [
            sys.executable, "-m", "surgekit", "serve", "node-planner",
            "--settings", file,
            "--kubeconfig", lab.account_kubeconfig(NAMESPACE, "surgekit-node-planner"),
        ],
        ready=(lambda: answers_ready(port)) if ready else None,
        port=port,
    )  # fmt: skip
    return port


def wait_until_gating(lab: Lab) -> None:
    """The hook says in its NodePlan that it plans, and the opt-in policy has read that."""

    def gated() -> bool:
        asking = pod("asking", "1m", "1Mi", labels={"surgekit.dev/nodes": "enforce"})
        made = lab.kube.create("/api/v1/namespaces/default/pods", asking, dryRun="All")
        return "schedulingGates" in made["spec"]

    lab.wait_for(gated, "the opt-in policy to gate pods", 90)
