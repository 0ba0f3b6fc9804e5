"""Create emulated nodes, many at once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kwok.errors import NodesNotReady
from kwok.network import addresses
from surgekit.kube.client import ApiError, Kube

__all__ = ["REAL_NODE", "NodeShape", "add_nodes", "is_ready", "kubelet_addresses", "node_body"]

# Label and taint of nodes with a real kubelet (`kwok.real_node`). All others are emulated.
REAL_NODE = "lab.surgekit.dev/real-node"
_NODE_INFO = {
    "architecture": "amd64",
    "operatingSystem": "linux",
    "osImage": "surgekit-lab",
    "kernelVersion": "kwok",
    "containerRuntimeVersion": "kwok",
    "kubeletVersion": "kwok",
    "kubeProxyVersion": "",
    "bootID": "",
    "machineID": "",
    "systemUUID": "",
}
_PARALLEL = 16  # as many as surgekit.kube.client keeps connections


@dataclass(frozen=True)
class NodeShape:
    """What the nodes of one call have in common."""

    capacity: Mapping[str, str]
    allocatable: Mapping[str, str] = field(default_factory=dict)  # only what is below the capacity
    labels: Mapping[str, str] = field(default_factory=dict)
    kubelet_port: int | None = None  # each node's kubelet listens there, on a loopback address of its own


class NodeNames:
    """Consumes a node watch: keeps `names` up to date."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def replace(self, objects: list[dict[str, Any]], _arrival_s: float) -> None:
        self._names.clear()
        self._names.update(node["metadata"]["name"] for node in objects)

    def apply(self, kind: str, obj: dict[str, Any], _arrival_s: float) -> None:
        change = self._names.discard if kind == "DELETED" else self._names.add
        change(obj["metadata"]["name"])


def add_nodes(kube: Kube, count: int, shape: NodeShape, prefix: str, timeout_s: float) -> list[str]:
    """Create nodes `<prefix>-<i>`, skipping names in use, and wait until pods can be scheduled there."""
    known, _ = kube.list_all("/api/v1/nodes")
    taken = {node["metadata"]["name"] for node in known}
    names: list[str] = []
    number = 0
    while len(names) < count:
        if (name := f"{prefix}-{number}") not in taken:
            names.append(name)
        number += 1
    bodies = [node_body(name, len(known) + i, shape) for i, name in enumerate(names)]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        list(pool.map(lambda body: kube.create("/api/v1/nodes", body), bodies))
    _await_ready(kube, set(names), timeout_s)
    return names


def kubelet_addresses(kube: Kube) -> dict[str, str]:
    """Node names by the address of their kubelet; nodes without a kubelet port are left out."""
    found: dict[str, str] = {}
    for node in kube.list_all("/api/v1/nodes")[0]:
        if node["status"].get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port"):
            addresses = {a["type"]: a["address"] for a in node["status"]["addresses"]}
            found[addresses["InternalIP"]] = node["metadata"]["name"]
    return found


def node_body(name: str, index: int, shape: NodeShape) -> dict[str, Any]:
    """A Node object as a healthy kubelet registers it; `index` picks its addresses.

    It is Ready and has all labels that controllers would add. Each write saved here is 5,000 writes on a
    large lab, and a node once seen unready may stay tainted until the controller manager's next sync,
    25 s later.
    """
    endpoints = {} if shape.kubelet_port is None else {"kubeletEndpoint": {"Port": shape.kubelet_port}}
    address = (addresses.emulated_node if shape.kubelet_port is None else addresses.emulated_kubelet)(index)
    cidr = str(addresses.emulated_pods(index))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "amd64",
                **shape.labels,
            },
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": {
            "capacity": dict(shape.capacity),
            "allocatable": {**shape.capacity, **shape.allocatable},
            "conditions": _conditions(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")),
            "addresses": [
                {"type": "InternalIP", "address": str(address)},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": endpoints,
            "nodeInfo": _NODE_INFO,
        },
    }


def _conditions(now: str) -> list[dict[str, str]]:
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, status, reason in (
            ("Ready", "True", "KubeletReady"),
            ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID"),
        )
    ]


def _await_ready(kube: Kube, missing: set[str], timeout_s: float) -> None:
    """Wait until all are Ready and untainted; otherwise the first pods would pile up on the first nodes."""
    deadline_s = time.monotonic() + timeout_s
    while missing:
        try:
            nodes, _ = kube.list_all("/api/v1/nodes")
            missing -= {node["metadata"]["name"] for node in nodes if _usable(node)}
        except ApiError as error:
            if error.code < 500:
                raise
        if missing and time.monotonic() > deadline_s:
            raise NodesNotReady(
                f"{len(missing)} nodes not Ready after {timeout_s:g} s, {min(missing)} among them"
            )
        if missing:
            time.sleep(min(0.2 + len(missing) / 2000, 1.0))


def is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _usable(node: dict[str, Any]) -> bool:
    return is_ready(node) and not any(
        t["key"].startswith("node.kubernetes.io/") for t in node["spec"].get("taints", [])
    )
