"""The hook's watches, and the view of the cluster that decisions are based on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from cluster_autoscaler_hook.karpenter import claims as claim_objects
from cluster_autoscaler_hook.karpenter.demand import architectures, daemon_overhead
from cluster_autoscaler_hook.karpenter.labels import ARCHITECTURE, OPT_IN_LABEL, POOL_LABEL
from cluster_autoscaler_hook.karpenter.model import Claim, ClusterNode, ClusterView
from cluster_autoscaler_hook.karpenter.records import PodRecord, pending, read_node, read_pod, with_pods
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.kube.client import Kube
from surgekit.kube.table import Seen, Table, Unreadable
from surgekit.kube.watch import Watch
from surgekit.process.modes import Mode

__all__ = ["ClusterSource"]

Json = dict[str, Any]


class ClusterSource:
    """Watches pods, namespaces, nodes, our claims and DaemonSets; in mode off only pods, to remove their
    gates. Calls `changed` after each batch of changes."""

    def __init__(self, kube: Kube, settings: Settings, changed: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._settings, self._changed = settings, changed
        self._pool = pool = settings.pool
        self._pods: dict[str, PodRecord] = {}
        self._namespaces: dict[str, tuple[str, str]] = {}  # uid -> name, value of the opt-in label
        self._nodes: dict[str, ClusterNode] = {}
        self._other_nodes: dict[str, dict[str, str]] = {}  # uid -> its architecture label
        self._claims: dict[str, Claim] = {}
        self._daemon_sets: dict[str, Json] = {}
        self._refused: list[Claim] = []
        self.known_claims: set[str] = set()  # every name that the watch has shown
        self.unreadable = Unreadable(kube, "node_planner")
        self._our_nodes = _Rows(self, self._put_node, self._nodes)
        self._our_claims = _Rows(self, self._put_claim, self._claims, self._drop_claim)
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
        """Infinite if one of our nodes or claims was never read: its pods would be rented for again."""
        unknown = {"nodes": self._our_nodes.unknown, "claims": self._our_claims.unknown}
        return {
            name: float("inf") if unknown.get(name) else watch.age_s(now_s)
            for name, watch in self._watches.items()
        }

    def overhead(self) -> tuple[int, int, int]:
        with self._lock:
            return daemon_overhead(list(self._daemon_sets.values()), self._pool)

    def refused(self) -> list[Claim]:
        """Claims that were deleted before they launched, since the last call."""
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
            with_pods(nodes, pods),
            architectures(all_labels, self._settings),
        )

    def notify(self) -> None:
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
        opt_in = (metadata.get("labels") or {}).get(OPT_IN_LABEL, "")
        self._namespaces[metadata["uid"]] = (metadata["name"], str(opt_in))

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

    def _drop_claim(self, uid: str) -> None:
        before = self._claims.pop(uid, None)
        if before and not before.launched and not before.deleting:
            self._refused.append(before)

    def _put_daemon_set(self, obj: Json) -> None:
        daemon_overhead([obj], self._pool)  # raise here, not in `overhead`
        self._daemon_sets[obj["metadata"]["uid"]] = obj


class _Rows(Table[Json]):
    """The consumer of one watch. Keeps one of the source's tables, by uid."""

    def __init__(
        self,
        source: ClusterSource,
        put: Callable[[Json], None],
        table: dict[str, Any],
        drop: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(source.unreadable)
        self._source, self._put, self._table = source, put, table
        self._drop_row = drop or self._pop
        self.unknown: set[str] = set()  # uids of objects that exist and could never be read

    def _pop(self, uid: str) -> None:
        self._table.pop(uid, None)

    def read(self, obj: Json) -> Json:
        return obj

    def listed(self, there: Sequence[Seen], arrival_s: float) -> None:
        super().listed(there, arrival_s)
        self._source.notify()

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002
        uids = {obj.uid for obj in there}
        with self._source.lock:
            self.unknown &= uids
            for uid in set(self._table) - uids:
                self._drop_row(uid)

    def put(self, obj: Seen, says: Json, arrival_s: float) -> None:  # noqa: ARG002
        with self._source.lock:
            self._put(says)
            self.unknown.discard(obj.uid)

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        with self._source.lock:
            self.unknown.discard(obj.uid)
            self._drop_row(obj.uid)

    def cannot_read(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        with self._source.lock:
            if obj.uid not in self._table:
                self.unknown.add(obj.uid)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        super().apply(kind, obj, arrival_s)
        self._source.notify()
