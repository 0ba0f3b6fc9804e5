"""The probe as a process: watches feed a queue, one loop keeps the ledger, the leader publishes.

Every replica measures; the one that holds the Lease writes.
"""

from __future__ import annotations

import queue
import time
from pathlib import Path

import structlog

from node_speed_probe.ledger import Ledger, Snapshot
from node_speed_probe.metrics import ProbeMetrics
from node_speed_probe.model import Fact
from node_speed_probe.publisher import Publisher, read_all
from node_speed_probe.recall import recalled
from node_speed_probe.settings import Settings
from node_speed_probe.sources import ApiWatches, Source
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.events import EventRecorder
from surgekit.kube.lease import Lease
from surgekit.kube.table import Unreadable
from surgekit.process.controller import Controller
from surgekit.process.health_server import serve
from surgekit.process.modes import Mode

__all__ = ["LEASE_NAME", "Probe", "run"]

log = structlog.get_logger(__name__)

LEASE_NAME = "surgekit-node-speed-probe"


class Probe(Controller):
    """Everything of one replica."""

    def __init__(self, settings: Settings, kube: Kube, source: Source | None = None) -> None:
        self.settings, self._kube = settings, kube
        self.snapshot = Snapshot()
        self._facts: queue.SimpleQueue[tuple[Fact, float]] = queue.SimpleQueue()
        self._ledger: Ledger | None = None
        self._next_snapshot_s = 0.0
        events = EventRecorder(kube, "probe")
        unreadable = Unreadable(events)
        self._source = source or ApiWatches(kube, unreadable)
        metrics = ProbeMetrics(lambda: self.snapshot)
        metrics.registry.register(unreadable)
        if settings.mode is Mode.OFF:
            log.info("probe is off", mode=settings.mode)
            super().__init__("probe", metrics.registry, events=events, ages_s=lambda _now_s: {})
            return
        enforce = settings.mode is Mode.ENFORCE
        super().__init__(
            "probe",
            metrics.registry,
            ages_s=self._source.ages_s,
            max_input_age_s=settings.max_input_age_s,
            missing=lambda: "" if self.snapshot.taken_s > 0 else "no estimates yet",
            lease=Lease(kube, settings.lease_namespace, LEASE_NAME) if enforce else None,
            events=events,
        )
        self.loop("ledger", self._measure)
        if enforce:
            self.lead(
                "publisher",
                lambda: Publisher(kube, settings, lambda: self.leads, lambda: self.snapshot, metrics.writes),
            )

    def stop(self) -> None:
        self._source.stop()
        super().stop()

    def _measure(self) -> float:
        """Take in facts until the next snapshot is due, then take it."""
        ledger = self._ledger or self._begin()
        while (left_s := self._next_snapshot_s - time.monotonic()) > 0:
            try:
                fact, arrival_s = self._facts.get(timeout=left_s)
            except queue.Empty:
                break
            ledger.observe(fact, arrival_s)
        now_s = time.monotonic()
        self.snapshot = ledger.snapshot(now_s)
        self._next_snapshot_s = now_s + self.settings.publish_interval_s
        return 0.0

    def _begin(self) -> Ledger:
        self._ledger = ledger = Ledger(self.settings)
        self._recall(ledger)
        self._source.start(lambda fact, arrival_s: self._facts.put((fact, arrival_s)))
        return ledger

    def _recall(self, ledger: Ledger) -> None:
        """A restart must not forget: what was published is what an earlier life knew."""
        try:
            for node, before in recalled(read_all(self._kube), self.settings).items():
                ledger.remember(node, *before)
        except (ApiError, KubeUnreachable) as error:
            log.warning("published speeds not read", error=str(error))


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Measure, publish and serve until told to stop."""
    serve(lambda: Probe(settings, Kube.connect(kubeconfig)), settings, "surgekit-probe")
