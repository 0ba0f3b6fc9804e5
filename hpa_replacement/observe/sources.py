"""Reads the cluster: four watches and the tables they keep."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hpa_replacement import kneepolicy
from hpa_replacement.observe.capacity import Resources, capacity, replicas_that_fit
from hpa_replacement.observe.cluster_state import (
    ClusterState,
    NodeRoom,
    Replica,
    read_node,
    read_pod,
)
from surgekit.kube.checked import checked
from surgekit.kube.client import Kube
from surgekit.kube.scale_target import ScaleTarget
from surgekit.kube.table import ObjectTable, RowTable, Unreadable, by_full_name, by_name, by_uid
from surgekit.kube.watch import Watch

__all__ = ["ClusterSource", "unchanged"]

Json = dict[str, Any]
_HPAS = "/apis/autoscaling/v2/horizontalpodautoscalers"


@dataclass(frozen=True, slots=True)
class _Scaled:
    """The target of a HorizontalPodAutoscaler."""

    group: str
    kind: str
    name: str


@checked
def _read_hpa(obj: Json) -> _Scaled:
    reference = obj["spec"]["scaleTargetRef"]
    group = (reference.get("apiVersion") or "").rpartition("/")[0]
    return _Scaled(group, reference["kind"], reference["name"])


def unchanged(obj: Json) -> Json:
    """Keep the object as it is: its reconciler reads it, and reports errors in its status."""
    return obj


def _unix_s(arrival_s: float) -> float:
    return time.time() - (time.monotonic() - arrival_s)


class ClusterSource:
    def __init__(self, kube: Kube, unreadable: Unreadable) -> None:
        self._lock = threading.Lock()
        self._state = ClusterState()
        self.unreadable = unread = unreadable
        self._policies = RowTable(unread, unchanged, key=by_full_name, lock=self._lock)
        self._hpas = RowTable(unread, _read_hpa, key=by_full_name, lock=self._lock)
        self._nodes = RowTable(unread, read_node, key=by_name, lock=self._lock)
        state = self._state
        pods = ObjectTable(
            unread,
            read_pod,
            key=by_uid,
            lock=self._lock,
            on_list=lambda uids, arrival_s: state.keep_pods(uids, _unix_s(arrival_s)),
            on_put=lambda uid, pod, arrival_s: state.put_pod(uid, pod, _unix_s(arrival_s)),
            on_drop=lambda uid, arrival_s: state.put_pod(uid, None, _unix_s(arrival_s)),
        )
        self._watches = {
            "kneepolicies": Watch(kube, kneepolicy.PATH, self._policies),
            "horizontalpodautoscalers": Watch(kube, _HPAS, self._hpas),
            "pods": Watch(kube, "/api/v1/pods", pods),
            "nodes": Watch(kube, "/api/v1/nodes", self._nodes),
        }

    def start(self) -> None:
        for watch in self._watches.values():
            watch.start()

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.stop()

    def ages_s(self, now_s: float) -> dict[str, float]:
        return {name: watch.age_s(now_s) for name, watch in self._watches.items()}

    def policies(self) -> list[Json]:
        with self._lock:
            return [self._policies.rows[name] for name in sorted(self._policies.rows)]

    def hpas_of(self, target: ScaleTarget) -> list[str]:
        """HorizontalPodAutoscalers that scale the same target."""
        same = _Scaled(target.api_version.rpartition("/")[0], target.kind, target.name)
        with self._lock:
            return [
                name
                for (namespace, name), scaled in self._hpas.rows.items()
                if namespace == target.namespace and scaled == same
            ]

    def replicas(self, namespace: str, selector: dict[str, str]) -> tuple[list[Replica], float]:
        """The pods of a target, and since when the same pods have been Ready."""
        with self._lock:
            found = self._state.replicas(namespace, selector)
            return found, self._state.unchanged_since_s(namespace, selector)

    def capacity(self, replica: Replica, running: int, extra_nodes: int) -> int:
        """Eq. (4) for replicas like this one, on the nodes it may run on."""
        with self._lock:
            nodes = [node for node in self._nodes.rows.values() if replica.may_go_to(node)]
            free = [_resources(*self._state.free(node)) for node in nodes]
        request = _resources(replica.cpu_millicores, replica.memory_bytes, 1)
        return capacity(free, request, running, extra_nodes * _most_on_one_node(nodes, request))


def _most_on_one_node(nodes: Iterable[NodeRoom], request: Resources) -> int:
    """Replicas on the largest node, if it were empty."""
    empty = (_resources(n.cpu_millicores, n.memory_bytes, n.pods) for n in nodes)
    return max((replicas_that_fit(room, request) for room in empty), default=0)


def _resources(cpu_millicores: float, memory_bytes: float, pods: int) -> Resources:
    return Resources(round(cpu_millicores), round(memory_bytes), pods)
