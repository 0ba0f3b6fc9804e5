"""Reads the cluster: four watches and the tables they keep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hpa_replacement import kneepolicy
from hpa_replacement.observe.capacity import Resources, capacity, replicas_that_fit
from hpa_replacement.observe.cluster_state import (
    ClusterState,
    NodeRoom,
    PodRead,
    Replica,
    read_node,
    read_pod,
)
from surgekit.kube.checked import checked
from surgekit.kube.client import Kube
from surgekit.kube.scale_target import ScaleTarget
from surgekit.kube.table import Seen, Table, Unreadable
from surgekit.kube.watch import Watch

__all__ = ["ClusterSource", "Objects", "unchanged"]

Json = dict[str, Any]
T = TypeVar("T")
_HPAS = "/apis/autoscaling/v2/horizontalpodautoscalers"


class Objects(Table[T]):
    """Objects by name, each as `read` converts it."""

    def __init__(self, unreadable: Unreadable, lock: threading.Lock, read: Callable[[Json], T]) -> None:
        super().__init__(unreadable)
        self._lock, self._read = lock, read
        self.by_name: dict[tuple[str, str], T] = {}

    def read(self, obj: Json) -> T:
        return self._read(obj)

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            for gone in self.by_name.keys() - {(obj.namespace, obj.name) for obj in there}:
                del self.by_name[gone]

    def put(self, obj: Seen, says: T, arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            self.by_name[obj.namespace, obj.name] = says

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            self.by_name.pop((obj.namespace, obj.name), None)


class _Pods(Table[PodRead | None]):
    def __init__(self, unreadable: Unreadable, lock: threading.Lock, state: ClusterState) -> None:
        super().__init__(unreadable)
        self._lock, self._state = lock, state

    def read(self, obj: Json) -> PodRead | None:
        return read_pod(obj)

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:
        with self._lock:
            self._state.keep_pods({pod.uid for pod in there}, _unix_s(arrival_s))

    def put(self, obj: Seen, says: PodRead | None, arrival_s: float) -> None:
        with self._lock:
            self._state.put_pod(obj.uid, says, _unix_s(arrival_s))

    def drop(self, obj: Seen, arrival_s: float) -> None:
        with self._lock:
            self._state.put_pod(obj.uid, None, _unix_s(arrival_s))


class _Nodes(Table[NodeRoom | None]):
    def __init__(self, unreadable: Unreadable, lock: threading.Lock, state: ClusterState) -> None:
        super().__init__(unreadable)
        self._lock, self._state = lock, state

    def read(self, obj: Json) -> NodeRoom | None:
        return read_node(obj)

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            for gone in self._state.nodes.keys() - {node.name for node in there}:
                self._state.put_node(gone, None)

    def put(self, obj: Seen, says: NodeRoom | None, arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            self._state.put_node(obj.name, says)

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        with self._lock:
            self._state.put_node(obj.name, None)


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
    def __init__(self, kube: Kube) -> None:
        self._lock = threading.Lock()
        self._state = ClusterState()
        self.unreadable = unread = Unreadable(kube, "kneescale")
        self._policies = Objects(unread, self._lock, unchanged)
        self._hpas = Objects(unread, self._lock, _read_hpa)
        self._watches = {
            "kneepolicies": Watch(kube, kneepolicy.PATH, self._policies),
            "horizontalpodautoscalers": Watch(kube, _HPAS, self._hpas),
            "pods": Watch(kube, "/api/v1/pods", _Pods(unread, self._lock, self._state)),
            "nodes": Watch(kube, "/api/v1/nodes", _Nodes(unread, self._lock, self._state)),
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

    def hpas_of(self, target: ScaleTarget) -> list[str]:
        """HorizontalPodAutoscalers that scale the same target."""
        same = _Scaled(target.api_version.rpartition("/")[0], target.kind, target.name)
        with self._lock:
            return [
                name
                for (namespace, name), scaled in self._hpas.by_name.items()
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
            nodes = [node for node in self._state.nodes.values() if replica.may_go_to(node)]
            free = [_resources(*self._state.free(node)) for node in nodes]
        request = _resources(replica.cpu_millicores, replica.memory_bytes, 1)
        return capacity(free, request, running, extra_nodes * _most_on_one_node(nodes, request))


def _most_on_one_node(nodes: Iterable[NodeRoom], request: Resources) -> int:
    """Replicas on the largest node, if it were empty."""
    empty = (_resources(n.cpu_millicores, n.memory_bytes, n.pods) for n in nodes)
    return max((replicas_that_fit(room, request) for room in empty), default=0)


def _resources(cpu_millicores: float, memory_bytes: float, pods: int) -> Resources:
    return Resources(round(cpu_millicores), round(memory_bytes), pods)
