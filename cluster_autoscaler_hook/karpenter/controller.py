"""The Karpenter hook as a process: watches wake one thread, which looks, decides and writes.

The replica that holds the Lease acts; the other keeps its tables ready.
"""

from __future__ import annotations

from collections.abc import Callable
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
from surgekit.kube.events import EventRecorder
from surgekit.kube.lease import Lease
from surgekit.kube.table import Unreadable
from surgekit.process import controller
from surgekit.process.health_server import serve

__all__ = ["LEASE_NAME", "Hook", "run"]

log = structlog.get_logger(__name__)
LEASE_NAME = "surgekit-node-planner"


class Hook(controller.Controller):
    """Everything of one replica."""

    def __init__(self, settings: Settings, kube: Kube) -> None:
        self.settings = settings
        events = EventRecorder(kube, "node-planner")
        unreadable = Unreadable(events)
        self._source = ClusterSource(kube, unreadable, settings, self._wake)
        self._metrics = HookMetrics()
        self._metrics.registry.register(unreadable)
        self._actuator = Actuator(kube, events, settings, lambda: self.leads, self._metrics.writes)
        super().__init__(
            "node_planner",
            self._metrics.registry,
            ages_s=self._source.ages_s,
            max_input_age_s=settings.max_input_age_s,
            lease=Lease(kube, settings.lease_namespace, LEASE_NAME),
            events=events,
        )
        self.run_beside(self._source)
        self._loop = self.lead("plan", self._session)

    def _wake(self) -> None:
        self._loop.wake()

    def start(self) -> None:
        log.info("hook starts", mode=self.settings.mode)
        super().start()

    def stop(self) -> None:
        super().stop()
        self._actuator.stop()

    def _session(self) -> _Planning:
        variant, deadline_s = Variant(self.settings.variant), self.settings.solve_deadline_s

        def solve_in_time(problem: Problem) -> Solution:
            return solve(problem, deadline_s, variant)

        session = LeaderSession(self.settings, self._source, self._actuator, self._metrics, solve_in_time)
        return _Planning(session, self._actuator, lambda: self.leads)


class _Planning:
    """Plans and rents while this replica leads."""

    def __init__(self, session: LeaderSession, actuator: Actuator, leads: Callable[[], bool]) -> None:
        self._session, self._actuator, self._leads = session, actuator, leads

    def step(self) -> float:
        return min(self._session.step(), LONGEST_SLEEP_S)

    def stop(self) -> None:
        """Perhaps nobody takes over: until somebody does, new pods go to Karpenter's pools at once."""
        if self._leads():
            try:
                self._actuator.write_plan({"gating": False})
            except (ApiError, KubeUnreachable) as error:
                log.warning("new pods are still gated", error=str(error))


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Plan, rent and serve until told to stop."""
    serve(lambda: Hook(settings, Kube.connect(kubeconfig)), settings, "surgekit-node-planner")
