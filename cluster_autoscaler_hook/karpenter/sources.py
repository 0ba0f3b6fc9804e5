"""The hook's watches, and the view of the cluster that decisions are based on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Set
from typing import Any, TypeVar

from cluster_autoscaler_hook.karpenter import claims as claim_objects
from cluster_autoscaler_hook.karpenter.demand import architectures, daemon_overhead
from cluster_autoscaler_hook.karpenter.labels import ARCHITECTURE, OPT_IN_LABEL, POOL_LABEL
from cluster_autoscaler_hook.karpenter.model import Claim, ClusterView
from cluster_autoscaler_hook.karpenter.records import pending, read_node, read_pod, with_pods
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.kube.client import Kube
from surgekit.kube.table import ObjectTable, RowTable, Unreadable, by_uid
from surgekit.kube.watch import Watch
from surgekit.process.modes import Mode

__all__ = ["ClusterSource"]

Json = dict[str, Any]
T = TypeVar("T")


class ClusterSource:
    """Watches pods, namespaces, nodes, our claims and DaemonSets; in mode off only pods, to remove their
    gates. Calls `changed` after each batch of changes."""

    def __init__(
        self, kube: Kube, unreadable: Unreadable, settings: Settings, changed: Callable[[], None]
    ) -> None:
        self._lock = threading.Lock()
        self._settings, self._pool = settings, (pool := settings.pool)
        self._claims: dict[str, Claim] = {}
        self._refused: list[Claim] = []
        self.known_claims: set[str] = set()  # every name that the watch has shown

        def rows(read: Callable[[Json], T | None]) -> RowTable[str, T]:
            return RowTable(unreadable, read, key=by_uid, lock=self._lock, on_change=changed)

        self._pods = rows(lambda obj: read_pod(obj, pool))
        self._namespaces = rows(_read_opt_in)
        self._nodes = rows(read_node)
        self._other_nodes = rows(_read_architecture)
        self._daemon_sets = rows(self._check_daemon_set)
        self._our_claims = ObjectTable(
            unreadable,
            claim_objects.read_claim,
            key=by_uid,
            on_list=self._keep_claims,
            on_put=self._put_claim,
            on_drop=self._drop_claim,
            lock=self._lock,
            on_change=changed,
        )
        ours, others = f"{POOL_LABEL}={pool}", f"{POOL_LABEL}!={pool}"
        self._watches = {"pods": Watch(kube, "/api/v1/pods", self._pods)}
        if settings.mode is Mode.OFF:
            return
        self._watches |= {
            "namespaces": Watch(kube, "/api/v1/namespaces", self._namespaces),
            "nodes": Watch(kube, "/api/v1/nodes", self._nodes, labelSelector=ours),
            "other nodes": Watch(kube, "/api/v1/nodes", self._other_nodes, labelSelector=others),
            "claims": Watch(kube, claim_objects.PATH, self._our_claims, labelSelector=ours),
            "daemonsets": Watch(kube, "/apis/apps/v1/daemonsets", self._daemon_sets),
        }

    def start(self) -> None:
        for watch in self._watches.values():
            watch.start()

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.stop()

    def ages_s(self, now_s: float) -> dict[str, float]:
        """Infinite if one of our nodes or claims was never read: its pods would be rented for again."""
        with self._lock:
            never_read = {
                "nodes": self._nodes.unread - self._nodes.rows.keys(),
                "claims": self._our_claims.unread - self._claims.keys(),
            }
        return {
            name: float("inf") if never_read.get(name) else watch.age_s(now_s)
            for name, watch in self._watches.items()
        }

    def overhead(self) -> tuple[int, int, int]:
        with self._lock:
            return daemon_overhead(list(self._daemon_sets.rows.values()), self._pool)

    def refused(self) -> list[Claim]:
        """Claims that were deleted before they launched, since the last call."""
        with self._lock:
            refused, self._refused = self._refused, []
        return refused

    def view(self) -> ClusterView:
        with self._lock:
            pods, nodes = list(self._pods.rows.values()), dict(self._nodes.rows)
            namespaces = dict(self._namespaces.rows.values())
            all_labels = [*(node.labels for node in nodes.values()), *self._other_nodes.rows.values()]
            claims = tuple(sorted(self._claims.values(), key=lambda c: (c.created, c.name)))
        return ClusterView(
            pending(pods, namespaces),
            claims,
            with_pods(nodes, pods),
            architectures(all_labels, self._settings),
        )

    def _keep_claims(self, uids: Set[str], arrival_s: float) -> None:
        for uid in self._claims.keys() - uids:
            self._drop_claim(uid, arrival_s)

    def _put_claim(self, uid: str, claim: Claim, _: float) -> None:
        before = self._claims.get(uid)
        if claim.deleting and not claim.launched and not (before and before.deleting):
            self._refused.append(claim)
        self.known_claims.add(claim.name)
        self._claims[uid] = claim

    def _drop_claim(self, uid: str, _: float) -> None:
        before = self._claims.pop(uid, None)
        if before and not before.launched and not before.deleting:
            self._refused.append(before)

    def _check_daemon_set(self, obj: Json) -> Json:
        daemon_overhead([obj], self._pool)  # raise here, not in `overhead`
        return obj


def _read_opt_in(namespace: Json) -> tuple[str, str]:
    """Its name and the value of the opt-in label."""
    metadata = namespace["metadata"]
    return metadata["name"], str((metadata.get("labels") or {}).get(OPT_IN_LABEL, ""))


def _read_architecture(node: Json) -> dict[str, str]:
    """Its architecture label."""
    labels = node["metadata"].get("labels") or {}
    return {ARCHITECTURE: str(labels.get(ARCHITECTURE, ""))}
