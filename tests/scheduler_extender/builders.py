"""Pods, nodes and requests as the API server and kube-scheduler write them."""

from __future__ import annotations

import time
from typing import Any

import orjson

from cluster_model.cluster_state import ClusterState, PodFacts
from cluster_model.contention import MEASURED, Contention
from cluster_model.model import PodToPlace
from cluster_model.node_table import NodeFacts, NodeTable
from scheduler_extender.extender import Extender
from scheduler_extender.settings import Settings

GIB = float(1 << 30)


def nodes(count: int, cpu: float = 8000, memory: float = 16 * GIB) -> list[NodeFacts]:
    return [NodeFacts(f"node-{i:03d}", cpu, memory, frozenset()) for i in range(count)]


def state(
    count: int = 4,
    assumed_pod_ttl_s: float = 15.0,
    creation_limit_s: float = 120.0,
    seed: str = "a",
    contention: Contention = MEASURED,
) -> ClusterState:
    table = NodeTable(default_tau_create_s=1.0, default_image_pull_s=2.0, seed=seed, contention=contention)
    for node in nodes(count):
        table.put_node(node)
    return ClusterState(table, assumed_pod_ttl_s, creation_limit_s)


def to_place(
    uid: str = "u", cpu: float = 250, memory: float = GIB / 2, images: tuple[str, ...] = ()
) -> PodToPlace:
    return PodToPlace(uid, "default", uid, cpu, memory, 1, images)


def bound(uid: str, node: str, creating: bool = True, cpu: float = 250, memory: float = GIB / 2) -> PodFacts:
    return PodFacts(uid, node, cpu, memory, creating)


def pod(
    uid: str = "uid-1", name: str = "web-1", cpu: str = "250m", memory: str = "512Mi", **rest: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": uid,
            "labels": {"surgekit.dev/placement": "enforce"} | rest.pop("labels", {}),
            "annotations": rest.pop("annotations", {}),
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "name": "app",
                    "image": "shop/web:1",
                    "resources": {"requests": {"cpu": cpu, "memory": memory}},
                }
            ],
        }
        | rest,
        "status": {"phase": "Pending"},
    }


def request(pod_object: dict[str, Any], names: list[str]) -> bytes:
    return orjson.dumps({"Pod": pod_object, "Nodes": None, "NodeNames": names})


class Unplugged:
    """Stands where a Kube would; nothing in these tests may reach an API server."""


def extender(count: int = 4, **settings: Any) -> Extender:
    """An extender whose watches have been heard of just now."""
    made = Extender(Settings(**settings), Unplugged())  # type: ignore[arg-type]
    for watch in made.sources._watches.values():
        watch._last_contact_s = time.monotonic()
    for node in nodes(count):
        made.state.nodes.put_node(node)
    return made
