"""Run Karpenter as a process of a lab: its CRDs, a node class, and a NodePool if needed."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from kwok.karpenter.instance_types import CAPACITY_TYPE, instance_types
from kwok.lab import Lab
from kwok.ports import answers_ready
from kwok.processes import Process

__all__ = [
    "CRDS",
    "KARPENTER",
    "NODE_CLASS",
    "NODE_CLASS_GROUP",
    "NODE_CLASS_KIND",
    "add_node_pool",
    "install",
    "start",
]

KARPENTER = "karpenter"
NODE_CLASS_GROUP, NODE_CLASS_KIND, NODE_CLASS = "karpenter.kwok.sh", "KWOKNodeClass", "default"
CRDS = Path(__file__).parent / "crds"
_NODE_CLASS_REF = {"group": NODE_CLASS_GROUP, "kind": NODE_CLASS_KIND, "name": NODE_CLASS}


def install(lab: Lab, registration_delay_s: int = 0) -> None:
    """Apply the CRDs and a node class whose machines take `registration_delay_s` to register."""
    lab.apply(CRDS)
    body = {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": NODE_CLASS},
        "spec": {"nodeRegistrationDelay": f"{registration_delay_s}s"},
    }
    lab.kube.create("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", body)


def start(
    lab: Lab, table: Path, without: Collection[str] = (), more: Collection[dict[str, Any]] = ()
) -> Process:
    """Start Karpenter with its own defaults and the instance types of `table` and `more`; wait until it can
    provision."""
    file = lab.directory / "instance-types.json"
    file.write_text(json.dumps([*instance_types(table, without), *more]))
    health, metrics = lab.free_port(), lab.free_port()
    return lab.start(
        KARPENTER,
        [lab.binaries.path(KARPENTER), f"--instance-types-file-path={file}"],
        env={
            "KUBECONFIG": str(lab.kubeconfig),
            "DISABLE_LEADER_ELECTION": "true",
            "SYSTEM_NAMESPACE": "kube-system",
            "METRICS_PORT": str(metrics),
            "HEALTH_PROBE_PORT": str(health),
        },
        ready=lambda: answers_ready(health),
        timeout_s=60.0,
        port=metrics,
    )


def add_node_pool(
    lab: Lab, name: str = "default", consolidate_after: str = "0s", capacity_type: str = CAPACITY_TYPE
) -> None:
    """Add a NodePool that may use every class of a capacity type and consolidates without delay, the
    default."""
    requirement: dict[str, Any] = {
        "key": "karpenter.sh/capacity-type",
        "operator": "In",
        "values": [capacity_type],
    }
    body = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": _NODE_CLASS_REF, "requirements": [requirement]}},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": consolidate_after,
                # The default budget of 10 % rounds down to 0 with few nodes.
                "budgets": [{"nodes": "100%"}],
            },
        },
    }
    lab.kube.create("/apis/karpenter.sh/v1/nodepools", body)
