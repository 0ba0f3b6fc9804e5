"""Emulated nodes, many at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from surgekit.kube import ApiError, Kube

__all__ = ["NodesNotReady", "add_nodes"]

_PARALLEL = 16  # as many as surgekit.kube keeps connections


class NodesNotReady(Exception):
    """Some nodes did not become Ready; the message names one."""


def add_nodes(kube: Kube, count: int, capacity: dict[str, str], prefix: str, timeout_s: float) -> list[str]:
    """Create nodes `<prefix>-<i>`, numbered on from those there, and wait until pods may go there."""
    known, _ = kube.list("/api/v1/nodes")
    taken = {node["metadata"]["name"] for node in known}
    names: list[str] = []
    number = 0
    while len(names) < count:
        if (name := f"{prefix}-{number}") not in taken:
            names.append(name)
        number += 1
    bodies = [_node(name, len(known) + i, capacity) for i, name in enumerate(names)]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        list(pool.map(lambda body: kube.create("/api/v1/nodes", body), bodies))
    _await_ready(kube, set(names), timeout_s)
    return names


def _node(name: str, index: int, capacity: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
            },
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
        },
        # KWOK takes pod addresses from here; without it all nodes share one range.
        "spec": {"podCIDR": (cidr := f"10.{index // 256}.{index % 256}.0/24"), "podCIDRs": [cidr]},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [
                {"type": "InternalIP", "address": f"172.20.{index // 256}.{index % 256}"},
                {"type": "Hostname", "address": name},
            ],
        },
    }


def _await_ready(kube: Kube, missing: set[str], timeout_s: float) -> None:
    """Ready alone does not do: the not-ready taint goes a moment later and pods would pile up elsewhere."""
    deadline_s = time.monotonic() + timeout_s
    while missing:
        try:
            nodes, _ = kube.list("/api/v1/nodes")
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


def _usable(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not any(
        t["key"].startswith("node.kubernetes.io/") for t in node["spec"].get("taints", [])
    )
