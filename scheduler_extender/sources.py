"""What the extender reads: nodes, bound pods, namespaces and NodeSpeeds, each from its own watch.

The watch threads read objects; the state they feed belongs to the serving thread. So they only leave
small changes in an inbox, which the serving thread empties before it decides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cluster_model.cluster_state import ClusterState, PodFacts
from cluster_model.node_table import NodeFacts, NodeTable, SpeedFacts
from cluster_model.readers import read_node, read_pod, read_speed
from surgekit.kube.client import Kube
from surgekit.kube.table import Seen, Table, Unreadable
from surgekit.kube.watch import Watch

__all__ = ["Namespace", "Sources"]

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
        self.unreadable = unread = Unreadable(kube, "extender")
        # A pod matters here from its binding on, which spares half of all pod events.
        pods = _Pods(unread, state, self._inbox)
        self._watches = {
            "nodes": Watch(kube, "/api/v1/nodes", _Nodes(unread, state.nodes, self._inbox)),
            "pods": Watch(kube, "/api/v1/pods", pods, fieldSelector="spec.nodeName!="),
            "namespaces": Watch(kube, "/api/v1/namespaces", _Namespaces(unread, self.namespaces)),
        }
        # Speeds age row by row; without a probe every node gets the prior, and the price still counts.
        speeds = _Speeds(unread, state.nodes, self._inbox)
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


class _Nodes(Table[NodeFacts | None]):
    def __init__(self, unreadable: Unreadable, nodes: NodeTable, inbox: deque[Change]) -> None:
        super().__init__(unreadable)
        self._nodes, self._inbox = nodes, inbox

    def read(self, obj: Json) -> NodeFacts | None:
        return read_node(obj)

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        self._inbox.append(partial(self._nodes.keep_nodes, {node.name for node in there}))

    def put(self, obj: Seen, says: NodeFacts | None, arrival_s: float) -> None:  # noqa: ARG002
        if says:
            self._inbox.append(partial(self._nodes.put_node, says))

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        self._inbox.append(partial(self._nodes.drop_node, obj.name))


class _Pods(Table[PodFacts | None]):
    def __init__(self, unreadable: Unreadable, state: ClusterState, inbox: deque[Change]) -> None:
        super().__init__(unreadable)
        self._state, self._inbox = state, inbox

    def read(self, obj: Json) -> PodFacts | None:
        return read_pod(obj)

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        self._inbox.append(partial(self._state.keep_pods, {pod.uid for pod in there}))

    def put(self, obj: Seen, says: PodFacts | None, arrival_s: float) -> None:
        if says is None:  # finished, and holding nothing
            self.drop(obj, arrival_s)
        else:
            self._inbox.append(partial(self._state.put_pod, says, arrival_s))

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        self._inbox.append(partial(self._state.drop_pod, obj.uid))


class _Speeds(Table[SpeedFacts | None]):
    def __init__(self, unreadable: Unreadable, nodes: NodeTable, inbox: deque[Change]) -> None:
        super().__init__(unreadable)
        self._nodes, self._inbox = nodes, inbox

    def read(self, obj: Json) -> SpeedFacts | None:
        return read_speed(obj)

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        self._inbox.append(partial(self._nodes.keep_speeds, {speed.name for speed in there}))

    def put(self, obj: Seen, says: SpeedFacts | None, arrival_s: float) -> None:  # noqa: ARG002
        if says:
            self._inbox.append(partial(self._nodes.put_speed, says, arrival_s))

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        self._inbox.append(partial(self._nodes.drop_speed, obj.name))


class _Namespaces(Table[Namespace]):
    def __init__(self, unreadable: Unreadable, namespaces: dict[str, Namespace]) -> None:
        super().__init__(unreadable)
        self._namespaces = namespaces

    def read(self, obj: Json) -> Namespace:
        meta = obj["metadata"]
        return Namespace(dict(meta.get("labels") or {}), dict(meta.get("annotations") or {}))

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        for gone in self._namespaces.keys() - {namespace.name for namespace in there}:
            self._namespaces.pop(gone, None)

    def put(self, obj: Seen, says: Namespace, arrival_s: float) -> None:  # noqa: ARG002
        self._namespaces[obj.name] = says

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        self._namespaces.pop(obj.name, None)
