"""The controller as a process: one replica holds the Lease and goes from round to round."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import structlog

from hpa_replacement import kneepolicy
from hpa_replacement.knative.loop import PodAutoscalerLoop
from hpa_replacement.metrics import KneeScaleMetrics
from hpa_replacement.observe.sources import ClusterSource
from hpa_replacement.policy_reconciler import PolicyReconciler, ReadPolicy
from hpa_replacement.settings import Settings
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.lease import Lease
from surgekit.kube.watch import overdue
from surgekit.process import health_server
from surgekit.prometheus.client import Prometheus, Queries

__all__ = ["LEASE_NAME", "Controller", "run"]

log = structlog.get_logger(__name__)
LEASE_NAME = "surgekit-kneescale"
_PAUSE_S = 2.0  # after a fault that was not ours
# Rounds this long overdue mean that the thread is stuck or dead.
_STUCK_S = 120.0


class Controller:
    """Everything of one replica."""

    def __init__(
        self,
        settings: Settings,
        kube: Kube,
        prometheus: Queries,
        read_policy: ReadPolicy = kneepolicy.read,
    ) -> None:
        self.settings, self._kube, self._prometheus = settings, kube, prometheus
        self._read_policy = read_policy
        self._source = ClusterSource(kube)
        self._lease = Lease(kube, settings.lease_namespace, LEASE_NAME)
        self.metrics = KneeScaleMetrics(lambda: self._lease.held)
        self.metrics.registry.register(self._source.unreadable)
        self._knative = PodAutoscalerLoop(settings, kube, self._source, self.metrics, self._leads)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rounds", daemon=True)
        self._last_round_s = time.monotonic()

    def start(self) -> None:
        self._source.start()
        self._lease.start()
        self._thread.start()
        if self.settings.knative:
            self._knative.start()

    def stop(self) -> None:
        self._stopping.set()
        self._source.stop()
        self._knative.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)
        self._lease.stop()

    def alive(self, now_s: float) -> bool:
        knative = self._knative.alive or not self.settings.knative
        deciding = self._thread.is_alive() and now_s - self._last_round_s < _STUCK_S
        return deciding and self._lease.alive and knative

    def not_ready(self, now_s: float) -> str:
        """What is missing; empty when ready."""
        return overdue(self._source.ages_s(now_s), self.settings.max_input_age_s)

    def _leads(self) -> bool:
        return self._lease.held and not self.not_ready(time.monotonic())

    def _run(self) -> None:
        reconciler: PolicyReconciler | None = None
        sleep_s = 0.0
        while not self._stopping.wait(sleep_s):
            self._last_round_s = time.monotonic()
            sleep_s = 0.1
            if not self._leads():
                if reconciler:
                    reconciler.stop()
                reconciler = None  # another replica may decide: the next term starts afresh
                continue
            reconciler = reconciler or PolicyReconciler(
                self.settings,
                self._kube,
                self._source,
                self._prometheus,
                self.metrics,
                lambda: self._lease.held,
                self._read_policy,
            )
            try:
                sleep_s = min(reconciler.reconcile_due(time.time()), 1.0)
            except (ApiError, KubeUnreachable) as error:
                log.warning("controller pauses", error=str(error))
                sleep_s = _PAUSE_S
            except Exception:  # a fault of ours in one round must not be the end of all
                self.metrics.failures.labels("round").inc()
                log.exception("round failed")
                sleep_s = _PAUSE_S
        if reconciler:
            reconciler.stop()


def run(
    settings: Settings, kubeconfig: Path | None = None, read_policy: ReadPolicy = kneepolicy.read
) -> None:
    """Decide and serve until told to stop."""

    def make() -> Controller:
        prometheus = Prometheus(
            settings.prometheus_url,
            settings.prometheus_timeout_s,
            settings.prometheus_ca,
            settings.prometheus_token,
        )
        return Controller(settings, Kube.connect(kubeconfig), prometheus, read_policy)

    health_server.serve(make, settings.bind, "surgekit-kneescale", settings.log_level)
