"""The probe as a process: sources feed a queue, one thread owns the ledger, one writes what it says.

Every replica measures; the one that holds the lease writes. gunicorn serves health and metrics.
"""

from __future__ import annotations

import queue
import threading
import time
from pathlib import Path

import structlog

from node_speed_probe.ledger import Ledger, Snapshot
from node_speed_probe.metrics import ProbeMetrics
from node_speed_probe.model import Fact, Sample
from node_speed_probe.publisher import Publisher, read_all
from node_speed_probe.settings import Settings
from node_speed_probe.sources import ApiWatches, Source
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.lease import Lease
from surgekit.kube.watch import overdue
from surgekit.process.health_server import serve
from surgekit.process.modes import Mode

__all__ = ["LEASE_NAME", "Probe", "run"]

log = structlog.get_logger(__name__)

LEASE_NAME = "surgekit-node-speed-probe"
# Rounds this long overdue mean that the thread that owns the ledger is stuck or dead.
_STUCK_S = 60.0


class Probe:
    """Everything of one replica."""

    def __init__(self, settings: Settings, kube: Kube, source: Source | None = None) -> None:
        self.settings, self._kube = settings, kube
        watches = ApiWatches(kube)
        self._source = source or watches
        self._facts: queue.SimpleQueue[tuple[Fact, float]] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._own_ledger, name="ledger", daemon=True)
        self.snapshot = Snapshot()
        self._lease = Lease(kube, settings.lease_namespace, LEASE_NAME)
        self.metrics = ProbeMetrics(
            lambda: self.snapshot, lambda: self._source.ages_s(time.monotonic()), lambda: self._lease.held
        )
        self.metrics.registry.register(watches.unreadable)
        self._publisher = Publisher(kube, settings, self._lease, lambda: self.snapshot, self.metrics.writes)

    def start(self) -> None:
        if self.settings.mode is Mode.OFF:
            log.info("probe is off", mode=self.settings.mode)
            return
        self._thread.start()
        if self.settings.mode is Mode.ENFORCE:
            self._lease.start()
            self._publisher.start()

    def stop(self) -> None:
        self._stopping.set()
        self._source.stop()
        self._publisher.stop()
        self._lease.stop()

    def alive(self, now_s: float) -> bool:
        """Whether every thread does its work; a fault nobody foresaw ends one, and a restart mends it."""
        if self.settings.mode is Mode.OFF:
            return True
        overdue_s = now_s - self.snapshot.taken_s - self.settings.publish_interval_s
        measures = self._thread.is_alive() and (overdue_s < _STUCK_S or self.snapshot.taken_s < 0)
        publishes = self._publisher.alive and self._lease.alive
        return measures and (publishes or self.settings.mode is not Mode.ENFORCE)

    def not_ready(self, now_s: float) -> str:
        """What is missing; empty when ready."""
        if self.settings.mode is Mode.OFF:
            return ""
        stale = overdue(self._source.ages_s(now_s), self.settings.max_input_age_s)
        return stale or ("" if self.snapshot.taken_s > 0 else "no estimates yet")

    def _own_ledger(self) -> None:
        ledger = Ledger(self.settings)
        self._recall(ledger)
        self._source.start(lambda fact, arrival_s: self._facts.put((fact, arrival_s)))
        next_round_s = time.monotonic()
        while not self._stopping.is_set():
            try:
                fact, arrival_s = self._facts.get(timeout=max(next_round_s - time.monotonic(), 0.001))
                ledger.observe(fact, arrival_s)
            except queue.Empty:
                pass
            now_s = time.monotonic()
            if now_s >= next_round_s:
                self.snapshot = ledger.snapshot(now_s)
                next_round_s = now_s + self.settings.publish_interval_s

    def _recall(self, ledger: Ledger) -> None:
        """A restart must not forget: what was published is what an earlier life knew."""
        try:
            for node, before in read_all(self._kube).items():
                if before.last_sample_s is not None:
                    began_s = before.last_sample_s - before.tau_create_s
                    last = Sample(began_s, before.last_sample_s, before.tau_create_s)
                    ledger.remember(node, before.samples, last, before.image_pulls)
        except (ApiError, KubeUnreachable) as error:
            log.warning("published speeds not read", error=str(error))


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Measure, publish and serve until told to stop."""
    serve(
        lambda: Probe(settings, Kube.connect(kubeconfig)), settings.bind, "surgekit-probe", settings.log_level
    )
