"""Pods bound to nodes, and pods assumed to be bound soon.

An extender without `bind` is never told which node the scheduler took, and the watch shows a binding only
later. So each answer assumes that its best node was taken. An assumed pod is forgotten when the watch shows
its binding, on whichever node, or after `assumed_pod_ttl_s`.

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
    def __init__(self, nodes: NodeTable, assumed_pod_ttl_s: float, creation_limit_s: float) -> None:
        self.nodes = nodes
        self._assumed_pod_ttl_s, self._creation_limit_s = assumed_pod_ttl_s, creation_limit_s
        self._bound: dict[str, PodFacts] = {}
        self._assumed: dict[str, tuple[PodFacts, float]] = {}  # in order of expiry: all have the same TTL
        self._creating_until: deque[tuple[float, str]] = deque()

    def put_pod(self, pod: PodFacts, now_s: float) -> None:
        before = self._bound.get(pod.uid)
        if before is None:
            if pod.creating:
                self._creating_until.append((now_s + self._creation_limit_s, pod.uid))
            before, _ = self._assumed.pop(pod.uid, (None, 0.0))
        elif not before.creating:  # it was created, or hung: it is never contention again
            pod = replace(pod, creating=False)
        self._bound[pod.uid] = pod
        self._exchange(before, pod)

    def drop_pod(self, uid: str) -> None:
        self.forget(uid)
        if (pod := self._bound.pop(uid, None)) is not None:
            self._release(pod)

    def keep_pods(self, uids: Set[str]) -> None:
        """Drop all other pods."""
        for uid in self._bound.keys() - uids:
            self.drop_pod(uid)

    def assume(self, pod: PodToPlace, node: str, now_s: float) -> None:
        """Count the pod as bound to `node`."""
        if pod.uid in self._bound:
            return
        self.forget(pod.uid)
        assumed = PodFacts(pod.uid, node, pod.cpu_millicores, pod.memory_bytes, creating=True)
        self._assumed[pod.uid] = (assumed, now_s + self._assumed_pod_ttl_s)
        self._hold(assumed)

    def forget(self, uid: str) -> None:
        """Stop assuming where the pod is: it was bound, or is placed again."""
        if (found := self._assumed.pop(uid, None)) is not None:
            self._release(found[0])

    def expire(self, now_s: float) -> int:
        """Forget assumed pods whose TTL is over (returns their number), and creations that hang."""
        expired = 0
        while self._assumed:
            uid, (_, until_s) = next(iter(self._assumed.items()))
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
        """The node that the watch shows the pod bound to."""
        pod = self._bound.get(uid)
        return pod.node if pod else None

    @property
    def counts(self) -> dict[str, int]:
        return {"nodes": len(self.nodes), "bound": len(self._bound), "assumed": len(self._assumed)}

    def _exchange(self, before: PodFacts | None, pod: PodFacts) -> None:
        """Hold `pod` in place of `before`. Mostly it is where it was assumed, and nothing changes."""
        if before is None or before.node != pod.node:
            if before is not None:
                self._release(before)
            self._hold(pod)
        elif pod != before:
            self.nodes.hold(
                pod.node,
                pod.cpu_millicores - before.cpu_millicores,
                pod.memory_bytes - before.memory_bytes,
                int(pod.creating) - int(before.creating),
            )

    def _hold(self, pod: PodFacts) -> None:
        self.nodes.hold(pod.node, pod.cpu_millicores, pod.memory_bytes, int(pod.creating))

    def _release(self, pod: PodFacts) -> None:
        self.nodes.hold(pod.node, -pod.cpu_millicores, -pod.memory_bytes, -int(pod.creating))
