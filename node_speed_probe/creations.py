"""Track which pods are being created on which node, and which creations give a sample.

A creation begins when a pod is first seen bound and ends when its containers have started. It gives no
sample if the watch missed its begin or end, if it waited for an image for an unknown time, or if it failed.
sharing.py computes the sample.

Owned by one thread. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cluster_model.contention import Contention
from node_speed_probe.model import (
    CreationAborted,
    CreationMeasured,
    NodeGone,
    NodeSeen,
    NodesListed,
    Outcome,
    PodGone,
    PodSeen,
    PodsListed,
    PullEnded,
    PullStarted,
    Sample,
    Stage,
    Unfinished,
)
from node_speed_probe.sharing import Creation, SharedNode

__all__ = ["CreationTracker"]

# Stalled at so many times the estimate: 2 if a later creation is already done (less is mere scatter), else
# 5, because the node itself may have slowed down.
_STALLED_OVERTAKEN_FACTOR, _STALLED_FACTOR = 2.0, 5.0
_HUNG_FACTOR = 20.0


class CreationTracker:
    """The creations of all nodes."""

    def __init__(self, contention: Contention, tau_s: Callable[[str], float]) -> None:
        """`tau_s`: the present estimate of a node's tau_c."""
        self._contention, self._tau_s = contention, tau_s
        self._nodes: dict[str, SharedNode] = {}
        self._node_of: dict[str, str] = {}  # uid of a pod in creation -> node
        self._done: set[str] = set()  # pods that are already created

    def observe(self, fact: object, now_s: float) -> list[Outcome]:
        """Apply a fact; return the creations that it ends."""
        match fact:
            case PodSeen():
                return self._pod(fact, now_s, unsampled="")
            case PodGone():
                self._done.discard(fact.uid)
                return self._abort(fact.uid, "Deleted", now_s)
            case PodsListed():
                return self._pods_listed(fact, now_s)
            case NodeSeen():
                self._node(fact.name, now_s).images_listed = fact.images
            case NodeGone():
                return self._drop_node(fact.name, now_s)
            case NodesListed():
                kept = {n.name for n in fact.nodes} | fact.unread
                ended = [o for name in self._nodes.keys() - kept for o in self._drop_node(name, now_s)]
                for node in fact.nodes:
                    self._node(node.name, now_s).images_listed = node.images
                return ended
            case PullStarted():
                self._pull(fact.pod_uid, fact.image, True, now_s)
            case PullEnded():
                self._pull(fact.pod_uid, fact.image, False, now_s)
        return []

    def tick(self, hung_after_s: float, now_s: float) -> list[Outcome]:
        """Set creations aside that are far beyond their node's estimate, and give up those that hang."""
        ended: list[Outcome] = []
        for name in set(self._node_of.values()):
            node, expected_s = self._nodes[name], self._tau_s(name)
            node.advance(now_s)
            for uid, creation in list(node.creations.items()):
                progress_s = creation.progress_s(now_s)
                factor = _STALLED_OVERTAKEN_FACTOR if node.overtook(creation) else _STALLED_FACTOR
                stalled = progress_s > factor * expected_s
                if stalled != creation.stalled:
                    creation.stalled = stalled
                    node.place(creation)
                if progress_s > _HUNG_FACTOR * expected_s and now_s - creation.began_s > hung_after_s:
                    ended += self._abort(uid, "Hung", now_s)
                    self._done.add(uid)
        return ended

    def creating(self, node: str) -> int:
        """k_n: creations that share the node's speed now."""
        known = self._nodes.get(node)
        return known.creating if known else 0

    def in_progress(self, node: str) -> int:
        """All creations on the node, paused and stalled ones included."""
        known = self._nodes.get(node)
        return len(known.creations) if known else 0

    def virtual_s(self, node: str, now_s: float) -> float:
        """A node's V(now)."""
        known = self._node(node, now_s)
        known.advance(now_s)
        return known.sharing.value_s

    def unfinished(self, node: str, now_s: float) -> Iterator[Unfinished]:
        """Creations in progress whose start was seen."""
        known = self._nodes.get(node)
        if known is None:
            return
        known.advance(now_s)
        for creation in known.creations.values():
            if not creation.unsampled and not creation.unexplained:
                progress_s = creation.progress_s(now_s)
                yield Unfinished(creation.began_s, progress_s, known.overtook(creation))

    def _node(self, name: str, now_s: float) -> SharedNode:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = SharedNode(self._contention.creation, now_s)
        return node

    def _pod(self, pod: PodSeen, now_s: float, unsampled: str) -> list[Outcome]:
        if pod.uid in self._done:
            return []
        if pod.uid in self._node_of:
            return self._advance_pod(pod, now_s)
        if pod.stage in (Stage.STARTED, Stage.BROKEN):
            self._end(pod)
            return []
        node = self._node(pod.node, now_s)
        node.advance(now_s)
        missing = set(pod.images) - node.images_listed - node.images_used
        work = self._contention.work(pod.containers)
        latency_s = self._contention.creation.latency * work * self._tau_s(pod.node)
        creation = Creation(
            pod.node, max(pod.containers, 1), work, now_s, latency_s, unsampled=unsampled, unexplained=missing
        )
        creation.running_init = pod.stage is Stage.RUNNING_INIT
        node.creations[pod.uid] = creation
        node.place(creation)
        self._node_of[pod.uid] = pod.node
        return []

    def _advance_pod(self, pod: PodSeen, now_s: float) -> list[Outcome]:
        node = self._nodes[self._node_of[pod.uid]]
        creation = node.creations[pod.uid]
        if pod.stage in (Stage.STARTED, Stage.BROKEN):
            self._end(pod)
            if pod.stage is Stage.BROKEN or pod.broken_by:
                return self._abort(pod.uid, pod.broken_by, now_s)
            return [self._finish(pod.uid, now_s)]
        running_init = pod.stage is Stage.RUNNING_INIT
        if running_init != creation.running_init:
            node.advance(now_s)
            creation.running_init = running_init
            node.place(creation)
        return []

    def _end(self, pod: PodSeen) -> None:
        self._done.add(pod.uid)
        if pod.stage is Stage.STARTED and pod.node in self._nodes:
            self._nodes[pod.node].images_used.update(pod.images)

    def _finish(self, uid: str, now_s: float) -> Outcome:
        node = self._nodes[self._node_of.pop(uid)]
        node.advance(now_s)
        creation = node.remove(uid)
        tau_s = creation.progress_s(now_s)
        reason = creation.unsampled
        if creation.unexplained or creation.pulling:
            # It waited for an image, and the start or end of the pull is unknown.
            reason = reason or "PullUnknown"
        if reason or tau_s <= 0:
            return CreationAborted(creation.node, reason or "Instant")
        node.latest_done_began_s = max(node.latest_done_began_s, creation.began_s)
        return CreationMeasured(creation.node, Sample(creation.began_s, now_s, tau_s, creation.containers))

    def _abort(self, uid: str, reason: str, now_s: float) -> list[Outcome]:
        name = self._node_of.pop(uid, None)
        if name is None:
            return []
        self._nodes[name].advance(now_s)
        self._nodes[name].remove(uid)
        return [CreationAborted(name, reason)]

    def _pods_listed(self, listed: PodsListed, now_s: float) -> list[Outcome]:
        """Apply a whole list. What happened while the watch was interrupted is unknown, so those creations
        give no samples."""
        present = {p.uid for p in listed.pods} | listed.unread
        self._done &= present
        ended = [o for uid in self._node_of.keys() - present for o in self._abort(uid, "Deleted", now_s)]
        for uid, name in self._node_of.items():
            self._nodes[name].creations[uid].unsampled = "Unwatched"
        for pod in listed.pods:
            ended += self._pod(pod, now_s, unsampled="Unwatched")
        return ended

    def _pull(self, uid: str, image: str, begins: bool, now_s: float) -> None:
        name = self._node_of.get(uid)
        if name is None:
            return
        node = self._nodes[name]
        creation = node.creations[uid]
        node.advance(now_s)
        creation.unexplained.discard(image)
        if begins:
            creation.pulling.add(image)
        else:
            creation.pulling.discard(image)
        node.place(creation)

    def _drop_node(self, name: str, now_s: float) -> list[Outcome]:
        gone = [uid for uid, node in self._node_of.items() if node == name]
        ended = [o for uid in gone for o in self._abort(uid, "NodeGone", now_s)]
        self._done.update(gone)
        self._nodes.pop(name, None)
        return ended
