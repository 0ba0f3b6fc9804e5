"""The cluster as planning needs it: nodes with their room, speed and terms. Owned by one thread.

Pods on their way to a planned node count there from their creation on, so two functions do not plan the same
room; if they are ours, that is, and their owner exists: else anybody could take all room by an annotation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from cluster_model.cluster_state import ClusterState, PodFacts
from cluster_model.model import PodToPlace
from cluster_model.node_fit import NodeTerms, accepts, read_terms
from cluster_model.node_table import Node as TableNode
from cluster_model.node_table import NodeTable
from cluster_model.readers import read_node, read_pod, read_speed
from combofunc.labels import PLANNED_NODE_ANNOTATION
from combofunc.planner.model import Node
from combofunc.pods.ownership import Owner, owner_of
from combofunc.pods.steps import Room
from surgekit.kube.pods import image_name
from surgekit.kube.quantity import QuantityError, parse

__all__ = ["Cluster"]

Json = dict[str, Any]
_PRESUMED_S = 600.0  # `forget` comes first, however long writes wait in the queue


class Cluster:
    def __init__(
        self,
        default_tau_create_s: float,
        default_tau_resize_s: float,
        default_image_pull_s: float,
        creation_limit_s: float,
    ) -> None:
        self._table = NodeTable(default_tau_create_s, default_image_pull_s, seed="")
        self._state = ClusterState(self._table, _PRESUMED_S, creation_limit_s)
        self._default_tau_resize_s = default_tau_resize_s
        self._terms: dict[str, NodeTerms] = {}
        self._pods_most: dict[str, int] = {}
        self._tau_resize_s: dict[str, float] = {}
        self._measured: set[str] = set()
        self._place: dict[str, str] = {}  # pod uid -> node it counts on
        self._pods_on: Counter[str] = Counter()
        self._presumed: dict[str, str] = {}
        self._owners: dict[str, Owner] = {}  # by uid: ComboFuncs and InPlaceDeployments that exist
        self._way_of: dict[str, Owner] = {}  # by the pod's uid
        self._on_their_way: dict[Owner, dict[str, PodFacts]] = defaultdict(dict)  # planned, not bound; by uid

    # --- what the watches tell ---

    def put_node(self, obj: Json) -> None:
        name = obj["metadata"]["name"]
        self._table.put_node(read_node(obj))
        self._terms[name] = read_terms(obj)
        try:
            self._pods_most[name] = int(parse(obj["status"]["allocatable"]["pods"]))
        except (KeyError, TypeError, QuantityError):
            self._pods_most[name] = 0

    def drop_node(self, name: str) -> None:
        self._table.drop_node(name)
        self._terms.pop(name, None)
        self._pods_most.pop(name, None)

    def put_pod(self, obj: Json, now_s: float) -> None:
        metadata, bound = obj["metadata"], bool((obj.get("spec") or {}).get("nodeName"))
        uid, owner = metadata["uid"], None if bound else owner_of(metadata)
        facts = read_pod(obj if bound else _placed(obj)) if bound or owner else None
        self._not_on_its_way(uid)
        if facts is None or not facts.node:
            self.drop_pod(uid)
            return
        if owner is not None:
            self._on_their_way[owner][uid] = facts
            self._way_of[uid] = owner
            if self._owners.get(owner.uid) != owner:
                self._release(uid)
                return
        self._hold(facts, now_s)

    def drop_pod(self, uid: str) -> None:
        self._not_on_its_way(uid)
        self._release(uid)

    def put_owner(self, namespace: str, uid: str, now_s: float) -> None:
        """It exists: its pods on their way count."""
        self._owners[uid] = owner = Owner(namespace, uid)
        for facts in self._on_their_way.get(owner, {}).values():
            self._hold(facts, now_s)

    def drop_owner(self, uid: str) -> None:
        owner = self._owners.pop(uid, None)
        for pod in self._on_their_way.get(owner, {}) if owner else ():
            self._release(pod)

    def _hold(self, facts: PodFacts, now_s: float) -> None:
        self._state.put_pod(facts, now_s)
        self._count(facts.uid, facts.node)

    def _release(self, uid: str) -> None:
        self._state.drop_pod(uid)
        self._count(uid, "")

    def _not_on_its_way(self, uid: str) -> None:
        owner = self._way_of.pop(uid, None)
        if owner is not None:
            del self._on_their_way[owner][uid]
            if not self._on_their_way[owner]:
                del self._on_their_way[owner]

    def put_speed(self, obj: Json, now_s: float) -> None:
        self._measured.add(obj["metadata"]["name"])
        if (speed := read_speed(obj)) is not None:
            self._table.put_speed(speed, now_s)
        tau_s = (obj.get("status") or {}).get("tauResizeSeconds")
        if isinstance(tau_s, int | float) and 0 < tau_s < 1e5:
            self._tau_resize_s[obj["metadata"]["name"]] = float(tau_s)

    def drop_speed(self, name: str) -> None:
        self._measured.discard(name)
        self._table.drop_speed(name)
        self._tau_resize_s.pop(name, None)

    def age(self, now_s: float, max_speed_age_s: float) -> None:
        """What time alone changes."""
        self._state.expire(now_s)
        self._table.forget_old_speeds(now_s - max_speed_age_s)

    # --- what this controller is about to do ---

    def presume(self, key: str, node: str, cpu_millicores: float, memory_bytes: float, now_s: float) -> None:
        """Count a pod that is being created, until `forget`."""
        self.forget(key)
        self._state.presume(PodToPlace(key, "", "", cpu_millicores, memory_bytes, 1, ()), node, now_s)
        self._presumed[key] = node
        self._pods_on[node] += 1

    def forget(self, key: str) -> None:
        self._state.forget(key)
        if (node := self._presumed.pop(key, None)) is not None:
            self._pods_on[node] -= 1

    # --- what is known ---

    @property
    def pods(self) -> set[str]:
        """uids of those that take room, or would if their owner existed."""
        return self._place.keys() | self._way_of.keys()

    @property
    def nodes(self) -> set[str]:
        return set(self._terms)

    @property
    def measured(self) -> set[str]:
        """Nodes with a NodeSpeed."""
        return set(self._measured)

    # --- what decisions ask ---

    def lost(self, node: str) -> bool:
        """Whether what runs there cannot serve: the node is gone, or not Ready."""
        terms = self._terms.get(node)
        return terms is None or not terms.ready

    def room(self, name: str) -> Room | None:
        node = self._table.get(name)
        return None if node is None else self._room(node)

    def planner_nodes(self, pod_spec: Json) -> list[Node]:
        """All nodes, as they are to pods of this template."""
        images = [c["image"] for c in pod_spec["containers"] if c.get("image")]
        pulls_s = {image_name(i): self._table.image_pull_s(image_name(i)) for i in images}
        return [
            self._planner_node(node, pod_spec, pulls_s)
            for node in sorted(self._table, key=lambda node: node.name)
        ]

    def _planner_node(self, node: TableNode, pod_spec: Json, pulls_s: dict[str, float]) -> Node:
        room = self._room(node)
        return Node(
            name=node.name,
            cpu_millicores=round(node.cpu_millicores),
            memory_bytes=round(node.memory_bytes),
            cpu_free_millicores=max(room.cpu_millicores, 0),
            memory_free_bytes=max(room.memory_bytes, 0),
            pods_free=max(room.pods, 0),
            creating=node.creating,
            tau_create_s=node.tau_create_s,
            tau_resize_s=self._tau_resize_s.get(node.name, self._default_tau_resize_s),
            image_pull_s=sum(s for image, s in pulls_s.items() if image not in node.images),
            accepts=accepts(self._terms[node.name], pod_spec),
        )

    def _room(self, node: TableNode) -> Room:
        return Room(
            round(node.cpu_millicores - node.cpu_used),
            round(node.memory_bytes - node.memory_used),
            self._pods_most.get(node.name, 0) - self._pods_on[node.name],
        )

    def _count(self, uid: str, node: str) -> None:
        before = self._place.pop(uid, "")
        if before:
            self._pods_on[before] -= 1
        if node:
            self._place[uid] = node
            self._pods_on[node] += 1


def _placed(obj: Json) -> Json:
    """One that is not bound yet, as if it were on its planned node; unless it cannot go there."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    tried = any(
        c.get("type") == "PodScheduled" and c.get("reason") == "Unschedulable"
        for c in (obj.get("status") or {}).get("conditions") or ()
    )
    planned = "" if tried else (metadata.get("annotations") or {}).get(PLANNED_NODE_ANNOTATION, "")
    return obj | {"spec": spec | {"nodeName": planned}}
