"""What is bound to the nodes, and what the extender presumes will be.

An extender without `bind` is never told the scheduler's choice, and a binding reaches the watch only
later; so every answer presumes that its best node was taken. A presumption ends when the binding is
seen (wherever it went), or after `presume_s` if it never is.

Owned by one thread. Time is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from dataclasses import dataclass, replace

from cluster_model.model import PodToPlace
from cluster_model.node_table import NodeTable

__all__ = ["ClusterState", "PodFacts"]


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod bound to a node and not finished. `creating`: its containers have not all started."""

    uid: str
    node: str
    cpu_millicores: float
    memory_bytes: float
    creating: bool


class ClusterState:
    def __init__(self, nodes: NodeTable, presume_s: float, creation_limit_s: float) -> None:
        self.nodes = nodes
        self._presume_s, self._creation_limit_s = presume_s, creation_limit_s
        self._bound: dict[str, PodFacts] = {}
        self._presumed: dict[str, tuple[PodFacts, float]] = {}  # in order of expiry: one duration for all
        self._creating_until: deque[tuple[float, str]] = deque()

    def put_pod(self, pod: PodFacts, now_s: float) -> None:
        self.forget(pod.uid)
        before = self._bound.get(pod.uid)
        if before is None:
            if pod.creating:
                self._creating_until.append((now_s + self._creation_limit_s, pod.uid))
        else:
            self._release(before)
            if not before.creating:  # created once, or hung: never contention again
                pod = replace(pod, creating=False)
        self._bound[pod.uid] = pod
        self._hold(pod)

    def drop_pod(self, uid: str) -> None:
        self.forget(uid)
        if (pod := self._bound.pop(uid, None)) is not None:
            self._release(pod)

    def keep_pods(self, uids: Set[str]) -> None:
        """All others are gone."""
        for uid in self._bound.keys() - uids:
            self.drop_pod(uid)

    def presume(self, pod: PodToPlace, node: str, now_s: float) -> None:
        """Count the pod as if `node` had taken it."""
        if pod.uid in self._bound:
            return
        self.forget(pod.uid)
        presumed = PodFacts(pod.uid, node, pod.cpu_millicores, pod.memory_bytes, creating=True)
        self._presumed[pod.uid] = (presumed, now_s + self._presume_s)
        self._hold(presumed)

    def forget(self, uid: str) -> None:
        """Whatever was presumed of the pod no longer holds: it was bound, or is placed anew."""
        if (found := self._presumed.pop(uid, None)) is not None:
            self._release(found[0])

    def expire(self, now_s: float) -> int:
        """End presumptions that never came true, and creations that hang; how many presumptions."""
        expired = 0
        while self._presumed:
            uid, (_, until_s) = next(iter(self._presumed.items()))
            if until_s > now_s:
                break
            self.forget(uid)
            expired += 1
        while self._creating_until and self._creating_until[0][0] <= now_s:
            pod = self._bound.get(self._creating_until.popleft()[1])
            if pod is not None and pod.creating:
                self._release(pod)
                self._bound[pod.uid] = calm = replace(pod, creating=False)
                self._hold(calm)
        return expired

    def node_of(self, uid: str) -> str | None:
        """Where the watch saw the pod bound."""
        pod = self._bound.get(uid)
        return pod.node if pod else None

    @property
    def counts(self) -> dict[str, int]:
        return {"nodes": len(self.nodes), "bound": len(self._bound), "presumed": len(self._presumed)}

    def _hold(self, pod: PodFacts) -> None:
        self.nodes.hold(pod.node, pod.cpu_millicores, pod.memory_bytes, int(pod.creating))

    def _release(self, pod: PodFacts) -> None:
        self.nodes.hold(pod.node, -pod.cpu_millicores, -pod.memory_bytes, -int(pod.creating))
