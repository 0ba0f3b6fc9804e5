"""The Karpenter hook as a process: watches wake one thread, which looks, decides and writes.

The replica that holds the Lease acts; the other keeps its tables ready.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import structlog

from cluster_autoscaler_hook.karpenter.actuator import Actuator
from cluster_autoscaler_hook.karpenter.leader_session import LONGEST_SLEEP_S, LeaderSession
from cluster_autoscaler_hook.karpenter.metrics import HookMetrics
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.sources import ClusterSource
from cluster_autoscaler_hook.solver.model import Problem, Solution
from cluster_autoscaler_hook.solver.solve import Variant, solve
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.lease import Lease
from surgekit.kube.watch import overdue
from surgekit.process.health_server import serve

__all__ = ["LEASE_NAME", "Hook", "run"]

log = structlog.get_logger(__name__)
LEASE_NAME = "surgekit-node-planner"
_PAUSE_S = 2.0  # after a fault that was not ours
# Rounds this long overdue mean that the thread is stuck or dead.
_STUCK_S = 90.0


class Hook:
    """Everything of one replica."""

    def __init__(self, settings: Settings, kube: Kube) -> None:
        self.settings = settings
        self._wake = threading.Event()
        self._source = ClusterSource(kube, settings, self._wake.set)
        self._lease = Lease(kube, settings.lease_namespace, LEASE_NAME)
        self.metrics = HookMetrics(lambda: self._lease.held)
        self.metrics.registry.register(self._source.unreadable)
        self._actuator = Actuator(kube, settings, lambda: self._lease.held, self.metrics.writes)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hook", daemon=True)
        self._last_round_s = time.monotonic()

    def start(self) -> None:
        log.info("hook starts", mode=self.settings.mode)
        self._source.start()
        self._lease.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._source.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)
        self._stop_gating()
        self._actuator.stop()
        self._lease.stop()

    def _stop_gating(self) -> None:
        """Perhaps nobody takes over: until somebody does, new pods go to Karpenter's pools at once."""
        if self._lease.held:
            try:
                self._actuator.write_plan({"gating": False})
            except (ApiError, KubeUnreachable) as error:
                log.warning("new pods are still gated", error=str(error))

    def alive(self, now_s: float) -> bool:
        return self._thread.is_alive() and self._lease.alive and now_s - self._last_round_s < _STUCK_S

    def not_ready(self, now_s: float) -> str:
        """What is missing; empty when ready."""
        return overdue(self._source.ages_s(now_s), self.settings.max_input_age_s)

    def _run(self) -> None:
        variant = Variant(self.settings.variant)

        def solve_in_time(problem: Problem) -> Solution:
            return solve(problem, self.settings.solve_deadline_s, variant)

        session: LeaderSession | None = None
        sleep_s = 0.0
        while not self._stopping.is_set():
            self._wake.wait(min(sleep_s, LONGEST_SLEEP_S))
            self._wake.clear()
            self._last_round_s = time.monotonic()
            if not self._lease.held:
                session, sleep_s = None, 0.1  # another replica may act: the next session starts afresh
                continue
            if self.not_ready(self._last_round_s):
                sleep_s = LONGEST_SLEEP_S
                continue
            session = session or LeaderSession(
                self.settings, self._source, self._actuator, self.metrics, solve_in_time
            )
            try:
                sleep_s = session.step()
            except (ApiError, KubeUnreachable) as error:
                log.warning("hook pauses", error=str(error))
                self._stopping.wait(_PAUSE_S)


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Plan, rent and serve until told to stop."""
    serve(
        lambda: Hook(settings, Kube.connect(kubeconfig)),
        settings.bind,
        "surgekit-node-planner",
        settings.log_level,
    )
