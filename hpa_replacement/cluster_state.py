"""Pods and nodes as decisions need them: who is Ready since when, what room is left. Pure; watches feed it.

Times are Unix times at which a change was seen: API timestamps have whole seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from surgekit.pods import PodError, requests
from surgekit.quantity import QuantityError, parse

__all__ = ["ClusterState", "NodeRoom", "Replica", "read_selector"]

Json = dict[str, Any]
_CONCURRENCY = "surgekit.dev/concurrency"
_DRAINING_SINCE = "surgekit.dev/draining-since"
_FINISHED = ("Succeeded", "Failed")
_LONGEST_WINDOW_S = 2 * 3600.0  # the CRD allows sampling intervals of an hour


@dataclass(frozen=True, slots=True)
class Replica:
    """A pod that counts."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    node: str
    cpu_millicores: float
    memory_bytes: float
    ready_since_s: float | None  # None: not Ready
    leaving: bool  # is being deleted; or, of a ComboFunc, drained: gets no new requests
    node_selector: Mapping[str, str]
    tolerations: frozenset[tuple[str, str | None, str]]  # key, value (None: any), effect; "" stands for any
    concurrency: int = 1  # of a ComboFunc's pod: the requests it takes at a time

    @property
    def serves(self) -> bool:
        return self.ready_since_s is not None and not self.leaving

    def may_go_to(self, node: NodeRoom) -> bool:
        """As far as node selector and taints tell; affinities are left to the scheduler."""
        if any(node.labels.get(key) != value for key, value in self.node_selector.items()):
            return False
        return all(
            any(k in ("", key) and v in (None, value) and e in ("", effect) for k, v, e in self.tolerations)
            for key, value, effect in node.taints
        )


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """What a node has for pods."""

    name: str
    labels: Mapping[str, str]
    cpu_millicores: float
    memory_bytes: float
    pods: int
    taints: frozenset[tuple[str, str, str]]  # that keep pods away: key, value, effect


class ClusterState:
    def __init__(self) -> None:
        self._pods: dict[str, Replica] = {}  # by uid
        self._by_label: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        # When a Ready pod with this label last went; the latest at the end.
        self._left_s: dict[tuple[str, str, str], float] = {}
        self._used: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        self.nodes: dict[str, NodeRoom] = {}

    def replace_pods(self, objects: Iterable[Json], now_s: float) -> None:
        known = {obj["metadata"]["uid"]: obj for obj in objects}
        for uid in self._pods.keys() - known.keys():
            self._note_leaving(self._pods[uid], None, now_s)
            self._forget(uid)
        for obj in known.values():
            self.apply_pod("MODIFIED", obj, now_s)

    def apply_pod(self, kind: str, obj: Json, now_s: float) -> None:
        uid = obj["metadata"]["uid"]
        before = self._pods.get(uid)
        self._forget(uid)
        gone = kind == "DELETED" or (obj.get("status") or {}).get("phase") in _FINISHED
        pod = None if gone else _replica(obj, before, now_s)
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
        # Labels of Jobs are used once: what is older than any window goes.
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

    def replace_nodes(self, objects: Iterable[Json]) -> None:
        self.nodes = {room.name: room for room in map(_room, objects) if room}

    def apply_node(self, kind: str, obj: Json) -> None:
        room = None if kind == "DELETED" else _room(obj)
        if room is None:
            self.nodes.pop(obj["metadata"]["name"], None)
        else:
            self.nodes[room.name] = room

    def replicas(self, namespace: str, selector: Mapping[str, str]) -> list[Replica]:
        """Pods with all these labels that are not on their way out."""
        if not selector:
            return []
        found = set.intersection(*(self._by_label.get((namespace, *kv), set()) for kv in selector.items()))
        return [pod for uid in found if not (pod := self._pods[uid]).leaving]

    def unchanged_since_s(self, namespace: str, selector: Mapping[str, str]) -> float:
        """Since when the same pods have served. May be later than the truth, never earlier."""
        came_s = [p.ready_since_s for p in self.replicas(namespace, selector) if p.ready_since_s is not None]
        # A pod that went had all these labels, so each of them has seen it go.
        went_s = min(self._left_s.get((namespace, *label), 0.0) for label in selector.items())
        return max([went_s, *came_s])

    def free(self, node: NodeRoom) -> tuple[float, float, int]:
        """(millicores, bytes, pods) that nobody has requested."""
        cpu, memory, pods = self._used[node.name]
        return node.cpu_millicores - cpu, node.memory_bytes - memory, node.pods - int(pods)


def _replica(obj: Json, before: Replica | None, now_s: float) -> Replica:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    annotations = metadata.get("annotations") or {}
    concurrency = _concurrency(annotations)
    leaving = "deletionTimestamp" in metadata or _DRAINING_SINCE in annotations
    since_s = now_s
    # One that was resized serves as another from then on, one that was to go and stays serves anew.
    if before and (before.concurrency, before.leaving) == (concurrency, leaving):
        since_s = before.ready_since_s or now_s
    try:
        cpu, memory = requests(obj)
    except PodError:
        cpu = memory = 0.0
    return Replica(
        metadata["name"],
        metadata["namespace"],
        metadata.get("labels") or {},
        spec.get("nodeName") or "",
        cpu,
        memory,
        since_s if ready else None,
        leaving,
        spec.get("nodeSelector") or {},
        frozenset(map(_toleration, spec.get("tolerations") or ())),
        concurrency,
    )


def _concurrency(annotations: Mapping[str, str]) -> int:
    text = annotations.get(_CONCURRENCY, "")
    return int(text) if text.isdecimal() else 1


def _toleration(of: Json) -> tuple[str, str | None, str]:
    value = None if of.get("operator") == "Exists" else of.get("value") or ""
    return of.get("key") or "", value, of.get("effect") or ""


def _room(obj: Json) -> NodeRoom | None:
    """None: no pod may go there, or it does not say what it has."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
    if spec.get("unschedulable") or not ready:
        return None
    allocatable = status.get("allocatable") or {}
    try:
        cpu, memory, pods = (parse(allocatable[key]) for key in ("cpu", "memory", "pods"))
    except (KeyError, QuantityError):
        return None
    taints = frozenset(
        (t["key"], t.get("value") or "", t["effect"])
        for t in spec.get("taints") or ()
        if t["effect"] != "PreferNoSchedule"
    )
    metadata = obj["metadata"]
    return NodeRoom(metadata["name"], metadata.get("labels") or {}, cpu * 1000, memory, int(pods), taints)


def read_selector(text: str) -> dict[str, str]:
    """`status.selector` of a Scale; equality only, which is all Deployments and their like write."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    if any(not sign or key.endswith("!") for key, sign, _ in pairs):
        raise ValueError(f"selector {text!r} is more than labels and values")
    return {key: value.removeprefix("=") for key, _, value in pairs}
