"""surgekit's Karpenter hook as a process of a lab, under its own service account."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kwok.karpenter.process import NODE_CLASS
from kwok.lab import Lab
from kwok.parts import MANIFESTS, NAMESPACE, apply_manifests

__all__ = ["HOOK", "install_hook", "start_hook"]

HOOK = "nodes"


def install_hook(lab: Lab) -> None:
    """CRD, RBAC and policies, as the manifests have them; the namespace comes with the base."""
    apply_manifests(lab, MANIFESTS / "karpenter", MANIFESTS / "karpenter" / "opt-in")


def start_hook(
    lab: Lab, table: Path, settings: Mapping[str, Any] | None = None, name: str = HOOK, ready: bool = True
) -> int:
    """Start it; the port it serves health and metrics on."""
    port = lab.free_port()
    file = lab.directory / f"{name}.settings.yaml"
    defaults = {"bind": f"127.0.0.1:{port}", "catalogue": str(table), "node_class_name": NODE_CLASS}
    file.write_text(yaml.safe_dump(defaults | dict(settings or {})))

    def answers() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    lab.start(
        name,
        [
            sys.executable, "-m", "surgekit", "serve", "nodes",
            "--settings", file,
            "--kubeconfig", lab.account_kubeconfig(NAMESPACE, "surgekit-nodes"),
        ],
        ready=answers if ready else None,
        port=port,
    )  # fmt: skip
    return port
