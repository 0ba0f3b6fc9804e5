"""Read nodes, pods and NodeSpeeds from API objects. A node or pod that makes no sense raises ValueError."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from cluster_view.facts import NodeFacts, PodFacts, SpeedFacts, Workload
from cluster_view.model import PodPhase
from cluster_view.text import at_s, plain
from surgekit.kube.numbers import decimal
from surgekit.kube.pods import Creation, creation, requests
from surgekit.kube.quantity import parse

__all__ = ["read_node", "read_pod", "read_speed", "text"]

Json = dict[str, Any]
_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_ZONE_LABEL = "topology.kubernetes.io/zone"
_POOL_LABEL, _CLAIM_LABEL = "surgekit.dev/pool", "surgekit.dev/claim"
_GROUP_LABELS = {
    _POOL_LABEL: "surgekit's pool",
    "karpenter.sh/nodepool": "Karpenter's pool",
    "eks.amazonaws.com/nodegroup": "node group",
    "cloud.google.com/gke-nodepool": "node pool",
    "kubernetes.azure.com/agentpool": "agent pool",
}
_COMBO_FUNC_LABEL, _PLANNED_NODE = "surgekit.dev/combofunc", "surgekit.dev/planned-node"
_HASH_LABEL = "pod-template-hash"
_DEAREST = 1e5  # an hour; dearer is a mistake
_MOST_LABELS = 64
_MOST_WHY = 4


def read_node(obj: Json, price_labels: Sequence[str] = ()) -> NodeFacts:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels, annotations = meta.get("labels"), meta.get("annotations")
    allocatable = status.get("allocatable") or {}
    groups = ((who, text(labels, label)) for label, who in _GROUP_LABELS.items())
    written = (text(labels, key) or text(annotations, key) for key in price_labels)
    prices = (decimal(price, 0.0, _DEAREST) for price in written)
    return NodeFacts(
        name=plain(meta["name"]),
        ready=_holds(status, "Ready"),
        schedulable=spec.get("unschedulable") is not True,
        instance_type=next(filter(None, (text(labels, label) for label in _TYPE_LABELS)), None),
        zone=text(labels, _ZONE_LABEL) or None,
        # eks-node-viewer writes 0 where it knows no price.
        price=next(filter(None, prices), None),
        rented_by=next((f"{who} {group}" for who, group in groups if group), None),
        claim=text(labels, _CLAIM_LABEL),
        cpu=parse(allocatable.get("cpu", 0)),
        memory=parse(allocatable.get("memory", 0)),
    )


def read_pod(obj: Json) -> PodFacts | None:
    """None if it has succeeded: it holds nothing."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    if status.get("phase") == "Succeeded":
        return None
    namespace, name = str(meta["namespace"]), str(meta["name"])
    created_s = at_s(meta.get("creationTimestamp"))
    if created_s is None:
        raise ValueError(f"metadata.creationTimestamp: {plain(meta.get('creationTimestamp'), 60)}")
    ended = creation(obj) is Creation.FINISHED
    cpu_millicores, memory = (0.0, 0.0) if ended else requests(obj)
    node = plain(spec.get("nodeName"))
    ready = _condition(status, "Ready")
    is_ready = ready.get("status") == "True"
    return PodFacts(
        key=f"{namespace}/{name}",
        namespace=namespace,
        node=node,
        phase=_phase(obj, node, is_ready),
        cpu=cpu_millicores / 1000.0,
        memory=memory,
        workload=_workload(meta, namespace),
        labels=_labels(meta.get("labels")),
        created_s=created_s,
        ready_s=at_s(ready.get("lastTransitionTime")) if is_ready else None,
        why=_why(obj, node),
    )


def _phase(obj: Json, node: str, is_ready: bool) -> PodPhase:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    stage = creation(obj)
    if stage in (Creation.SET_ASIDE, Creation.FINISHED):
        return "Failed"
    if not node:
        return "Pending"
    return "Ready" if is_ready else "Creating"


def _workload(meta: Json, namespace: str) -> Workload | None:
    """What the pod is a replica of. A ReplicaSet is its Deployment's; the pod's label has the hash."""
    labels = meta.get("labels")
    if function := text(labels, _COMBO_FUNC_LABEL):
        return namespace, "ComboFunc", function
    owners = (o for o in meta.get("ownerReferences") or () if isinstance(o, dict) and o.get("controller"))
    owner = next(owners, None)
    if owner is None:
        return None
    kind, name = str(owner.get("kind")), str(owner.get("name"))
    suffix = f"-{text(labels, _HASH_LABEL)}"
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        return namespace, "Deployment", name.removesuffix(suffix)
    return namespace, kind, name


def _why(obj: Json, node: str) -> tuple[str, ...]:
    """What Kubernetes says about a pod that does not run, and where ComboFunc planned it."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    said = []
    if planned := text(meta.get("annotations"), _PLANNED_NODE):
        said.append(f"ComboFunc's plan put it on {planned}")
    if not node:
        gates = [g.get("name") for g in spec.get("schedulingGates") or () if isinstance(g, dict)]
        if gates:
            said.append(f"waits behind its gate: {', '.join(map(str, gates[:_MOST_WHY]))}")
        elif (scheduled := _condition(status, "PodScheduled")).get("status") == "False":
            said.append(f"not scheduled: {scheduled.get('message') or scheduled.get('reason')}")
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("message"):
            said.append(f"{waiting.get('reason')}: {waiting['message']}")
    return tuple(map(plain, said[:_MOST_WHY]))


def read_speed(obj: Json) -> SpeedFacts | None:
    """None if nothing is known yet."""
    status = obj.get("status") or {}
    tau = status.get("tauCreateSeconds")
    if not isinstance(tau, int | float) or isinstance(tau, bool) or not 0 < tau < 1e5:
        return None
    samples = status.get("samples")
    return SpeedFacts(
        node=str(obj["metadata"]["name"]),
        creation_s=float(tau),
        measured_s=at_s(status.get("lastSampleTime")),
        measured=status.get("source") == "measured",
        samples=samples if isinstance(samples, int) and 0 <= samples < 10**9 else 0,
    )


def _condition(status: Json, type_: str) -> Json:
    found = (c for c in status.get("conditions") or () if isinstance(c, dict) and c.get("type") == type_)
    return next(found, {})


def _holds(status: Json, type_: str) -> bool:
    return bool(_condition(status, type_).get("status") == "True")


def text(mapping: object, key: str) -> str:
    """A label or annotation; empty if there is none, or one that is not text."""
    value = mapping.get(key) if isinstance(mapping, dict) else None
    return plain(value) if isinstance(value, str) else ""


def _labels(mapping: object) -> dict[str, str]:
    if not isinstance(mapping, dict):
        return {}
    return {
        k: v for k, v in islice(mapping.items(), _MOST_LABELS) if isinstance(k, str) and isinstance(v, str)
    }
