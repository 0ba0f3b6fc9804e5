"""Watch nodes, bound pods, namespaces and NodeSpeeds for the extender.

Watch threads read objects, but the state belongs to the serving thread. So a watch thread only appends
small changes to an inbox, and the serving thread applies them before it decides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from cluster_model.cluster_state import ClusterState, PodFacts
from cluster_model.node_table import NodeFacts, SpeedFacts
from cluster_model.readers import read_node, read_pod, read_speed
from scheduler_extender import pod_events
from surgekit.kube.client import Kube
from surgekit.kube.table import ObjectTable, Seen, Unreadable, by_name, by_uid
from surgekit.kube.watch import Watch

__all__ = ["NO_NAMESPACE", "Namespace", "Sources"]

# Bindings and starts may be read this much later, a dozen at a time where 300 pods are placed a second: until
# then the extender's own pods are assumed.
_GATHER_S = 0.02
Json = dict[str, Any]
Change = Callable[[], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Namespace:
    labels: dict[str, str]
    annotations: dict[str, str]


NO_NAMESPACE = Namespace({}, {})


class Sources:
    """The watches, their inbox, and the age of each."""

    def __init__(self, kube: Kube, unreadable: Unreadable, state: ClusterState) -> None:
        self._unreadable, self._state, self._inbox = unreadable, state, deque[Change]()
        self.namespaces: dict[str, Namespace] = {}
        known = state.nodes
        nodes = self._table(
            read_node, by_name, keep=known.keep_nodes, put=self._put_node, drop=known.drop_node
        )
        pods = self._table(read_pod, by_uid, keep=state.keep_pods, put=self._put_pod, drop=state.drop_pod)
        speeds = self._table(
            read_speed, by_name, keep=known.keep_speeds, put=self._put_speed, drop=known.drop_speed
        )
        namespaces = self._table(
            _read_namespace, by_name,
            keep=self._keep_namespaces, put=self._put_namespace, drop=self._drop_namespace,
        )  # fmt: skip
        self._watches = {
            "nodes": Watch(kube, "/api/v1/nodes", nodes),
            # A pod counts from its binding on. Watching no others halves the events.
            "pods": Watch(
                kube,
                "/api/v1/pods",
                pods,
                gather_s=_GATHER_S,
                decode=pod_events.decode,
                fieldSelector="spec.nodeName!=",
            ),
            "namespaces": Watch(kube, "/api/v1/namespaces", namespaces),
        }
        # Kept apart: each speed ages on its own, and without a probe every node gets the default speed.
        self._speeds = Watch(kube, "/apis/surgekit.dev/v1alpha1/nodespeeds", speeds)

    def start(self) -> None:
        for watch in (*self._watches.values(), self._speeds):
            watch.start()

    def stop(self) -> None:
        for watch in (*self._watches.values(), self._speeds):
            watch.stop()

    def apply(self) -> None:
        """Apply the changes in the inbox. Call it from the serving thread only."""
        inbox = self._inbox
        while inbox:
            inbox.popleft()()

    def age_s(self, now_s: float) -> dict[str, float]:
        return {name: watch.age_s(now_s) for name, watch in self._watches.items()}

    def speeds_age_s(self, now_s: float) -> float:
        return self._speeds.age_s(now_s)

    def _table(
        self,
        read: Callable[[Json], T],
        key: Callable[[Seen], str],
        *,
        keep: Callable[[Set[str]], None],
        put: Callable[[str, T, float], None],
        drop: Callable[[str], None],
    ) -> ObjectTable[str, T]:
        """A table that queues its changes; `keep`, `put` and `drop` run on the serving thread."""
        append = self._inbox.append
        return ObjectTable(
            self._unreadable,
            read,
            key=key,
            on_list=lambda keys, _: append(partial(keep, keys)),
            on_put=lambda key, facts, arrival_s: append(partial(put, key, facts, arrival_s)),
            on_drop=lambda key, _: append(partial(drop, key)),
        )

    # --- on the serving thread, by way of the inbox ---

    def _put_node(self, name: str, facts: NodeFacts, arrival_s: float) -> None:  # noqa: ARG002
        self._state.nodes.put_node(facts)

    def _put_pod(self, uid: str, facts: PodFacts | None, arrival_s: float) -> None:
        if facts is None:  # finished: it holds no resources
            self._state.drop_pod(uid)
        else:
            self._state.put_pod(facts, arrival_s)

    def _put_speed(self, node: str, facts: SpeedFacts | None, arrival_s: float) -> None:  # noqa: ARG002
        if facts is not None:
            self._state.nodes.put_speed(facts, arrival_s)

    def _keep_namespaces(self, names: Set[str]) -> None:
        for gone in self.namespaces.keys() - names:
            del self.namespaces[gone]

    def _put_namespace(self, name: str, namespace: Namespace, arrival_s: float) -> None:  # noqa: ARG002
        self.namespaces[name] = namespace

    def _drop_namespace(self, name: str) -> None:
        self.namespaces.pop(name, None)


def _read_namespace(obj: Json) -> Namespace:
    meta = obj["metadata"]
    return Namespace(dict(meta.get("labels") or {}), dict(meta.get("annotations") or {}))
