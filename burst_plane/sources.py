"""Reads the cluster: the watches and the tables they keep."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from burst_plane import burst_function
from burst_plane.burst_function import BurstFunction
from burst_plane.egress import EgressPolicy, read_policy
from burst_plane.knative.objects import REVISIONS, SERVICES, read_revision
from burst_plane.knative.objects import read_service as read_knative_service
from burst_plane.knative.route import NotRouted, Route, route
from burst_plane.settings import Settings
from surgekit.kube.api_path import Resource
from surgekit.kube.checked import checked
from surgekit.kube.client import Kube
from surgekit.kube.scale_target import ScaleTarget
from surgekit.kube.table import RowTable, Unreadable, by_full_name, by_name
from surgekit.kube.watch import Watch

__all__ = [
    "ANNOTATION",
    "SERVICE_LABEL",
    "AgentPod",
    "ClusterSource",
    "Replicas",
    "read_agent",
    "read_node",
    "read_service",
]

Json = dict[str, Any]
SERVICE_LABEL = "surgekit.dev/burst-function"
ANNOTATION = "surgekit.dev/burst"  # on a Deployment: the mode of the BurstFunction that it asks for


@dataclass(frozen=True, slots=True)
class Replicas:
    """A Deployment's, and what of it an emergency instance depends on."""

    generation: int
    asked: int
    ready: int
    burst: str  # the annotation that registers it; empty: none
    uid: str


@dataclass(frozen=True, slots=True)
class AgentPod:
    node: str
    address: str


def _unchanged(obj: Json) -> Json:
    """Keep the object as it is: the controller reads it, and says in its status what is wrong with it."""
    return obj


@checked
def read_replicas(obj: Json) -> Replicas:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    return Replicas(
        metadata.get("generation", 0),
        spec.get("replicas", 1),
        status.get("readyReplicas") or 0,
        (metadata.get("annotations") or {}).get(ANNOTATION, ""),
        metadata["uid"],
    )


@checked
def read_service(obj: Json) -> tuple[str, str]:
    """(function's name, target port of the first port)."""
    ports = (obj.get("spec") or {}).get("ports") or [{}]
    port = ports[0].get("targetPort", ports[0].get("port", ""))
    return obj["metadata"]["labels"][SERVICE_LABEL], str(port)


@checked
def read_node(obj: Json) -> bool:
    """Whether new work may go there."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return ready and not (obj.get("spec") or {}).get("unschedulable")


@checked
def read_agent(obj: Json) -> AgentPod | None:
    """None: it does not answer yet, or ends."""
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    address, node = status.get("podIP"), spec.get("nodeName")
    if (
        not address
        or not node
        or status.get("phase") != "Running"
        or obj["metadata"].get("deletionTimestamp")
    ):
        return None
    return AgentPod(node, address)


class ClusterSource:
    """`on_change` is called from the watches' threads, after a change that may matter."""

    def __init__(
        self,
        kube: Kube,
        settings: Settings,
        unreadable: Unreadable,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._lock = lock = threading.Lock()
        self.unreadable = unread = unreadable
        changed = on_change
        self._functions = RowTable(unread, _unchanged, key=by_full_name, lock=lock, on_change=changed)
        self._deployments = RowTable(unread, read_replicas, key=by_full_name, lock=lock, on_change=changed)
        self._services = RowTable(unread, read_service, key=by_full_name, lock=lock, on_change=changed)
        self._policies = RowTable(unread, read_policy, key=by_full_name, lock=lock, on_change=changed)
        self._nodes = RowTable(unread, read_node, key=by_name, lock=lock)
        self._agents = RowTable(unread, read_agent, key=by_name, lock=lock, on_change=changed)
        pods = Resource("v1", "pods").path(settings.agent_namespace)
        self._watches = {
            "burstfunctions": Watch(kube, burst_function.PATH, self._functions),
            "deployments": Watch(kube, "/apis/apps/v1/deployments", self._deployments),
            "services": Watch(kube, "/api/v1/services", self._services, labelSelector=SERVICE_LABEL),
            "networkpolicies": Watch(kube, "/apis/networking.k8s.io/v1/networkpolicies", self._policies),
            "nodes": Watch(kube, "/api/v1/nodes", self._nodes),
            "agents": Watch(kube, pods, self._agents, labelSelector=settings.agent_selector),
        }
        self._with_knative = bool(settings.knative_autoscaler)
        self._knative_services = RowTable(
            unread, read_knative_service, key=by_full_name, lock=lock, on_change=changed
        )
        self._revisions = RowTable(unread, read_revision, key=by_full_name, lock=lock, on_change=changed)
        if self._with_knative:
            for name, of, table in (
                ("knative services", SERVICES, self._knative_services),
                ("revisions", REVISIONS, self._revisions),
            ):
                self._watches[name] = Watch(kube, of.path(), table, may_be_absent=True)

    def start(self) -> None:
        for watch in self._watches.values():
            watch.start()

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.stop()

    def ages_s(self, now_s: float) -> dict[str, float]:
        return {name: watch.age_s(now_s) for name, watch in self._watches.items()}

    @property
    def complete(self) -> bool:
        """Whether every watch has listed at least once. Before that nothing may be taken for gone."""
        return all(watch.synced.is_set() for watch in self._watches.values())

    def burst_functions(self) -> list[Json]:
        with self._lock:
            return [self._functions.rows[name] for name in sorted(self._functions.rows)]

    def deployment(self, target: ScaleTarget) -> Replicas | None:
        with self._lock:
            return self._deployments.rows.get((target.namespace, target.name))

    def registered(self) -> dict[tuple[str, str], Replicas]:
        """Deployments with the annotation, by namespace and name."""
        with self._lock:
            return {key: row for key, row in self._deployments.rows.items() if row.burst}

    def port(self, namespace: str, function: str) -> int | str | None:
        """What the function's Service sends requests to; of several Services the first by name."""
        with self._lock:
            found = sorted(
                (name, port)
                for (of, name), (labelled, port) in self._services.rows.items()
                if of == namespace and labelled == function
            )
        if not found or not found[0][1]:
            return None
        port = found[0][1]
        return int(port) if port.isdecimal() and len(port) <= 5 else port

    def policies(self, namespace: str) -> list[EgressPolicy]:
        with self._lock:
            return [p for (of, _), p in self._policies.rows.items() if of == namespace]

    def route(self, function: BurstFunction) -> Route | NotRouted | None:
        """Where Knative sends the function's requests; None: its target is not Knative's."""
        if not function.is_knative:
            return None
        if not self._with_knative:
            return NotRouted("NoTarget", "Knative is not looked at: the setting knative_autoscaler is empty")
        namespace = function.function.namespace
        with self._lock:
            return route(
                function,
                lambda name: self._knative_services.rows.get((namespace, name)),
                lambda name: self._revisions.rows.get((namespace, name)),
            )

    def agents(self) -> list[tuple[AgentPod, bool]]:
        """Each with whether new instances may start there."""
        with self._lock:
            pods = sorted(self._agents.rows.items())
            return [(pod, self._nodes.rows.get(pod.node, False)) for _, pod in pods]
