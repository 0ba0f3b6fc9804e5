"""The controller as a process: one replica holds the Lease and acts, the other keeps its tables ready."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from cluster_model.contention import CONTENTION
from combofunc.actuator import ActionResult
from combofunc.in_place_deployment.reconciler import InPlaceDeploymentReconciler
from combofunc.memory_use import MemoryUsePoll
from combofunc.metrics import ComboFuncMetrics
from combofunc.planner import planning
from combofunc.planning_desk import PlanningDesk
from combofunc.pods.actions import Create
from combofunc.pods.chosen_sizes import ChosenSizeTable
from combofunc.pods.cluster import Cluster
from combofunc.pods.pod_table import PodTable
from combofunc.reconcile.spec import ComboFunc
from combofunc.reconciler import ComboFuncReconciler, Inputs
from combofunc.settings import Settings
from combofunc.sources import Kept, Sources
from combofunc.target_poller import TargetPoller
from combofunc.work_loop import Loop
from surgekit.kube.client import Kube
from surgekit.kube.events import EventRecorder
from surgekit.kube.lease import Lease
from surgekit.kube.table import Unreadable
from surgekit.process import controller
from surgekit.process.health_server import serve
from surgekit.prometheus.client import Prometheus, Queries

__all__ = ["LEASE_NAME", "Controller", "run"]

LEASE_NAME = "surgekit-combofunc"
_AGE_EVERY_S = 1.0


class Controller(controller.Controller):
    """One replica: its tables, threads and metrics."""

    def __init__(self, settings: Settings, kube: Kube, prometheus: Queries) -> None:
        self.settings = settings
        self.metrics = ComboFuncMetrics()
        self._cluster = Cluster(
            settings.default_tau_create_s,
            settings.default_tau_resize_s,
            settings.default_image_pull_s,
            settings.creation_limit_s,
            CONTENTION[settings.contention],
        )
        pods = PodTable()
        self._loop = Loop(kube, lambda: self.leads, self._on_result)
        events = EventRecorder(kube, "combofunc")
        self._targets = TargetPoller(
            settings, prometheus, lambda: self.leads, self._collected, self._target_changed
        )
        self._desk = PlanningDesk(planning.plan, self._loop.post, self._loop.hasten)
        memory_use = MemoryUsePoll(kube, lambda: self.leads)
        chosen_sizes = ChosenSizeTable()
        inputs = Inputs(
            self._cluster, pods, self._targets.target, memory_use.of, self._ages_now_s, chosen_sizes.of
        )
        function_events = events.about("surgekit.dev/v1alpha1", "ComboFunc")
        self._functions = ComboFuncReconciler(inputs, settings, self._desk, self.metrics, function_events)
        deployment_events = events.about("surgekit.dev/v1alpha1", "InPlaceDeployment")
        self._deployments = InPlaceDeploymentReconciler(
            pods, settings.resize_wait_limit_s, deployment_events, memory_use.of, self._ages_now_s
        )
        unreadable = Unreadable(events)
        kept = Kept(self._cluster, pods, self._functions, self._deployments, chosen_sizes)
        self._sources = Sources(kube, unreadable, self._loop, kept)
        self.metrics.registry.register(unreadable)
        self._term = 0
        self._aged_s = time.monotonic()
        self._to_collect: Mapping[str, ComboFunc] = {}
        self._lease = Lease(kube, settings.lease_namespace, LEASE_NAME)
        super().__init__(
            "combofunc",
            self.metrics.registry,
            ages_s=self._sources.ages_s,
            max_input_age_s=settings.max_input_age_s,
            lease=self._lease,
            events=events,
        )
        self.run_beside(self._sources)
        self.loop("targets", self._targets.step)
        self.loop("memory use", memory_use.step)
        self.loop("reconcile", self._step)

    def stop(self) -> None:
        self._loop.stop()
        self._desk.stop()
        self._targets.stop()
        super().stop()

    def alive(self, now_s: float) -> bool:
        return self._desk.alive and super().alive(now_s)

    def _ages_now_s(self) -> Mapping[str, float]:
        return self._sources.ages_s(time.monotonic())

    def _collected(self) -> Mapping[str, ComboFunc]:
        """The functions of the last round. The tables belong to the loop's thread."""
        return self._to_collect

    def _target_changed(self, uid: str) -> None:
        self._loop.post(lambda: self._loop.touch(uid))

    def _on_result(self, result: ActionResult) -> None:
        """Apply the result of our own write at once; the watch shows it later."""
        outcome = "failed" if result.failure else "done"
        self.metrics.actions.labels(type(result.action).__name__.lower(), outcome).inc()
        if isinstance(result.action, Create):
            self._cluster.forget(result.action.key)
        if result.pod is not None:
            self._sources.tell_pod(result.pod, time.monotonic())
        elif result.gone:
            self._sources.tell_deleted(result.gone)

    def _step(self) -> float:
        """Read the inbox, and reconcile while this replica leads. The work loop waits by itself."""
        now_s = time.monotonic()
        acts = self.leads and not self.stale_input(now_s)
        if acts and self._term != self._lease.term:  # another replica may have acted: start without state
            self._term = self._lease.term
            for kind in (self._functions, self._deployments):
                kind.reset()
                self._loop.touch_all(kind)
        self._age(now_s)
        self._loop.round(acts)
        return 0.0

    def _age(self, now_s: float) -> None:
        if now_s - self._aged_s < _AGE_EVERY_S:
            return
        self._aged_s = now_s
        self._to_collect = self._functions.collected()
        self._desk.hand_out()
        self._cluster.age(now_s, self.settings.max_speed_age_s)
        self.metrics.functions.labels("ComboFunc").set(len(self._functions.objects))
        self.metrics.functions.labels("InPlaceDeployment").set(len(self._deployments.objects))
        self.metrics.shortage.set(self._functions.shortage)


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Act and serve until told to stop."""

    def make() -> Controller:
        prometheus = Prometheus.connect(settings)
        return Controller(settings, Kube.connect(kubeconfig), prometheus)

    serve(make, settings, "surgekit-combofunc")
