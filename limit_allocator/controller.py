"""Escra's controller as a process: one replica holds the Lease, hears all agents, and decides.

Two loops act while this replica leads: `leader_session.py` (reports in, limits out, ten times a second and
more) and `reconciler.py` (objects, pods and statuses). They share the `Fleet`, and a lock.
"""

from __future__ import annotations

from pathlib import Path

from limit_allocator.authentication import NodeTokens
from limit_allocator.leader_session import LeaderSession, first_term
from limit_allocator.metrics import LimitMetrics
from limit_allocator.reconciler import Reconciler
from limit_allocator.settings import Settings
from limit_allocator.sources import ClusterSource
from limit_allocator.wire.server import AgentServer
from surgekit.kube.client import Kube
from surgekit.kube.events import EventRecorder
from surgekit.kube.lease import Lease
from surgekit.kube.table import Unreadable
from surgekit.process import controller
from surgekit.process.controller import Loop
from surgekit.process.health_server import serve

__all__ = ["LEASE_NAME", "Controller", "run"]

LEASE_NAME = "surgekit-limit-allocator"


class Controller(controller.Controller):
    """One replica."""

    def __init__(self, settings: Settings, kube: Kube) -> None:
        events = EventRecorder(kube, "limit-allocator")
        source = ClusterSource(kube, Unreadable(events), on_change=lambda: self._wake(self._objects))
        self._objects: Loop | None = None
        self._limits: Loop | None = None
        self._session: LeaderSession | None = None
        self._sessions = 0
        metrics = LimitMetrics()
        metrics.registry.register(source.unreadable)
        lease = Lease(kube, settings.lease_namespace, LEASE_NAME)
        super().__init__(
            "limit_allocator",
            metrics.registry,
            ages_s=source.ages_s,
            max_input_age_s=settings.max_input_age_s,
            lease=lease,
            events=events,
        )
        self.server = server = AgentServer(
            settings.bind,
            settings.tls_directory,
            settings.agent_name,
            accepts=lambda: self._session is not None,
            on_arrival=lambda: self._wake(self._limits),
            node_of=NodeTokens(kube, settings.agent_account).node_of if settings.agent_account else None,
        )
        metrics.gauge("agents", "Agents that are connected", lambda: server.streams)
        metrics.gauge(
            "refused_agents", "Streams refused: token, certificate, nonsense", lambda: server.refused_total
        )
        metrics.gauge("received_bytes", "Bytes of agents' reports", lambda: server.received_bytes)
        metrics.gauge("sent_bytes", "Bytes of orders", lambda: server.sent_bytes)
        self.run_beside(source)
        self.run_beside(server, lambda: server.alive)

        def begin() -> LeaderSession:
            term = first_term(lease.transitions, self._sessions)
            self._sessions += 1
            self._session = session = LeaderSession(server, metrics, term, settings.tick_s, on_stop=self._end)
            return session

        self._limits = self.lead("limits", begin)
        about = events.about("surgekit.dev/v1alpha1", "DistributedContainer")
        self._objects = self.lead(
            "objects",
            lambda: Reconciler(
                settings,
                kube,
                source,
                about,
                metrics,
                session=lambda: self._session,
                leads=lambda: self.leads,
            ),
        )

    def _end(self) -> None:
        self._session = None

    @staticmethod
    def _wake(loop: Loop | None) -> None:
        if loop is not None:
            loop.wake()


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Allot limits until told to stop."""
    serve(lambda: Controller(settings, Kube.connect(kubeconfig)), settings, "surgekit-limit-allocator")
