"""KneeScale as a process: one replica holds the Lease and decides; the other keeps its tables ready."""

from __future__ import annotations

import time
from pathlib import Path

from hpa_replacement import kneepolicy
from hpa_replacement.knative.loop import PodAutoscalerLoop
from hpa_replacement.metrics import KneeScaleMetrics
from hpa_replacement.observe.sources import ClusterSource
from hpa_replacement.policy_reconciler import ClusterAccess, PolicyReconciler, ReadPolicy
from hpa_replacement.settings import Settings
from surgekit.kube.client import Kube
from surgekit.kube.events import EventRecorder
from surgekit.kube.lease import Lease
from surgekit.kube.table import Unreadable
from surgekit.process import controller
from surgekit.process.health_server import serve
from surgekit.prometheus.client import Prometheus, Queries

__all__ = ["LEASE_NAME", "Controller", "run"]

LEASE_NAME = "surgekit-kneescale"
_LONGEST_SLEEP_S = 1.0  # policies come and go without a wake-up


class Controller(controller.Controller):
    """One replica: its watches, and the loops that act while it leads."""

    def __init__(
        self,
        settings: Settings,
        kube: Kube,
        prometheus: Queries,
        read_policy: ReadPolicy = kneepolicy.read,
    ) -> None:
        events = EventRecorder(kube, "kneescale")
        source = ClusterSource(kube, Unreadable(events))
        metrics = KneeScaleMetrics()
        metrics.registry.register(source.unreadable)
        super().__init__(
            "kneescale",
            metrics.registry,
            ages_s=source.ages_s,
            max_input_age_s=settings.max_input_age_s,
            lease=Lease(kube, settings.lease_namespace, LEASE_NAME),
            events=events,
        )
        self.run_beside(source)
        policy_events = events.about("surgekit.dev/v1alpha1", "KneePolicy")
        cluster = ClusterAccess(kube, source, prometheus, policy_events)
        self.lead(
            "policies",
            lambda: _Policies(PolicyReconciler(settings, cluster, metrics, lambda: self.leads, read_policy)),
        )
        if settings.knative:
            knative = PodAutoscalerLoop(settings, kube, source, metrics, self._acts)
            self.run_beside(knative, lambda: knative.alive)

    def _acts(self) -> bool:
        return self.leads and not self.stale_input(time.monotonic())


class _Policies:
    """Decides about KneePolicies while this replica leads."""

    def __init__(self, reconciler: PolicyReconciler) -> None:
        self._reconciler = reconciler

    def step(self) -> float:
        return min(self._reconciler.reconcile_due(time.time()), _LONGEST_SLEEP_S)

    def stop(self) -> None:
        self._reconciler.stop()


def run(
    settings: Settings, kubeconfig: Path | None = None, read_policy: ReadPolicy = kneepolicy.read
) -> None:
    """Decide and serve until told to stop."""

    def make() -> Controller:
        return Controller(settings, Kube.connect(kubeconfig), Prometheus.connect(settings), read_policy)

    serve(make, settings, "surgekit-kneescale")
