"""Read nodes, bound pods and NodeSpeeds from API objects."""

from __future__ import annotations

from typing import Any

from cluster_model.cluster_state import PodFacts
from cluster_model.node_table import NodeFacts, SpeedFacts
from surgekit.kube.checked import checked
from surgekit.kube.pods import Creation, creation, image_name, requests
from surgekit.kube.quantity import parse

__all__ = ["read_node", "read_pod", "read_speed"]

Json = dict[str, Any]


@checked
def read_node(obj: Json) -> NodeFacts:
    status = obj.get("status") or {}
    allocatable = status.get("allocatable") or {}
    images = frozenset(
        image_name(n) for i in status.get("images") or () for n in i.get("names") or () if isinstance(n, str)
    )
    cpu, memory = parse(allocatable.get("cpu", 0)) * 1000.0, parse(allocatable.get("memory", 0))
    return NodeFacts(obj["metadata"]["name"], cpu, memory, images)


@checked
def read_pod(obj: Json) -> PodFacts | None:
    """None if the pod is finished and holds no resources."""
    stage = creation(obj)
    if stage is Creation.FINISHED:
        return None
    cpu, memory = requests(obj)
    return PodFacts(obj["metadata"]["uid"], obj["spec"]["nodeName"], cpu, memory, stage is Creation.CREATING)


@checked
def read_speed(obj: Json) -> SpeedFacts | None:
    """None if nothing was measured yet."""
    status = obj.get("status") or {}
    tau = status.get("tauCreateSeconds")
    if not isinstance(tau, int | float) or not 0 < tau < 1e5:
        return None
    pulls = {
        image_name(p["image"]): float(p["seconds"])
        for p in status.get("imagePulls") or ()
        if isinstance(p.get("seconds"), int | float) and isinstance(p.get("image"), str)
        if 0 <= p["seconds"] < 1e5
    }
    return SpeedFacts(obj["metadata"]["name"], float(tau), pulls)
