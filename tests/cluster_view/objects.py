"""Objects as the API server sends them, and what the extender answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]
# Where the tests' clock begins.
START_S = datetime(2026, 11, 19, 21, 0, tzinfo=UTC).timestamp()


def stamp(at_s: float) -> str:
    """As the API server writes it, in whole seconds."""
    return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str, labels: Json | None = None, ready: bool = True, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"uid": f"uid-{name}", "name": name, "labels": labels or {}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def pod(
    name: str,
    node: str = "",
    *,
    namespace: str = "shop",
    ready_s: float | None = None,
    created_s: float = START_S,
    cpu: str = "500m",
    labels: Json | None = None,
    owner: tuple[str, str] | None = None,
    deleting: bool = False,
    **status: Any,
) -> Json:
    metadata: Json = {
        "uid": f"uid-{name}",
        "namespace": namespace,
        "name": name,
        "creationTimestamp": stamp(created_s),
        "labels": labels or {},
    }
    if owner:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    if deleting:
        metadata["deletionTimestamp"] = stamp(created_s)
    conditions: list[Json] = []
    if ready_s is not None:
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(ready_s)}]
        status.setdefault("containerStatuses", [{"name": "c", "state": {"running": {}}}])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
        },
        "status": {"conditions": conditions, **status},
    }


def custom(kind: str, name: str, spec: Json, status: Json, namespace: str = "shop") -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": kind,
        "metadata": {"uid": f"uid-{kind}-{name}", "namespace": namespace, "name": name},
        "spec": spec,
        "status": status,
    }


def knee_policy(
    name: str = "web", replicas: int = 4, wanted: int = 6, at_s: float = START_S, mode: str = "shadow"
) -> Json:
    return custom(
        "KneePolicy",
        name,
        {"mode": mode, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
        {
            "replicas": replicas,
            "targetReplicas": wanted,
            "lastSample": {"readyReplicas": replicas},
            "knownKnees": [
                {"replicas": 6, "inferred": False, "throughputPerSecond": 10.0},
                {"replicas": 9, "inferred": True},
            ],
            "search": {"points": [[2, 0.5, 1.0, 1.0], [6, 0.9, 1.0, 1.0]], "evidence": [[1, 0.3]]},
            "scaling": {"evidence": [[2, 0.4], [8, 0.91]]},
            "lastDecision": {"reason": f"the knee is at {wanted}", "at": stamp(at_s)},
            "conditions": [{"type": "Deciding", "status": "True", "reason": "AtKnee", "message": "m"}],
        },
    )


def speed(node: str, tau: float, source: str = "measured", at_s: float = START_S) -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "NodeSpeed",
        "metadata": {"uid": f"uid-speed-{node}", "name": node},
        "status": {
            "tauCreateSeconds": tau, "source": source, "samples": 12, "lastSampleTime": stamp(at_s),
        },
    }  # fmt: skip


def placement(
    pod: str,
    ranked: dict[str, float],
    *,
    mode: str = "shadow",
    at_s: float = START_S,
    bound_to: str | None = None,
) -> Json:
    """`ranked`: seconds until Ready by node, the best first."""
    return {
        "pod": {
            "uid": f"uid-{pod}", "namespace": "shop", "name": pod, "cpu_millicores": 500.0,
            "memory_bytes": 2.0**30, "containers": 1, "images": [], "concurrency": 1.0,
        },
        "mode": mode, "valid": True, "reasons": ["ranked by cost"], "decided_at": at_s,
        "price_weight": 0.25, "price_swing": 0.5, "nodes_offered": 3, "inputs_age_s": {"pods": 0.1},
        "candidates": [
            {
                "node": node, "score": 10 - rank, "cost": seconds + 1.0, "scaling_s": seconds,
                "resource_price": 4.0, "tau_create_s": seconds, "creating": 1, "image_pull_s": 0.0,
                "cpu_price": 1.0, "memory_price": 1.0,
            }
            for rank, (node, seconds) in enumerate(ranked.items())
        ],
        "bound_to": bound_to,
    }  # fmt: skip
