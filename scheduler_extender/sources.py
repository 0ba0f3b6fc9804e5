"""What the extender reads: nodes, bound pods, namespaces and NodeSpeeds, each from its own watch.

The watch threads read objects; the state they feed belongs to the serving thread. So they only leave
small changes in an inbox, which the serving thread empties before it decides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from scheduler_extender.cluster_state import ClusterState, PodFacts
from scheduler_extender.node_table import NodeFacts, NodeTable, SpeedFacts
from surgekit.kube import Kube
from surgekit.pods import Creation, PodError, creation, image_name, requests
from surgekit.quantity import QuantityError, parse
from surgekit.watch import Watch

__all__ = ["Namespace", "Sources", "read_node", "read_pod", "read_speed"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
Change = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Namespace:
    labels: dict[str, str]
    annotations: dict[str, str]


NO_NAMESPACE = Namespace({}, {})


class Sources:
    """The watches, their inbox, and how old each is."""

    def __init__(self, kube: Kube, state: ClusterState) -> None:
        self._inbox: deque[Change] = deque()
        self.namespaces: dict[str, Namespace] = {}
        # A pod matters here from its binding on, which spares half of all pod events.
        pods = _Pods(state, self._inbox)
        self._watches = {
            "nodes": Watch(kube, "/api/v1/nodes", _Nodes(state.nodes, self._inbox)),
            "pods": Watch(kube, "/api/v1/pods", pods, fieldSelector="spec.nodeName!="),
            "namespaces": Watch(kube, "/api/v1/namespaces", _Namespaces(self.namespaces)),
        }
        # Speeds age row by row; without a probe every node gets the prior, and the price still counts.
        speeds = _Speeds(state.nodes, self._inbox)
        self._speeds = Watch(kube, "/apis/surgekit.dev/v1alpha1/nodespeeds", speeds)

    def start(self) -> None:
        for watch in (*self._watches.values(), self._speeds):
            watch.start()

    def stop(self) -> None:
        for watch in (*self._watches.values(), self._speeds):
            watch.stop()

    def apply(self) -> None:
        """Carry out what the watches have left. Serving thread only."""
        inbox = self._inbox
        while inbox:
            inbox.popleft()()

    def age_s(self, now_s: float) -> dict[str, float]:
        return {name: watch.age_s(now_s) for name, watch in self._watches.items()}

    def speeds_age_s(self, now_s: float) -> float:
        return self._speeds.age_s(now_s)


class _Nodes:
    def __init__(self, nodes: NodeTable, inbox: deque[Change]) -> None:
        self._nodes, self._inbox = nodes, inbox

    def replace(self, objects: list[Json], arrival_s: float) -> None:  # noqa: ARG002
        self._inbox.append(partial(self._nodes.replace_nodes, [f for f in map(read_node, objects) if f]))

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:  # noqa: ARG002
        if kind == "DELETED":
            self._inbox.append(partial(self._nodes.drop_node, obj["metadata"]["name"]))
        elif facts := read_node(obj):
            self._inbox.append(partial(self._nodes.put_node, facts))


class _Pods:
    def __init__(self, state: ClusterState, inbox: deque[Change]) -> None:
        self._state, self._inbox = state, inbox

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        facts = [f for f in map(read_pod, objects) if f]
        self._inbox.append(partial(self._state.replace_pods, facts, arrival_s))

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        facts = None if kind == "DELETED" else read_pod(obj)
        if facts is None:  # gone, or finished and holding nothing
            self._inbox.append(partial(self._state.drop_pod, obj["metadata"]["uid"]))
        else:
            self._inbox.append(partial(self._state.put_pod, facts, arrival_s))


class _Speeds:
    def __init__(self, nodes: NodeTable, inbox: deque[Change]) -> None:
        self._nodes, self._inbox = nodes, inbox

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        speeds = [s for s in map(read_speed, objects) if s]
        self._inbox.append(partial(self._nodes.replace_speeds, speeds, arrival_s))

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        if kind == "DELETED":
            self._inbox.append(partial(self._nodes.drop_speed, obj["metadata"]["name"]))
        elif speed := read_speed(obj):
            self._inbox.append(partial(self._nodes.put_speed, speed, arrival_s))


class _Namespaces:
    def __init__(self, namespaces: dict[str, Namespace]) -> None:
        self._namespaces = namespaces

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        names = {o["metadata"]["name"] for o in objects}
        for gone in [n for n in self._namespaces if n not in names]:
            self._namespaces.pop(gone, None)
        for obj in objects:
            self.apply("ADDED", obj, arrival_s)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:  # noqa: ARG002
        meta = obj["metadata"]
        if kind == "DELETED":
            self._namespaces.pop(meta["name"], None)
        else:
            self._namespaces[meta["name"]] = Namespace(
                meta.get("labels") or {}, meta.get("annotations") or {}
            )


def read_node(obj: Json) -> NodeFacts | None:
    status = obj.get("status") or {}
    allocatable = status.get("allocatable") or {}
    images = frozenset(
        image_name(n) for i in status.get("images") or () for n in i.get("names") or () if isinstance(n, str)
    )
    try:
        cpu, memory = parse(allocatable.get("cpu", 0)) * 1000.0, parse(allocatable.get("memory", 0))
    except QuantityError as error:
        log.warning("node left out", node=obj["metadata"]["name"], error=str(error))
        return None
    return NodeFacts(obj["metadata"]["name"], cpu, memory, images)


def read_pod(obj: Json) -> PodFacts | None:
    stage = creation(obj)
    if stage is Creation.FINISHED:
        return None
    try:
        cpu, memory = requests(obj)
    except PodError as error:
        log.warning("pod left out", namespace=obj["metadata"].get("namespace"), error=str(error))
        return None
    return PodFacts(obj["metadata"]["uid"], obj["spec"]["nodeName"], cpu, memory, stage is Creation.CREATING)


def read_speed(obj: Json) -> SpeedFacts | None:
    status = obj.get("status") or {}
    tau = status.get("tauCreateSeconds")
    if not isinstance(tau, int | float) or not 0 < tau < 1e5:
        return None
    pulls = {
        image_name(p["image"]): float(p["seconds"])
        for p in status.get("imagePulls") or ()
        if isinstance(p.get("seconds"), int | float) and isinstance(p.get("image"), str)
    }
    return SpeedFacts(obj["metadata"]["name"], float(tau), pulls)
