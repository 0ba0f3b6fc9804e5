"""Writes NodeSpeed objects, paced, while its replica leads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import structlog
from prometheus_client import Counter

from node_speed_probe.ledger import Snapshot
from node_speed_probe.model import NodeSpeedEstimate
from node_speed_probe.publication import (
    NODE_SPEEDS,
    PATH,
    Published,
    choose_writes,
    new_object,
    read_published,
    status_of,
)
from node_speed_probe.settings import Settings
from surgekit.kube.client import ApiError, Kube, KubeUnreachable

__all__ = ["Publisher", "read_all"]

log = structlog.get_logger(__name__)

# This write can be tried again as it is, others need not wait for it.
_CONFLICT = 409
# This object is not acceptable as it is; the next change may be.
_REJECTED = frozenset({400, 413, 422})


def read_all(kube: Kube) -> dict[str, Published]:
    """The NodeSpeeds that the API server has, by node."""
    objects, _ = kube.list_all(PATH)
    now_s, wall = time.monotonic(), datetime.now(UTC)
    return dict(found for o in objects if (found := read_published(o, now_s, wall)))


class Publisher:
    """The session of one leader: what the API server has is read at its begin."""

    def __init__(
        self,
        kube: Kube,
        settings: Settings,
        leads: Callable[[], bool],
        snapshot: Callable[[], Snapshot],
        writes: Counter,
    ) -> None:
        self._kube, self._settings, self._leads = kube, settings, leads
        self._snapshot, self._writes = snapshot, writes
        self._published: dict[str, Published] | None = None
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def step(self) -> float:
        """Write what is worth it, within the budget of one interval."""
        try:
            self._publish()
        except (ApiError, KubeUnreachable):
            # Overloaded (429, 5xx), not allowed or not installed yet: writing on would not help.
            self._writes.labels("failed").inc()
            raise
        return self._settings.publish_interval_s

    def _publish(self) -> None:
        if self._published is None:
            self._published = read_all(self._kube)
        estimates = self._snapshot().estimates
        nodes = {e.node for e in estimates}
        self._published = {n: p for n, p in self._published.items() if n in nodes}
        budget = max(1, int(self._settings.writes_per_s * self._settings.publish_interval_s))
        writes = choose_writes(estimates, self._published, budget, time.monotonic(), self._settings)
        for estimate in writes:
            if self._stopping.is_set() or not self._leads():
                return
            began_s = time.monotonic()
            self._write(estimate, self._published)
            self._stopping.wait(max(0.0, 1.0 / self._settings.writes_per_s - (time.monotonic() - began_s)))

    def _write(self, estimate: NodeSpeedEstimate, published: dict[str, Published]) -> None:
        before = published.get(estimate.node)
        try:
            published[estimate.node] = self._patch(estimate, before) or self._create(estimate)
            self._writes.labels("written").inc()
        except ApiError as error:
            if error.code == _CONFLICT:
                self._writes.labels("conflict").inc()
                return
            if error.code not in _REJECTED:
                raise
            self._writes.labels("rejected").inc()
            log.error("the API server rejects a NodeSpeed", node=estimate.node, error=str(error))
            published[estimate.node] = Published(
                estimate.tau_create_s,
                estimate.reason,
                time.monotonic(),
                estimate.tau_resize_s,
                estimate.image_pulls,
            )

    def _patch(self, estimate: NodeSpeedEstimate, before: Published | None) -> Published | None:
        """Returns the object as the API server has it afterwards; None if there is none."""
        if before is None:
            return None
        now_s, wall = time.monotonic(), datetime.now(UTC)
        status = status_of(estimate, before, now_s, wall)
        try:
            written = self._kube.patch(
                NODE_SPEEDS.path(name=estimate.node, subresource="status"), {"status": status}
            )
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        found = read_published(written, now_s, wall)
        return found[1] if found else before

    def _create(self, estimate: NodeSpeedEstimate) -> Published:
        try:
            self._kube.create(PATH, new_object(estimate))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        unwritten = Published(estimate.tau_create_s, "", time.monotonic())
        return self._patch(estimate, unwritten) or unwritten
