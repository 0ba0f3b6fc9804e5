"""The cluster as planning needs it: nodes with their room, speed and scheduling terms. Owned by one thread.

A pod counts on its planned node from its creation on, so two functions do not plan the same room. It counts
only if a ComboFunc or an InPlaceDeployment that exists owns it. Otherwise anybody could take all room with an
annotation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from cluster_model.cluster_state import ClusterState, PodFacts
from cluster_model.contention import MEASURED, Contention
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
_ASSUMED_POD_TTL_S = 600.0  # long: `forget` comes first, however long writes wait in the queue


class Cluster:
    def __init__(
        self,
        default_tau_create_s: float,
        default_tau_resize_s: float,
        default_image_pull_s: float,
        creation_limit_s: float,
        contention: Contention = MEASURED,
    ) -> None:
        self._contention = contention
        self._table = NodeTable(default_tau_create_s, default_image_pull_s, "", contention)
        self._state = ClusterState(self._table, _ASSUMED_POD_TTL_S, creation_limit_s)
        self._default_tau_resize_s = default_tau_resize_s
        self._terms: dict[str, NodeTerms] = {}
        self._max_pods: dict[str, int] = {}
        self._tau_resize_s: dict[str, float] = {}
        self._measured: set[str] = set()
        self._node_of: dict[str, str] = {}  # pod's uid -> node it counts on
        self._pods_on: Counter[str] = Counter()
        self._assumed: dict[str, str] = {}
        self._owners: dict[str, Owner] = {}  # ComboFuncs and InPlaceDeployments that exist, by uid
        self._unbound_owner: dict[str, Owner] = {}  # owner of each unbound pod, by the pod's uid
        self._unbound: dict[Owner, dict[str, PodFacts]] = defaultdict(
            dict
        )  # pods with a planned node, by uid

    # --- news from the watches ---

    def put_node(self, obj: Json) -> None:
        name = obj["metadata"]["name"]
        self._table.put_node(read_node(obj))
        self._terms[name] = read_terms(obj)
        try:
            self._max_pods[name] = int(parse(obj["status"]["allocatable"]["pods"]))
        except (KeyError, TypeError, QuantityError):
            self._max_pods[name] = 0

    def drop_node(self, name: str) -> None:
        self._table.drop_node(name)
        self._terms.pop(name, None)
        self._max_pods.pop(name, None)

    def put_pod(self, obj: Json, now_s: float) -> None:
        metadata, bound = obj["metadata"], bool((obj.get("spec") or {}).get("nodeName"))
        uid, owner = metadata["uid"], None if bound else owner_of(metadata)
        facts = read_pod(obj if bound else _as_planned(obj)) if bound or owner else None
        self._forget_unbound(uid)
        if facts is None or not facts.node:
            self.drop_pod(uid)
            return
        if owner is not None:
            self._unbound[owner][uid] = facts
            self._unbound_owner[uid] = owner
            if self._owners.get(owner.uid) != owner:
                self._release(uid)
                return
        self._hold(facts, now_s)

    def drop_pod(self, uid: str) -> None:
        self._forget_unbound(uid)
        self._release(uid)

    def put_owner(self, namespace: str, uid: str, now_s: float) -> None:
        """The owner exists, so its unbound pods count."""
        self._owners[uid] = owner = Owner(namespace, uid)
        for facts in self._unbound.get(owner, {}).values():
            self._hold(facts, now_s)

    def drop_owner(self, uid: str) -> None:
        owner = self._owners.pop(uid, None)
        for pod in self._unbound.get(owner, {}) if owner else ():
            self._release(pod)

    def _hold(self, facts: PodFacts, now_s: float) -> None:
        self._state.put_pod(facts, now_s)
        self._count(facts.uid, facts.node)

    def _release(self, uid: str) -> None:
        self._state.drop_pod(uid)
        self._count(uid, "")

    def _forget_unbound(self, uid: str) -> None:
        owner = self._unbound_owner.pop(uid, None)
        if owner is not None:
            del self._unbound[owner][uid]
            if not self._unbound[owner]:
                del self._unbound[owner]

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
        """Expire assumed pods, hanging creations and old speeds."""
        self._state.expire(now_s)
        self._table.forget_old_speeds(now_s - max_speed_age_s)

    # --- pods this controller is about to create ---

    def assume(self, key: str, node: str, cpu_millicores: float, memory_bytes: float, now_s: float) -> None:
        """Count a pod that is about to be created, until `forget`."""
        self.forget(key)
        self._state.assume(PodToPlace(key, "", "", cpu_millicores, memory_bytes, 1, ()), node, now_s)
        self._assumed[key] = node
        self._pods_on[node] += 1

    def forget(self, key: str) -> None:
        self._state.forget(key)
        if (node := self._assumed.pop(key, None)) is not None:
            self._pods_on[node] -= 1

    # --- names known ---

    @property
    def pods(self) -> set[str]:
        """uids of pods that take room, or would if their owner existed."""
        return self._node_of.keys() | self._unbound_owner.keys()

    @property
    def nodes(self) -> set[str]:
        return set(self._terms)

    @property
    def measured(self) -> set[str]:
        """Names of nodes with a NodeSpeed."""
        return set(self._measured)

    # --- for decisions ---

    def lost(self, node: str) -> bool:
        """Whether the node is gone or not Ready, so that its pods cannot serve."""
        terms = self._terms.get(node)
        return terms is None or not terms.ready

    def room(self, name: str) -> Room | None:
        node = self._table.get(name)
        return None if node is None else self._room(node)

    def planner_nodes(self, pod_spec: Json) -> list[Node]:
        """All nodes, as pods of this template see them: which accept it, and what its image pulls cost."""
        images = [c["image"] for c in pod_spec["containers"] if c.get("image")]
        pulls_s = {image_name(i): self._table.image_pull_s(image_name(i)) for i in images}
        work = self._contention.work(len(pod_spec["containers"]))
        return [
            self._planner_node(node, pod_spec, work, pulls_s)
            for node in sorted(self._table, key=lambda node: node.name)
        ]

    def _planner_node(self, node: TableNode, pod_spec: Json, work: float, pulls_s: dict[str, float]) -> Node:
        room = self._room(node)
        return Node(
            name=node.name,
            cpu_millicores=round(node.cpu_millicores),
            memory_bytes=round(node.memory_bytes),
            cpu_free_millicores=max(room.cpu_millicores, 0),
            memory_free_bytes=max(room.memory_bytes, 0),
            pods_free=max(room.pods, 0),
            creating=node.creating,
            tau_create_s=node.tau_create_s * work,
            tau_resize_s=self._tau_resize_s.get(node.name, self._default_tau_resize_s),
            image_pull_s=sum(s for image, s in pulls_s.items() if image not in node.images),
            accepts=accepts(self._terms[node.name], pod_spec),
        )

    def _room(self, node: TableNode) -> Room:
        return Room(
            round(node.cpu_millicores - node.cpu_used),
            round(node.memory_bytes - node.memory_used),
            self._max_pods.get(node.name, 0) - self._pods_on[node.name],
        )

    def _count(self, uid: str, node: str) -> None:
        before = self._node_of.pop(uid, "")
        if before:
            self._pods_on[before] -= 1
        if node:
            self._node_of[uid] = node
            self._pods_on[node] += 1


def _as_planned(obj: Json) -> Json:
    """An unbound pod as if bound to its planned node, unless the scheduler found that it does not fit."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    tried = any(
        c.get("type") == "PodScheduled" and c.get("reason") == "Unschedulable"
        for c in (obj.get("status") or {}).get("conditions") or ()
    )
    planned = "" if tried else (metadata.get("annotations") or {}).get(PLANNED_NODE_ANNOTATION, "")
    return obj | {"spec": spec | {"nodeName": planned}}
