"""The controller as a process: one replica holds the Lease and acts, the other keeps its tables ready."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import structlog

from combofunc.actuator import ActionResult as Done
from combofunc.in_place_deployment.reconciler import InPlaceDeploymentReconciler as InPlaceDeployments
from combofunc.memory_use import MemoryUsePoll
from combofunc.metrics import ComboFuncMetrics
from combofunc.planner import planning
from combofunc.planning_desk import PlanningDesk
from combofunc.pods.actions import Create
from combofunc.pods.cluster import Cluster
from combofunc.pods.pod_table import PodTable
from combofunc.reconcile.spec import ComboFunc
from combofunc.reconciler import ComboFuncReconciler as ComboFuncs
from combofunc.settings import Settings
from combofunc.sources import Sources
from combofunc.target_poller import TargetPoller as Collecting
from combofunc.work_loop import Loop
from surgekit.kube.client import Kube
from surgekit.kube.events import Events
from surgekit.kube.lease import Lease
from surgekit.kube.watch import overdue
from surgekit.process import health_server
from surgekit.prometheus.client import Prometheus, Queries

__all__ = ["LEASE_NAME", "Controller", "run"]

log = structlog.get_logger(__name__)
LEASE_NAME = "surgekit-combofunc"
_PAUSE_S = 2.0  # after a fault of ours
_STUCK_S = 120.0  # rounds this long overdue mean that the thread is stuck or dead
_AGE_EVERY_S = 1.0


class Controller:
    """Everything of one replica."""

    def __init__(self, settings: Settings, kube: Kube, prometheus: Queries) -> None:
        self.settings = settings
        self._lease = Lease(kube, settings.lease_namespace, LEASE_NAME)
        self.metrics = ComboFuncMetrics(lambda: self._lease.held)
        self._cluster = Cluster(
            settings.default_tau_create_s,
            settings.default_tau_resize_s,
            settings.default_image_pull_s,
            settings.creation_limit_s,
        )
        pods = PodTable()
        self._loop = Loop(kube, lambda: self._lease.held, self._told)
        events = Events(kube, "combofunc", "surgekit.dev/v1alpha1", "ComboFunc")
        self._collecting = Collecting(
            settings, prometheus, lambda: self._lease.held, self._collected, self._target_changed
        )
        self._desk = PlanningDesk(planning.plan, self._loop.post, self._loop.hasten)
        self._memory_use = MemoryUsePoll(kube, lambda: self._lease.held)
        self._functions = ComboFuncs(
            self._cluster, pods, settings, self.metrics, self._desk, self._collecting.target, events,
            self._memory_use.of,
        )  # fmt: skip
        events = Events(kube, "combofunc", "surgekit.dev/v1alpha1", "InPlaceDeployment")
        self._deployments = InPlaceDeployments(
            pods, settings.resize_wait_limit_s, events, self._memory_use.of
        )
        self._sources = Sources(kube, self._loop, self._cluster, pods, self._functions, self._deployments)
        self.metrics.registry.register(self._sources.unreadable)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)
        self._last_round_s = self._aged_s = time.monotonic()
        self._to_collect: Mapping[str, ComboFunc] = {}

    def start(self) -> None:
        self._sources.start()
        self._lease.start()
        self._thread.start()
        self._collecting.start()
        self._memory_use.start()

    def stop(self) -> None:
        self._stopping.set()
        self._collecting.stop()
        self._memory_use.stop()
        self._sources.stop()
        self._loop.stop()
        self._desk.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)
        self._lease.stop()

    def alive(self, now_s: float) -> bool:
        looking = self._thread.is_alive() and now_s - self._last_round_s < _STUCK_S
        threads = (self._lease, self._collecting, self._memory_use, self._desk)
        return looking and all(thread.alive for thread in threads)

    def not_ready(self, now_s: float) -> str:
        """What is missing; empty when ready."""
        return overdue(self._sources.ages_s(now_s), self.settings.max_input_age_s)

    def _collected(self) -> Mapping[str, ComboFunc]:
        """As of the last round: the tables are the loop's."""
        return self._to_collect

    def _target_changed(self, uid: str) -> None:
        self._loop.post(lambda: self._loop.touch(uid))

    def _told(self, done: Done) -> None:
        """What our own writes made of pods counts at once."""
        outcome = "failed" if done.failure else "done"
        self.metrics.actions.labels(type(done.action).__name__.lower(), outcome).inc()
        if isinstance(done.action, Create):
            self._cluster.forget(done.action.key)
        if done.pod is not None:
            self._sources.tell_pod(done.pod, time.monotonic())
        elif done.gone:
            self._sources.tell_deleted(done.gone)

    def _run(self) -> None:
        term = 0
        while not self._stopping.is_set():
            now_s = self._last_round_s = time.monotonic()
            leads = self._lease.held and not self.not_ready(now_s)
            try:
                if leads and term != self._lease.term:  # another replica may have acted: all starts afresh
                    term = self._lease.term
                    for kind in (self._functions, self._deployments):
                        kind.reset()
                        self._loop.touch_all(kind)
                self._age(now_s)
                self._loop.round(leads)
            except Exception:  # a fault of ours in one round must not be the end of all
                log.exception("round failed")
                self._stopping.wait(_PAUSE_S)

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
        prometheus = Prometheus(
            settings.prometheus_url,
            settings.prometheus_timeout_s,
            settings.prometheus_ca,
            settings.prometheus_token,
        )
        return Controller(settings, Kube.connect(kubeconfig), prometheus)

    health_server.serve(make, settings.bind, "surgekit-combofunc", settings.log_level)
