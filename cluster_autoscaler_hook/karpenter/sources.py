"""What is read of the cluster: four watches, and the view a decision rests on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cluster_autoscaler_hook.karpenter import claims as claim_objects
from cluster_autoscaler_hook.karpenter.demand import daemon_overhead
from cluster_autoscaler_hook.karpenter.model import (
    INSTANCE_TYPE,
    POOL_LABEL,
    Claim,
    ClusterNode,
    ClusterView,
    Kind,
    WaitingPod,
)
from cluster_autoscaler_hook.karpenter.pods import (
    Unmodelled,
    is_daemon,
    is_enforced,
    is_finished,
    is_gated,
    is_ours,
    is_waiting,
    kind_of,
)
from surgekit.kube import Kube
from surgekit.pods import PodError, requests
from surgekit.quantity import QuantityError, parse
from surgekit.watch import Watch

__all__ = ["ClusterSource", "PodRecord", "read_node", "read_pod"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What is kept of a pod: it waits and is ours, or it takes room on a node."""

    uid: str
    namespace: str
    name: str
    node: str
    cpu_millicores: int
    memory_bytes: int
    daemon: bool
    kind: Kind | None
    waiting: bool = False
    enforced: bool = False
    nominated: str = ""
    unmodelled: str = ""
    gated: bool = False

    @property
    def place(self) -> str:
        """Where it takes room: its node, or the one it was released for and is not bound to yet."""
        return self.node or ("" if self.gated or self.waiting else self.nominated)


def read_pod(obj: Json, pool: str, zone_known: bool = False) -> PodRecord | None:
    """None: it neither takes room nor waits for us."""
    node = obj["spec"].get("nodeName") or ""
    ours = is_ours(obj, pool)
    if is_finished(obj) or not (node or ours):
        return None
    kind, unmodelled = None, ""
    if ours:
        try:
            kind = kind_of(obj, pool, zone_known)
        except Unmodelled as error:
            unmodelled = str(error)
    try:
        cpu, memory = requests(obj)
    except PodError:
        cpu = memory = 0.0
    metadata = obj["metadata"]
    return PodRecord(
        metadata["uid"],
        metadata["namespace"],
        metadata["name"],
        node,
        round(cpu),
        round(memory),
        is_daemon(obj),
        kind,
        ours and is_waiting(obj),
        is_enforced(obj, pool),
        (obj.get("status") or {}).get("nominatedNodeName") or "",
        unmodelled,
        is_gated(obj),
    )


def read_node(obj: Json) -> ClusterNode:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels = metadata.get("labels") or {}
    amounts = status.get("allocatable") or {}
    return ClusterNode(
        name=metadata["name"],
        provider_id=spec.get("providerID") or "",
        instance_class=labels.get(INSTANCE_TYPE, ""),
        labels=labels,
        cpu_millicores=int(_amount(amounts, "cpu") * 1000 + 1e-6),
        memory_bytes=int(_amount(amounts, "memory")),
        pods=int(_amount(amounts, "pods")),
        registered=labels.get("karpenter.sh/registered") == "true",
        do_not_disrupt=(metadata.get("annotations") or {}).get("karpenter.sh/do-not-disrupt") == "true",
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def _amount(amounts: Json, name: str) -> float:
    try:
        return parse(amounts.get(name, 0))
    except QuantityError:
        return 0.0


class ClusterSource:
    """Watches pods, our nodes, our claims and DaemonSets; `changed` is called after each batch of news."""

    def __init__(self, kube: Kube, pool: str, zone_known: bool, changed: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._pool, self._zone_known, self._changed = pool, zone_known, changed
        self._pods: dict[str, PodRecord] = {}
        self._nodes: dict[str, ClusterNode] = {}
        self._claims: dict[str, Claim] = {}
        self._daemon_sets: dict[str, Json] = {}
        self._refused: list[Claim] = []
        self.known_claims: set[str] = set()  # every name the watch has told of
        ours = {"labelSelector": f"{POOL_LABEL}={pool}"}
        self._watches = {
            "pods": Watch(kube, "/api/v1/pods", _Table(self, self._put_pod, self._pods)),
            "nodes": Watch(kube, "/api/v1/nodes", _Table(self, self._put_node, self._nodes), **ours),
            "claims": Watch(
                kube,
                claim_objects.PATH,
                _Table(self, self._put_claim, self._claims, self._gone_claim),
                **ours,
            ),
            "daemonsets": Watch(
                kube, "/apis/apps/v1/daemonsets", _Table(self, self._put_daemon_set, self._daemon_sets)
            ),
        }

    def start(self) -> None:
        for watch in self._watches.values():
            watch.start()

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.stop()

    def ages_s(self, now_s: float) -> dict[str, float]:
        return {name: watch.age_s(now_s) for name, watch in self._watches.items()}

    def overhead(self) -> tuple[int, int, int]:
        with self._lock:
            return daemon_overhead(list(self._daemon_sets.values()), self._pool)

    def refused(self) -> list[Claim]:
        """Claims that went away before they were launched, since last asked."""
        with self._lock:
            refused, self._refused = self._refused, []
        return refused

    def view(self, now_s: float, with_shadow: bool = True) -> ClusterView:
        """`with_shadow`: with the pods that are only planned for."""
        with self._lock:
            pods, nodes = list(self._pods.values()), dict(self._nodes)
            claims = tuple(sorted(self._claims.values(), key=lambda c: (c.created, c.name)))
        waiting = tuple(
            WaitingPod(p.uid, p.namespace, p.name, p.kind, p.nominated, p.enforced, p.gated)
            for p in pods
            if p.waiting and p.kind and not p.daemon and (p.enforced or with_shadow)
        )
        left = Counter(p.unmodelled for p in pods if p.waiting and p.unmodelled)
        return ClusterView(
            waiting, claims, _with_pods(nodes, pods), dict(left), max(self.ages_s(now_s).values())
        )

    def tell(self) -> None:
        self._changed()

    @property
    def lock(self) -> threading.Lock:
        return self._lock

    def _put_pod(self, obj: Json) -> None:
        record = read_pod(obj, self._pool, self._zone_known)
        if record is None:
            self._pods.pop(obj["metadata"]["uid"], None)
        else:
            self._pods[record.uid] = record

    def _put_node(self, obj: Json) -> None:
        self._nodes[obj["metadata"]["uid"]] = read_node(obj)

    def _put_claim(self, obj: Json) -> None:
        claim, uid = claim_objects.read_claim(obj), obj["metadata"]["uid"]
        before = self._claims.get(uid)
        if claim.deleting and not claim.launched and not (before and before.deleting):
            self._refused.append(claim)
        self.known_claims.add(claim.name)
        self._claims[uid] = claim

    def _gone_claim(self, uid: str) -> None:
        before = self._claims.pop(uid, None)
        if before and not before.launched and not before.deleting:
            self._refused.append(before)

    def _put_daemon_set(self, obj: Json) -> None:
        self._daemon_sets[obj["metadata"]["uid"]] = obj


def _with_pods(nodes: dict[str, ClusterNode], pods: list[PodRecord]) -> dict[str, ClusterNode]:
    """Our nodes by name, with what is bound to each."""
    by_name = {node.name: node for node in nodes.values()}
    bound: dict[str, list[PodRecord]] = {name: [] for name in by_name}
    for pod in pods:
        if pod.place in bound:
            bound[pod.place].append(pod)
    return {
        name: replace(
            node,
            used_cpu_millicores=sum(p.cpu_millicores for p in bound[name]),
            used_memory_bytes=sum(p.memory_bytes for p in bound[name]),
            used_pods=len(bound[name]),
            workload_pods=sum(not p.daemon for p in bound[name]),
            bound=dict(Counter(p.kind.id for p in bound[name] if p.kind)),
        )
        for name, node in by_name.items()
    }


class _Table:
    """One watch's consumer: keeps one of the source's tables."""

    def __init__(
        self,
        source: ClusterSource,
        put: Callable[[Json], None],
        table: dict[str, Any],
        gone: Callable[[str], None] | None = None,
    ) -> None:
        self._source, self._put, self._table = source, put, table
        self._gone = gone or self._drop

    def _drop(self, uid: str) -> None:
        self._table.pop(uid, None)

    def replace(self, objects: list[Json], arrival_s: float) -> None:  # noqa: ARG002  # the watch's protocol
        with self._source.lock:
            for uid in set(self._table) - {obj["metadata"]["uid"] for obj in objects}:
                self._gone(uid)
            for obj in objects:
                self._put(obj)
        self._source.tell()

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:  # noqa: ARG002  # the watch's protocol
        with self._source.lock:
            if kind == "DELETED":
                self._gone(obj["metadata"]["uid"])
            else:
                self._put(obj)
        self._source.tell()
