"""Reads the cluster: four watches and the tables they keep."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from limit_allocator import distributed_container
from limit_allocator.allowance import LimitRange, Quota, read_limit_range, read_quota
from limit_allocator.pod import Pod, read_pod
from surgekit.kube.client import Kube
from surgekit.kube.table import RowTable, Unreadable, by_full_name, by_uid
from surgekit.kube.watch import Watch

__all__ = ["ClusterSource"]

Json = dict[str, Any]


def _unchanged(obj: Json) -> Json:
    """Keep the object as it is: the controller reads it, and says in its status what is wrong with it."""
    return obj


class ClusterSource:
    """`on_change` is called from the watches' threads, after a change that may matter."""

    def __init__(
        self, kube: Kube, unreadable: Unreadable, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._lock = threading.Lock()
        self.unreadable = unread = unreadable
        self._specs = RowTable(unread, _unchanged, key=by_full_name, lock=self._lock, on_change=on_change)
        self._pods = RowTable(unread, read_pod, key=by_uid, lock=self._lock, on_change=on_change)
        self._quotas = RowTable(unread, read_quota, key=by_full_name, lock=self._lock, on_change=on_change)
        self._ranges = RowTable(
            unread, read_limit_range, key=by_full_name, lock=self._lock, on_change=on_change
        )
        self._watches = {
            "distributedcontainers": Watch(kube, distributed_container.PATH, self._specs),
            "pods": Watch(kube, "/api/v1/pods", self._pods),
            "resourcequotas": Watch(kube, "/api/v1/resourcequotas", self._quotas),
            "limitranges": Watch(kube, "/api/v1/limitranges", self._ranges),
        }

    def start(self) -> None:
        for watch in self._watches.values():
            watch.start()

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.stop()

    def ages_s(self, now_s: float) -> dict[str, float]:
        return {name: watch.age_s(now_s) for name, watch in self._watches.items()}

    @property
    def complete(self) -> bool:
        """Whether every watch has listed at least once. Before that nothing may be taken for gone."""
        return all(watch.synced.is_set() for watch in self._watches.values())

    def distributed_containers(self) -> list[Json]:
        with self._lock:
            return [self._specs.rows[name] for name in sorted(self._specs.rows)]

    def pods(self) -> list[Pod]:
        with self._lock:
            return [pod for pod in self._pods.rows.values() if pod is not None]

    def quotas(self, namespace: str) -> list[Quota]:
        with self._lock:
            return [q for (of, _), q in sorted(self._quotas.rows.items()) if q and of == namespace]

    def limit_ranges(self, namespace: str) -> list[LimitRange]:
        with self._lock:
            return [r for (of, _), r in sorted(self._ranges.rows.items()) if r and of == namespace]
