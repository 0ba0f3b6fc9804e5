"""What is read of the cluster: four watches and the tables they keep."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from hpa_replacement import kneepolicy
from hpa_replacement.capacity import Resources, capacity, replicas_that_fit
from hpa_replacement.cluster_state import ClusterState, NodeRoom, Replica
from surgekit.kube import Kube
from surgekit.watch import Watch

__all__ = ["ClusterSource", "Objects"]

Json = dict[str, Any]
_HPAS = "/apis/autoscaling/v2/horizontalpodautoscalers"


class Objects:
    """A collection as it is."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.by_name: dict[tuple[str, str], Json] = {}

    def replace(self, objects: list[Json], arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            self.by_name = {_name(obj): obj for obj in objects}

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            if kind == "DELETED":
                self.by_name.pop(_name(obj), None)
            else:
                self.by_name[_name(obj)] = obj


class _Pods:
    def __init__(self, lock: threading.Lock, state: ClusterState) -> None:
        self._lock, self._state = lock, state

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        with self._lock:
            self._state.replace_pods(objects, _unix_s(arrival_s))

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        with self._lock:
            self._state.apply_pod(kind, obj, _unix_s(arrival_s))


class _Nodes:
    def __init__(self, lock: threading.Lock, state: ClusterState) -> None:
        self._lock, self._state = lock, state

    def replace(self, objects: list[Json], arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            self._state.replace_nodes(objects)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            self._state.apply_node(kind, obj)


def _name(obj: Json) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _unix_s(arrival_s: float) -> float:
    return time.time() - (time.monotonic() - arrival_s)


class ClusterSource:
    def __init__(self, kube: Kube) -> None:
        self._lock = threading.Lock()
        self._state = ClusterState()
        self._policies, self._hpas = Objects(self._lock), Objects(self._lock)
        self._watches = {
            "kneepolicies": Watch(kube, kneepolicy.PATH, self._policies),
            "horizontalpodautoscalers": Watch(kube, _HPAS, self._hpas),
            "pods": Watch(kube, "/api/v1/pods", _Pods(self._lock, self._state)),
            "nodes": Watch(kube, "/api/v1/nodes", _Nodes(self._lock, self._state)),
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
            return [self._policies.by_name[name] for name in sorted(self._policies.by_name)]

    def hpas_of(self, target: kneepolicy.Target) -> list[str]:
        """HorizontalPodAutoscalers that scale the same target."""
        group = target.api_version.rpartition("/")[0]
        with self._lock:
            return [
                name
                for (namespace, name), hpa in self._hpas.by_name.items()
                if namespace == target.namespace
                and (reference := hpa["spec"]["scaleTargetRef"])["name"] == target.name
                and reference["kind"] == target.kind
                and (reference.get("apiVersion") or "").rpartition("/")[0] == group
            ]

    def replicas(self, namespace: str, selector: dict[str, str]) -> tuple[list[Replica], float]:
        """The pods of a target, and since when the same ones have been Ready."""
        with self._lock:
            found = self._state.replicas(namespace, selector)
            return found, self._state.unchanged_since_s(namespace, selector)

    def capacity(self, replica: Replica, running: int, extra_nodes: int) -> int:
        """Eq. (4) for replicas like this one, on the nodes it may go to."""
        with self._lock:
            nodes = [node for node in self._state.nodes.values() if replica.may_go_to(node)]
            free = [_resources(*self._state.free(node)) for node in nodes]
        request = _resources(replica.cpu_millicores, replica.memory_bytes, 1)
        return capacity(free, request, running, extra_nodes * _most(nodes, request))


def _most(nodes: Iterable[NodeRoom], request: Resources) -> int:
    """Replicas on the node that, empty, would hold most."""
    empty = (_resources(n.cpu_millicores, n.memory_bytes, n.pods) for n in nodes)
    return max((replicas_that_fit(room, request) for room in empty), default=0)


def _resources(cpu_millicores: float, memory_bytes: float, pods: int) -> Resources:
    return Resources(round(cpu_millicores), round(memory_bytes), pods)
