"""The burst plane's controller as a process: one replica holds the Lease and leads placements and agents.

Two loops act while this replica leads: `leader_session.py` (traffic in, each second) and `reconciler.py`
(objects, pod templates, scale and statuses). gRPC has a thread of its own.
"""

from __future__ import annotations

import socket
from pathlib import Path

from burst_plane.knative.link import AutoscalerLink
from burst_plane.leader_session import LeaderSession, Placements
from burst_plane.link import AgentLinks
from burst_plane.metrics import ControllerMetrics
from burst_plane.reconciler import Reconciler, World
from burst_plane.settings import Settings
from burst_plane.sources import ClusterSource
from burst_plane.wire.messages import DIRECTOR, TrafficReport
from surgekit.kube.client import Kube
from surgekit.kube.events import EventRecorder
from surgekit.kube.lease import Lease
from surgekit.kube.table import Unreadable
from surgekit.process import controller
from surgekit.process.controller import Loop
from surgekit.process.health_server import serve
from surgekit.wire.server import Method, ServerThread, WireServer

__all__ = ["LEASE_NAME", "Controller", "run"]

LEASE_NAME = "surgekit-burst-controller"
_SESSIONS = 1 << 20  # more than a process can have


class Controller(controller.Controller):
    """One replica."""

    def __init__(self, settings: Settings, kube: Kube) -> None:
        events = EventRecorder(kube, "burst-controller")
        source = ClusterSource(kube, settings, Unreadable(events), on_change=self._wake)
        self._objects: Loop | None = None
        self._session: LeaderSession | None = None
        sessions = 0
        metrics = ControllerMetrics()
        metrics.registry.register(source.unreadable)
        lease = Lease(kube, settings.lease_namespace, LEASE_NAME)
        super().__init__(
            "burst_controller",
            metrics.registry,
            ages_s=source.ages_s,
            max_input_age_s=settings.max_input_age_s,
            lease=lease,
            events=events,
        )
        placements = Placements(lambda: self._session)
        attach = Method.conversation(TrafficReport, frozenset({settings.placement_name}), placements.attach)
        self.server = WireServer(settings.bind, settings.tls_directory, DIRECTOR, {"Attach": attach})
        thread = ServerThread(self.server)
        self.autoscaler = autoscaler = AutoscalerLink(
            settings.knative_autoscaler,
            socket.gethostname(),
            lambda what: metrics.autoscaler_messages.labels(what).inc(),
        )
        metrics.gauge("placements", "Placements that are attached", lambda: len(placements.attached))
        metrics.gauge(
            "agents",
            "Node agents that answer the leader",
            lambda: len(self._session.links.states) if self._session else 0,
        )
        self.run_beside(source)
        self.run_beside(thread, thread.alive)
        self.run_beside(autoscaler, autoscaler.alive)

        def begin() -> LeaderSession:
            nonlocal sessions
            sessions += 1
            term = lease.transitions * _SESSIONS + sessions
            links = AgentLinks(thread.loop, term, settings.agent_name, settings.client_tls_directory)
            self._session = session = LeaderSession(
                thread.loop,
                placements,
                term,
                links,
                most_in_namespace=settings.most_in_namespace,
                on_stop=self._end,
                say=autoscaler.say,
            )
            return session

        self.lead("traffic", begin)
        about = events.about("surgekit.dev/v1alpha1", "BurstFunction")
        world = World(
            kube,
            source,
            about,
            metrics,
            session=lambda: self._session,
            leads=lambda: self.leads,
            autoscaler_error=lambda: autoscaler.error,
        )
        self._objects = self.lead("objects", lambda: Reconciler(settings, world))

    def _end(self) -> None:
        self._session = None

    def _wake(self) -> None:
        if self._objects is not None:
            self._objects.wake()


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Direct the burst plane until told to stop."""
    serve(lambda: Controller(settings, Kube.connect(kubeconfig)), settings, "surgekit-burst-controller")
