"""Make the rows that are shown out of what is known of an object. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cluster_view.facts import FunctionFacts, NodeFacts, PodFacts, SpeedFacts
from cluster_view.model import Function, FunctionDecision, Node, Pod, Size
from cluster_view.text import iso

__all__ = ["Price", "function_row", "node_row", "pod_row", "price_of_pod"]

_MOST_SIZES = 64
_MOST_WHY = 8


@dataclass(frozen=True, slots=True)
class Price:
    usd_per_hour: float
    source: str


def node_row(
    node: NodeFacts,
    pods: Sequence[PodFacts],
    speed: SpeedFacts | None,
    median_s: float | None,
    price: Price | None,
    rented_for: str,
    at_s: float,
) -> Node:
    why = [f"rented by {node.rented_by}"] if node.rented_by else []
    why += [rented_for] if rented_for else []
    why += [f"${price.usd_per_hour:.4f} an hour, by {price.source}"] if price else []
    measured_s = speed.measured_s if speed else None
    return {
        "name": node.name,
        "ready": node.ready,
        "schedulable": node.schedulable,
        "instance_type": node.instance_type,
        "zone": node.zone,
        "usd_per_hour": price.usd_per_hour if price else None,
        "creation_s": round(speed.creation_s, 4) if speed else None,
        "relative_speed": round(median_s / speed.creation_s, 2) if speed and median_s else None,
        "speed_age_s": None if measured_s is None else round(max(at_s - measured_s, 0.0), 1),
        "cpu": {"allocatable": node.cpu, "requested": round(sum(pod.cpu for pod in pods), 6)},
        "memory": {"allocatable": node.memory, "requested": sum(pod.memory for pod in pods)},
        "pods": len(pods),
        "creating": sum(pod.phase == "Creating" for pod in pods),
        "rented_by": node.rented_by,
        "why": why,
    }


def pod_row(pod: PodFacts, function: str | None, ready_after_s: float | None, said: Iterable[str]) -> Pod:
    return {
        "key": pod.key,
        "node": pod.node or None,
        "phase": pod.phase,
        "cpu": round(pod.cpu, 6),
        "memory": pod.memory,
        "function": function,
        "created_at": iso(pod.created_s),
        "ready_after_s": None if ready_after_s is None else round(ready_after_s, 3),
        "why": list(dict.fromkeys((*pod.why, *said)))[:_MOST_WHY],
    }


def function_row(
    function: FunctionFacts, pods: Iterable[PodFacts], decisions: list[FunctionDecision]
) -> Function:
    sizes = Counter((pod.cpu, pod.memory) for pod in pods if pod.phase not in ("Terminating", "Failed"))
    shown: list[Size] = [
        {"cpu": round(cpu, 6), "memory": memory, "count": count}
        for (cpu, memory), count in sorted(sizes.items())[:_MOST_SIZES]
    ]
    return {
        "key": function.key,
        "kind": function.kind,
        "namespace": function.namespace,
        "name": function.name,
        "mode": function.mode,
        "replicas": function.replicas,
        "sizes": shown,
        "knee": function.knee,
        "limits": function.limits,
        "tracks": function.tracks,
        "conditions": list(function.conditions),
        "curve": None if function.curve is None else list(function.curve),
        "decisions": decisions,
    }


def price_of_pod(pod: PodFacts, node: NodeFacts, price: Price) -> float:
    """Its share of the node: of CPU or of memory, whichever it takes more of."""
    cpu = pod.cpu / node.cpu if node.cpu else 0.0
    memory = pod.memory / node.memory if node.memory else 0.0
    return price.usd_per_hour * min(max(cpu, memory), 1.0)
