"""Run Cluster Autoscaler with its KWOK provider, and our expander, as processes of a lab.

Cluster Autoscaler is no module of the Go proxy, so the lab does not build it but takes it from
`SURGEKIT_BIN_DIR`. Its KWOK provider reads two ConfigMaps when it starts: how nodes form groups, and a
template node for each group (cluster-autoscaler/cloudprovider/kwok). A rented node is a copy of its group's
template. All copies have the template's `kubernetes.io/hostname`, so anti-affinity by host name does not
work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import yaml

from kwok.errors import BinariesError
from kwok.lab import Lab
from kwok.nodes import NodeShape, node_body
from kwok.ports import answers_ready
from kwok.processes import Process
from surgekit.kube.client import ApiError
from surgekit.tls import ensure

__all__ = [
    "CLUSTER_AUTOSCALER",
    "EXPANDER",
    "Expander",
    "NodeGroup",
    "binary",
    "start",
    "start_expander",
    "template",
]

CLUSTER_AUTOSCALER, EXPANDER = "cluster-autoscaler", "expander"
PRICE_LABEL, CLASS_LABEL = "surgekit.dev/price-per-hour", "node.kubernetes.io/instance-type"
_NAMESPACE = "kube-system"
_CONFIG, _TEMPLATES = "kwok-provider-config", "kwok-provider-templates"
# The provider's annotations (kwok_constants.go).
_GROUP, _MAX_COUNT = "cluster-autoscaler.kwok.nodegroup/name", "cluster-autoscaler.kwok.nodegroup/max-count"


@dataclass(frozen=True)
class NodeGroup:
    """A group's capacity and allocatable as Kubernetes writes them, its price an hour, and at most
    `max_nodes`."""

    name: str
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    price_per_hour: float
    max_nodes: int = 200


@dataclass(frozen=True)
class Expander:
    port: int
    certificates: Path
    log: Path

    def decisions(self) -> list[dict[str, Any]]:
        """The decisions of the expander so far, oldest first."""
        lines = (line for line in self.log.read_bytes().splitlines() if b'"best options"' in line)
        return [orjson.loads(line) for line in lines]


def binary(environ: Mapping[str, str] = os.environ) -> Path:
    """The path of cluster-autoscaler. Raises BinariesError if there is none."""
    directory = environ.get("SURGEKIT_BIN_DIR")
    path = Path(directory or ".").resolve() / CLUSTER_AUTOSCALER
    if not directory or not os.access(path, os.X_OK):
        raise BinariesError("SURGEKIT_BIN_DIR holds no cluster-autoscaler built with the kwok provider")
    return path


def start_expander(lab: Lab) -> Expander:
    """Start `surgekit serve expander` with the prices on the nodes."""
    certificates = lab.directory / "certs" / EXPANDER
    ensure(certificates, ["localhost"], [], datetime.now(UTC))
    port, http_port = lab.free_port(), lab.free_port()
    file = lab.directory / f"{EXPANDER}.settings.yaml"
    settings = {
        "mode": "enforce",
        "price_labels": [PRICE_LABEL],
        "bind": f"127.0.0.1:{port}",
        "health_bind": f"127.0.0.1:{http_port}",
        "explain_bind": "127.0.0.1:0",
        "tls_directory": str(certificates),
    }
    file.write_text(yaml.safe_dump(settings))
    argv: list[str | Path] = [sys.executable, "-m", "surgekit", "serve", "expander", "--settings", file]
    process = lab.start(EXPANDER, argv, ready=lambda: answers_ready(http_port), port=http_port)
    return Expander(port, certificates, process.log)


def start(lab: Lab, groups: Sequence[NodeGroup], expander: str, asked: Expander | None = None) -> Process:
    """Start Cluster Autoscaler with these groups and `--expander`; `grpc` needs a running expander."""
    _write(lab, _CONFIG, {"config": yaml.safe_dump(_provider_config())})
    templates = {"apiVersion": "v1", "kind": "List", "items": [template(group) for group in groups]}
    _write(lab, _TEMPLATES, {"templates": yaml.safe_dump(templates)})
    port = lab.free_port()
    argv: list[str | Path] = [
        binary(lab.binaries.environ),
        f"--kubeconfig={lab.kubeconfig}",
        "--cloud-provider=kwok",
        f"--namespace={_NAMESPACE}",
        "--leader-elect=false",
        f"--expander={expander}",
        "--scan-interval=2s",
        "--scale-down-enabled=false",  # costs are compared when all pods run
        f"--address=127.0.0.1:{port}",
        "--v=4",  # below this level it does not log an unreachable expander
    ]
    if asked is not None:
        argv += [
            f"--grpc-expander-url=localhost:{asked.port}",
            f"--grpc-expander-cert={asked.certificates / 'ca.crt'}",
        ]
    env = {"KUBECONFIG": str(lab.kubeconfig), "KWOK_PROVIDER_MODE": "local", "POD_NAMESPACE": _NAMESPACE}
    return lab.start(
        CLUSTER_AUTOSCALER, argv, env=env, ready=lambda: answers_ready(port, "/health-check"), port=port
    )


def _provider_config() -> dict[str, Any]:
    return {
        "apiVersion": "v1alpha1",
        "readNodesFrom": "configmap",
        "nodegroups": {"fromNodeLabelKey": CLASS_LABEL},
        "nodes": {"skipTaint": True},
        "configmap": {"name": _TEMPLATES},
    }


def template(group: NodeGroup) -> dict[str, Any]:
    """The node that the provider copies."""
    labels = {CLASS_LABEL: group.name, PRICE_LABEL: f"{group.price_per_hour:g}"}
    body = node_body(group.name, 0, NodeShape(group.capacity, group.allocatable, labels))
    body["metadata"]["annotations"] |= {_GROUP: group.name, _MAX_COUNT: str(group.max_nodes)}
    body["spec"] = {}  # copies must not share a podCIDR
    return body


def _write(lab: Lab, name: str, data: Mapping[str, str]) -> None:
    path = f"/api/v1/namespaces/{_NAMESPACE}/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(data)}
    try:
        lab.kube.create(path, body)
    except ApiError as error:
        if error.code != 409:
            raise
        lab.kube.patch(f"{path}/{name}", {"data": dict(data)})
