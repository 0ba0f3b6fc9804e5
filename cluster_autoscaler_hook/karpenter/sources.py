"""What is read of the cluster: five watches, and the view a decision rests on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cluster_autoscaler_hook.karpenter import claims as claim_objects
from cluster_autoscaler_hook.karpenter.demand import architectures, daemon_overhead
from cluster_autoscaler_hook.karpenter.labels import (
    ARCHITECTURE,
    DO_NOT_DISRUPT,
    GATE,
    INSTANCE_TYPE,
    OPT_IN_LABEL,
    POOL_LABEL,
    REGISTERED,
)
from cluster_autoscaler_hook.karpenter.model import Claim, ClusterNode, ClusterView, Kind, PendingPod
from cluster_autoscaler_hook.karpenter.pods import (
    Unmodelled,
    gates,
    is_daemon,
    is_finished,
    is_unschedulable,
    kind_of,
    tolerates,
)
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.kube.checked import checked
from surgekit.kube.client import Kube
from surgekit.kube.pods import PodError, requests
from surgekit.kube.quantity import QuantityError, parse
from surgekit.kube.table import Seen, Table, Unreadable
from surgekit.kube.watch import Watch
from surgekit.process.modes import Mode

__all__ = ["ClusterSource", "PodRecord", "pending", "read_node", "read_pod"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What is kept of a pod: it takes room on a node, or it has none."""

    uid: str
    namespace: str
    name: str
    node: str
    cpu_millicores: int
    memory_bytes: int
    daemon: bool
    kind: Kind | None
    unmodelled: str = ""  # why there is no kind
    opt_in: str | None = None  # of its own label; None: its namespace decides
    gates: tuple[str, ...] = ()
    unschedulable: bool = False
    nominated: str = ""
    leaving: bool = False

    @property
    def place(self) -> str:
        """Where it takes room: its node, or the one it was released for and is not bound to yet."""
        return self.node or ("" if self.gates or self.unschedulable else self.nominated)


@checked
def read_pod(obj: Json, pool: str) -> PodRecord | None:
    """None: it takes no room and needs none, or it waits for the nodes of another pool."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    node = spec.get("nodeName") or ""
    behind, welcome = gates(obj), tolerates(obj, pool)
    if is_finished(obj) or (not node and not welcome and _waits_elsewhere(spec)):
        return None
    kind, unmodelled = None, ""
    if welcome or not node:  # else it is not on a node of ours
        try:
            kind = kind_of(obj)
            if GATE in behind and not welcome:
                kind, unmodelled = None, f"no toleration for the taint {POOL_LABEL}={pool}"
        except Unmodelled as error:
            unmodelled = str(error)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            unmodelled = f"it cannot be read: {type(error).__name__}"
    try:
        cpu, memory = requests(obj)
    except PodError:
        cpu = memory = 0.0
    return PodRecord(
        metadata["uid"],
        metadata["namespace"],
        metadata["name"],
        node,
        round(cpu),
        round(memory),
        is_daemon(obj),
        kind,
        unmodelled,
        (metadata.get("labels") or {}).get(OPT_IN_LABEL),
        behind,
        is_unschedulable(obj),
        status.get("nominatedNodeName") or "",
        bool(metadata.get("deletionTimestamp")),
    )


def _waits_elsewhere(spec: Json) -> bool:
    return any(t.get("key") == POOL_LABEL and t.get("value") for t in spec.get("tolerations") or ())


def pending(pods: list[PodRecord], namespaces: dict[str, str]) -> tuple[PendingPod, ...]:
    """The pods without a node; `namespaces` has what each namespace's label says."""
    return tuple(
        PendingPod(
            p.uid,
            p.namespace,
            p.name,
            p.kind,
            p.unmodelled,
            namespaces.get(p.namespace, "") if p.opt_in is None else p.opt_in,
            p.gates,
            p.unschedulable,
            p.nominated,
        )
        for p in pods
        if not (p.node or p.leaving or p.daemon)
    )


@checked
def read_node(obj: Json) -> ClusterNode:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels = metadata.get("labels") or {}
    amounts = status.get("allocatable") or {}
    kept_off = any(
        t.get("key") != POOL_LABEL and t.get("effect") in ("NoSchedule", "NoExecute")
        for t in spec.get("taints") or ()
    )
    return ClusterNode(
        name=metadata["name"],
        provider_id=spec.get("providerID") or "",
        instance_class=labels.get(INSTANCE_TYPE, ""),
        labels=labels,
        cpu_millicores=int(_amount(amounts, "cpu") * 1000 + 1e-6),
        memory_bytes=int(_amount(amounts, "memory")),
        pods=int(_amount(amounts, "pods")),
        ready=labels.get(REGISTERED) == "true" and not kept_off,
        do_not_disrupt=(metadata.get("annotations") or {}).get(DO_NOT_DISRUPT) == "true",
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def _amount(amounts: Json, name: str) -> float:
    try:
        return parse(amounts.get(name, 0))
    except QuantityError:
        return 0.0


class ClusterSource:
    """Watches pods, namespaces, nodes, our claims and DaemonSets (in mode off: pods, whose gates go off);
    `changed` is called after each batch of news."""

    def __init__(self, kube: Kube, settings: Settings, changed: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._settings, self._changed = settings, changed
        self._pool = pool = settings.pool
        self._pods: dict[str, PodRecord] = {}
        self._namespaces: dict[str, tuple[str, str]] = {}  # uid -> name, what its label says
        self._nodes: dict[str, ClusterNode] = {}
        self._other_nodes: dict[str, dict[str, str]] = {}  # uid -> its label of the architecture
        self._claims: dict[str, Claim] = {}
        self._daemon_sets: dict[str, Json] = {}
        self._refused: list[Claim] = []
        self.known_claims: set[str] = set()  # every name the watch has told of
        self.unreadable = Unreadable(kube, "node_planner")
        self._our_nodes = _Rows(self, self._put_node, self._nodes)
        self._our_claims = _Rows(self, self._put_claim, self._claims, self._gone_claim)
        ours = {"labelSelector": f"{POOL_LABEL}={pool}"}
        self._watches = {"pods": Watch(kube, "/api/v1/pods", _Rows(self, self._put_pod, self._pods))}
        if settings.mode is Mode.OFF:
            return
        self._watches |= {
            "namespaces": Watch(
                kube, "/api/v1/namespaces", _Rows(self, self._put_namespace, self._namespaces)
            ),
            "nodes": Watch(kube, "/api/v1/nodes", self._our_nodes, **ours),
            "other nodes": Watch(
                kube,
                "/api/v1/nodes",
                _Rows(self, self._put_other_node, self._other_nodes),
                labelSelector=f"{POOL_LABEL}!={pool}",
            ),
            "claims": Watch(kube, claim_objects.PATH, self._our_claims, **ours),
            "daemonsets": Watch(
                kube, "/apis/apps/v1/daemonsets", _Rows(self, self._put_daemon_set, self._daemon_sets)
            ),
        }

    def start(self) -> None:
        for watch in self._watches.values():
            watch.start()

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.stop()

    def ages_s(self, now_s: float) -> dict[str, float]:
        """Infinite where a node or a claim of ours was never read: what it holds would be rented again."""
        unknown = {"nodes": self._our_nodes.unknown, "claims": self._our_claims.unknown}
        return {
            name: float("inf") if unknown.get(name) else watch.age_s(now_s)
            for name, watch in self._watches.items()
        }

    def overhead(self) -> tuple[int, int, int]:
        with self._lock:
            return daemon_overhead(list(self._daemon_sets.values()), self._pool)

    def refused(self) -> list[Claim]:
        """Claims that went away before they were launched, since last asked."""
        with self._lock:
            refused, self._refused = self._refused, []
        return refused

    def view(self) -> ClusterView:
        with self._lock:
            pods, nodes = list(self._pods.values()), dict(self._nodes)
            namespaces = dict(self._namespaces.values())
            all_labels = [*(node.labels for node in nodes.values()), *self._other_nodes.values()]
            claims = tuple(sorted(self._claims.values(), key=lambda c: (c.created, c.name)))
        return ClusterView(
            pending(pods, namespaces),
            claims,
            _with_pods(nodes, pods),
            architectures(all_labels, self._settings),
        )

    def tell(self) -> None:
        self._changed()

    @property
    def lock(self) -> threading.Lock:
        return self._lock

    def _put_pod(self, obj: Json) -> None:
        record = read_pod(obj, self._pool)
        if record is None:
            self._pods.pop(obj["metadata"]["uid"], None)
        else:
            self._pods[record.uid] = record

    def _put_namespace(self, obj: Json) -> None:
        metadata = obj["metadata"]
        says = (metadata.get("labels") or {}).get(OPT_IN_LABEL, "")
        self._namespaces[metadata["uid"]] = (metadata["name"], str(says))

    def _put_other_node(self, obj: Json) -> None:
        labels = obj["metadata"].get("labels") or {}
        self._other_nodes[obj["metadata"]["uid"]] = {ARCHITECTURE: str(labels.get(ARCHITECTURE, ""))}

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
        daemon_overhead([obj], self._pool)  # raises where `overhead` would
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
            apart=frozenset(token for p in bound[name] if p.kind for token in p.kind.apart),
        )
        for name, node in by_name.items()
    }


class _Rows(Table[Json]):
    """One watch's consumer: keeps one of the source's tables, by uid."""

    def __init__(
        self,
        source: ClusterSource,
        put: Callable[[Json], None],
        table: dict[str, Any],
        gone: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(source.unreadable)
        self._source, self._put, self._table = source, put, table
        self._gone = gone or self._drop
        self.unknown: set[str] = set()  # uids of those that are there and were never read

    def _drop(self, uid: str) -> None:
        self._table.pop(uid, None)

    def read(self, obj: Json) -> Json:
        return obj

    def listed(self, there: Sequence[Seen], arrival_s: float) -> None:
        super().listed(there, arrival_s)
        self._source.tell()

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        uids = {obj.uid for obj in there}
        with self._source.lock:
            self.unknown &= uids
            for uid in set(self._table) - uids:
                self._gone(uid)

    def put(self, obj: Seen, says: Json, arrival_s: float) -> None:  # noqa: ARG002
        with self._source.lock:
            self._put(says)
            self.unknown.discard(obj.uid)

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        with self._source.lock:
            self.unknown.discard(obj.uid)
            self._gone(obj.uid)

    def cannot_read(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        with self._source.lock:
            if obj.uid not in self._table:
                self.unknown.add(obj.uid)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        super().apply(kind, obj, arrival_s)
        self._source.tell()
