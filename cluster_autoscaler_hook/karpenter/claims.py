"""Writes and reads our NodeClaims as API objects.

Every node has one owner for each task:
- Our claims name no NodePool. So Karpenter launches, registers, expires and terminates them, but never
  consolidates them: its disruption looks only at nodes with the label karpenter.sh/nodepool.
- Our claims have the label and taint surgekit.dev/pool. So only pods that opted in run there.
- We delete a claim when its node is empty. Karpenter then drains it by its own rules, PDBs included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cluster_autoscaler_hook.karpenter.labels import (
    CAPACITY_TYPE,
    CLAIM_LABEL,
    INSTANCE_TYPE,
    MANAGED_BY,
    PLAN_LABEL,
    PLANNED_ANNOTATION,
    POOL_LABEL,
    ZONE,
)
from cluster_autoscaler_hook.karpenter.model import Claim, Kind, PlannedNode
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.kube.api_path import Resource
from surgekit.kube.checked import checked
from surgekit.kube.quantity import QuantityError, parse

__all__ = ["NODE_CLAIMS", "PATH", "claim_object", "read_claim"]

NODE_CLAIMS = Resource("karpenter.sh/v1", "nodeclaims")
PATH = NODE_CLAIMS.path()
Json = dict[str, Any]


def claim_object(node: PlannedNode, kinds: Mapping[str, Kind], plan_id: str, settings: Settings) -> Json:
    held = [(kinds[kind], count) for kind, count in sorted(node.pods.items())]
    requirements = {INSTANCE_TYPE: [node.instance_class], CAPACITY_TYPE: [settings.capacity_type]}
    if zones := [node.zone] if node.zone else list(settings.zones):
        requirements[ZONE] = zones
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": node.claim,
            "labels": {
                POOL_LABEL: settings.pool,
                CLAIM_LABEL: node.claim,
                MANAGED_BY: "surgekit-node-planner",
                PLAN_LABEL: plan_id,
            },
            "annotations": {PLANNED_ANNOTATION: json.dumps(dict(sorted(node.pods.items())))},
        },
        "spec": {
            "nodeClassRef": {
                "group": settings.node_class_group,
                "kind": settings.node_class_kind,
                "name": settings.node_class_name,
            },
            "requirements": [
                {"key": key, "operator": "In", "values": values} for key, values in requirements.items()
            ],
            "resources": {
                "requests": {
                    "cpu": f"{sum(kind.cpu_millicores * count for kind, count in held)}m",
                    "memory": str(sum(kind.memory_bytes * count for kind, count in held)),
                    "pods": str(sum(node.pods.values())),
                }
            },
            "taints": [{"key": POOL_LABEL, "value": settings.pool, "effect": "NoSchedule"}],
            "expireAfter": settings.expire_after,
        },
    }


@checked
def read_claim(obj: Json) -> Claim:
    metadata, status = obj["metadata"], obj.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    launched = conditions.get("Launched") or {}
    is_launched = launched.get("status") == "True"
    return Claim(
        name=metadata["name"],
        instance_class=_required(obj, INSTANCE_TYPE),
        zone=_required(obj, ZONE),
        planned=_planned(metadata),
        created=_unix(metadata.get("creationTimestamp")),
        provider_id=status.get("providerID") or "",
        launched=is_launched,
        failure="" if is_launched else _failure(launched),
        deleting=bool(metadata.get("deletionTimestamp")),
        requested_cpu_millicores=round(_amount(obj, "cpu") * 1000),
        requested_memory_bytes=round(_amount(obj, "memory")),
    )


def _amount(obj: Json, resource: str) -> float:
    try:
        return parse(((obj["spec"].get("resources") or {}).get("requests") or {}).get(resource, 0))
    except QuantityError:
        return 0.0


def _required(obj: Json, key: str) -> str:
    """The one value that the claim requires for a label; empty if it allows several."""
    for requirement in obj["spec"].get("requirements") or ():
        if requirement["key"] == key and len(requirement.get("values") or ()) == 1:
            return str(requirement["values"][0])
    return ""


def _planned(metadata: Json) -> dict[str, int]:
    """Empty if somebody edited the annotation and it cannot be read; the node's room is known anyway."""
    try:
        found = json.loads((metadata.get("annotations") or {}).get(PLANNED_ANNOTATION) or "{}")
        return {str(kind): int(count) for kind, count in found.items() if int(count) > 0}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def _failure(launched: Json) -> str:
    """AwaitingReconciliation means that Karpenter has not looked at the claim yet, not that it failed."""
    reason = launched.get("reason") or ""
    if not launched or reason in ("AwaitingReconciliation", ""):
        return ""
    return f"{reason}: {launched.get('message') or ''}"


def _unix(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0
