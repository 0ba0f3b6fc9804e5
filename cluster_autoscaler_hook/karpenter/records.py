"""Reads pods and nodes from API objects into the records that the hook keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from cluster_autoscaler_hook.karpenter.labels import (
    DO_NOT_DISRUPT,
    GATE,
    INSTANCE_TYPE,
    OPT_IN_LABEL,
    POOL_LABEL,
    REGISTERED,
)
from cluster_autoscaler_hook.karpenter.model import ClusterNode, Kind, PendingPod, SizeOffer
from cluster_autoscaler_hook.karpenter.pods import (
    Unmodelled,
    gates,
    is_daemon,
    is_finished,
    is_unschedulable,
    kind_of,
    tolerates,
)
from cluster_autoscaler_hook.karpenter.size_offers import read_offer
from surgekit.kube.checked import checked
from surgekit.kube.pods import PodError, requests
from surgekit.kube.quantity import QuantityError, parse

__all__ = ["PodRecord", "pending", "read_node", "read_pod", "with_pods"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod that takes room on a node, or has no node yet."""

    uid: str
    namespace: str
    name: str
    node: str
    cpu_millicores: int
    memory_bytes: int
    daemon: bool
    kind: Kind | None
    unmodelled: str = ""  # why there is no kind
    opt_in: str | None = None  # the value of its own label; None: its namespace decides
    gates: tuple[str, ...] = ()
    unschedulable: bool = False
    nominated: str = ""
    deleting: bool = False
    offer: SizeOffer | None = None

    @property
    def place(self) -> str:
        """The node where it takes room: its own, or the one it was released to and is not bound to yet."""
        return self.node or ("" if self.gates or self.unschedulable else self.nominated)


@checked
def read_pod(obj: Json, pool: str) -> PodRecord | None:
    """None if the pod takes no room and needs none, or waits for nodes of another pool."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    node = spec.get("nodeName") or ""
    pod_gates, tolerates_us = gates(obj), tolerates(obj, pool)
    if is_finished(obj) or (not node and not tolerates_us and _tolerates_another_pool(spec)):
        return None
    kind, unmodelled = None, ""
    if tolerates_us or not node:  # else it runs on a node that is not ours
        try:
            kind = kind_of(obj)
            if GATE in pod_gates and not tolerates_us:
                kind, unmodelled = None, f"no toleration for the taint {POOL_LABEL}={pool}"
        except Unmodelled as error:
            unmodelled = str(error)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            unmodelled = f"it cannot be read: {type(error).__name__}"
    try:
        cpu, memory = requests(obj)
    except PodError:
        cpu = memory = 0.0
    return PodRecord(
        metadata["uid"],
        metadata["namespace"],
        metadata["name"],
        node,
        round(cpu),
        round(memory),
        is_daemon(obj),
        kind,
        unmodelled,
        (metadata.get("labels") or {}).get(OPT_IN_LABEL),
        pod_gates,
        is_unschedulable(obj),
        status.get("nominatedNodeName") or "",
        bool(metadata.get("deletionTimestamp")),
        None if node else read_offer(obj),
    )


def _tolerates_another_pool(spec: Json) -> bool:
    return any(t.get("key") == POOL_LABEL and t.get("value") for t in spec.get("tolerations") or ())


def pending(pods: list[PodRecord], namespaces: dict[str, str]) -> tuple[PendingPod, ...]:
    """The pods without a node. `namespaces`: the value of each namespace's opt-in label."""
    return tuple(
        PendingPod(
            p.uid,
            p.namespace,
            p.name,
            p.kind,
            p.unmodelled,
            namespaces.get(p.namespace, "") if p.opt_in is None else p.opt_in,
            p.gates,
            p.unschedulable,
            p.nominated,
            p.offer,
        )
        for p in pods
        if not (p.node or p.deleting or p.daemon)
    )


@checked
def read_node(obj: Json) -> ClusterNode:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels = metadata.get("labels") or {}
    amounts = status.get("allocatable") or {}
    kept_off = any(
        t.get("key") != POOL_LABEL and t.get("effect") in ("NoSchedule", "NoExecute")
        for t in spec.get("taints") or ()
    )
    return ClusterNode(
        name=metadata["name"],
        provider_id=spec.get("providerID") or "",
        instance_class=labels.get(INSTANCE_TYPE, ""),
        labels=labels,
        cpu_millicores=int(_amount(amounts, "cpu") * 1000 + 1e-6),
        memory_bytes=int(_amount(amounts, "memory")),
        pods=int(_amount(amounts, "pods")),
        ready=labels.get(REGISTERED) == "true" and not kept_off,
        do_not_disrupt=(metadata.get("annotations") or {}).get(DO_NOT_DISRUPT) == "true",
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def _amount(amounts: Json, name: str) -> float:
    try:
        return parse(amounts.get(name, 0))
    except QuantityError:
        return 0.0


def with_pods(nodes: dict[str, ClusterNode], pods: list[PodRecord]) -> dict[str, ClusterNode]:
    """Our nodes by name, each with the pods that take room on it."""
    by_name = {node.name: node for node in nodes.values()}
    bound: dict[str, list[PodRecord]] = {name: [] for name in by_name}
    for pod in pods:
        if pod.place in bound:
            bound[pod.place].append(pod)
    return {
        name: replace(
            node,
            used_cpu_millicores=sum(p.cpu_millicores for p in bound[name]),
            used_memory_bytes=sum(p.memory_bytes for p in bound[name]),
            used_pods=len(bound[name]),
            workload_pods=sum(not p.daemon for p in bound[name]),
            bound=dict(Counter(p.kind.id for p in bound[name] if p.kind)),
            exclusive=frozenset(token for p in bound[name] if p.kind for token in p.kind.exclusive),
        )
        for name, node in by_name.items()
    }
