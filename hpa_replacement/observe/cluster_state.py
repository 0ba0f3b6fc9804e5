"""Pods and nodes as decisions need them: Ready since when, and how much room is left. Pure; watches feed it.

Times are the Unix times at which a change was seen, since API timestamps have whole seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from cluster_model.node_fit import (
    Taint,
    Toleration,
    matches_labels,
    read_taints,
    read_tolerations,
    tolerates,
)
from surgekit.kube.checked import checked
from surgekit.kube.numbers import integer
from surgekit.kube.pods import PodError, requests
from surgekit.kube.quantity import QuantityError, parse

__all__ = ["ClusterState", "NodeRoom", "PodRead", "Replica", "read_node", "read_pod"]

Json = dict[str, Any]
_CONCURRENCY = "surgekit.dev/concurrency"
_DRAINING_SINCE = "surgekit.dev/draining-since"
_MOST_CONCURRENCY = 10_000  # the CRD's bound
_FINISHED = ("Succeeded", "Failed")
_LONGEST_WINDOW_S = 2 * 3600.0  # the CRD allows sampling intervals of an hour


@dataclass(frozen=True, slots=True)
class Replica:
    """A pod that has not ended."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    node: str
    cpu_millicores: float
    memory_bytes: float
    ready_since_s: float | None  # None: not Ready
    leaving: bool  # being deleted, or (ComboFunc) drained: it gets no new requests
    node_selector: Mapping[str, str]
    tolerations: frozenset[Toleration]
    concurrency: int = 1  # of a ComboFunc's pod: the requests it takes at a time

    @property
    def serves(self) -> bool:
        return self.ready_since_s is not None and not self.leaving

    def may_go_to(self, node: NodeRoom) -> bool:
        """As far as node selector and taints tell; affinities are left to the scheduler."""
        return matches_labels(self.node_selector, node.labels) and tolerates(self.tolerations, node.taints)


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """A node's allocatable resources, labels and taints."""

    name: str
    labels: Mapping[str, str]
    cpu_millicores: float
    memory_bytes: float
    pods: int
    taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True)
class PodRead:
    """A pod as read from its object; ClusterState adds since when it is Ready."""

    pod: Replica
    ready: bool


class ClusterState:
    def __init__(self) -> None:
        self._pods: dict[str, Replica] = {}  # by uid
        self._by_label: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        # When the last Ready pod with this label left; the latest entry is last.
        self._left_s: dict[tuple[str, str, str], float] = {}
        self._used: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])

    def keep_pods(self, uids: Set[str], now_s: float) -> None:
        """Remove all other pods."""
        for uid in self._pods.keys() - uids:
            self.put_pod(uid, None, now_s)

    def put_pod(self, uid: str, read: PodRead | None, now_s: float) -> None:
        """None: the pod is gone or has ended."""
        before = self._pods.get(uid)
        self._forget(uid)
        pod = _replica(read, before, now_s) if read else None
        if before:
            self._note_leaving(before, pod, now_s)
        if pod is None:
            return
        self._pods[uid] = pod
        for key, value in pod.labels.items():
            self._by_label[pod.namespace, key, value].add(uid)
        self._count(pod, 1)

    def _note_leaving(self, before: Replica, after: Replica | None, now_s: float) -> None:
        if not before.serves or (after and after.serves):
            return
        for label in before.labels.items():
            self._left_s.pop((before.namespace, *label), None)
            self._left_s[before.namespace, *label] = now_s
        # Labels of Jobs are used once: forget entries older than any window.
        while (oldest := next(iter(self._left_s), None)) and self._left_s[oldest] < now_s - _LONGEST_WINDOW_S:
            del self._left_s[oldest]

    def _forget(self, uid: str) -> None:
        if pod := self._pods.pop(uid, None):
            for key, value in pod.labels.items():
                label = (pod.namespace, key, value)
                self._by_label[label].discard(uid)
                if not self._by_label[label]:
                    del self._by_label[label]
            self._count(pod, -1)

    def _count(self, pod: Replica, sign: int) -> None:
        if pod.node:
            used = self._used[pod.node]
            used[0] += sign * pod.cpu_millicores
            used[1] += sign * pod.memory_bytes
            used[2] += sign

    def replicas(self, namespace: str, selector: Mapping[str, str]) -> list[Replica]:
        """Pods with all these labels, except those that are leaving."""
        if not selector:
            return []
        found = set.intersection(*(self._by_label.get((namespace, *kv), set()) for kv in selector.items()))
        return [pod for uid in found if not (pod := self._pods[uid]).leaving]

    def unchanged_since_s(self, namespace: str, selector: Mapping[str, str]) -> float:
        """Since when the same pods have served; may be too late, never too early."""
        came_s = [p.ready_since_s for p in self.replicas(namespace, selector) if p.ready_since_s is not None]
        # A pod that left had all these labels: none of their times is earlier than its own.
        went_s = min(self._left_s.get((namespace, *label), 0.0) for label in selector.items())
        return max([went_s, *came_s])

    def free(self, node: NodeRoom) -> tuple[float, float, int]:
        """Unrequested millicores, bytes and pods."""
        cpu, memory, pods = self._used[node.name]
        return node.cpu_millicores - cpu, node.memory_bytes - memory, node.pods - int(pods)


def _replica(read: PodRead, before: Replica | None, now_s: float) -> Replica:
    pod, since_s = read.pod, now_s
    # A resized pod counts as a new one from then on; so does a pod whose drain was cancelled.
    if before and (before.concurrency, before.leaving) == (pod.concurrency, pod.leaving):
        since_s = before.ready_since_s or now_s
    return replace(pod, ready_since_s=since_s) if read.ready else pod


@checked
def read_pod(obj: Json) -> PodRead | None:
    """None: the pod has ended."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    if (obj.get("status") or {}).get("phase") in _FINISHED:
        return None
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    annotations = metadata.get("annotations") or {}
    try:
        cpu, memory = requests(obj)
    except PodError:
        cpu = memory = 0.0
    pod = Replica(
        metadata["name"],
        metadata["namespace"],
        metadata.get("labels") or {},
        spec.get("nodeName") or "",
        cpu,
        memory,
        None,
        "deletionTimestamp" in metadata or _DRAINING_SINCE in annotations,
        spec.get("nodeSelector") or {},
        read_tolerations(spec),
        integer(annotations.get(_CONCURRENCY), 0, _MOST_CONCURRENCY) or 1,
    )
    return PodRead(pod, ready)


@checked
def read_node(obj: Json) -> NodeRoom | None:
    """None: the node is unschedulable, not Ready, or has no readable allocatable resources."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
    if spec.get("unschedulable") or not ready:
        return None
    allocatable = status.get("allocatable") or {}
    try:
        cpu, memory, pods = (parse(allocatable[key]) for key in ("cpu", "memory", "pods"))
    except (KeyError, QuantityError):
        return None
    metadata, taints = obj["metadata"], read_taints(spec)
    return NodeRoom(metadata["name"], metadata.get("labels") or {}, cpu * 1000, memory, int(pods), taints)
