"""The slow loop of the leader: BurstFunctions and what belongs to them in, directory, scale and statuses out.

Nothing here can hold up a request: placements and agents go by what they were told last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from burst_plane import status
from burst_plane.actuator import RegularInstances
from burst_plane.burst_function import Via
from burst_plane.conditions import Readiness
from burst_plane.directory import Agents, listed, preparations
from burst_plane.functions import Functions, Known
from burst_plane.knative.route import Route
from burst_plane.leader_session import LeaderSession
from burst_plane.metrics import ControllerMetrics
from burst_plane.model import Function
from burst_plane.preparing import Pool, pool
from burst_plane.registration import Registration
from burst_plane.resolver import Resolver
from burst_plane.settings import Settings
from burst_plane.sources import ClusterSource
from burst_plane.status_writer import StatusWriter
from burst_plane.templates import Templates
from burst_plane.traffic import Account
from burst_plane.wire.messages import AgentAddress
from surgekit.kube.client import Kube
from surgekit.kube.conditions import status_before
from surgekit.kube.events import Events
from surgekit.process.modes import Mode

__all__ = ["Reconciler", "World"]

_EVERY_S = 0.5  # between two looks, and after a change at once
_LEAST_GAP_S = 0.1
_SPEEDS_EVERY_S = 60.0
_POOLS_EVERY_S, _SHOW_EVERY_S = 5.0, 2.0  # both look at an hour of each function's traffic


@dataclass(frozen=True)
class World:
    """What the reconciler acts on."""

    kube: Kube
    source: ClusterSource
    events: Events
    metrics: ControllerMetrics
    session: Callable[[], LeaderSession | None]
    leads: Callable[[], bool]
    autoscaler_error: Callable[[], str] = str  # why Knative's cannot be told; empty if it can


class Reconciler:
    """Lives as long as this replica leads; the next one starts from the objects, agents and placements."""

    def __init__(self, settings: Settings, world: World) -> None:
        self._settings, self._world = settings, world
        self._functions = Functions(settings.mode, settings.most_functions)
        self._resolver = Resolver(world.kube)
        self._templates = Templates(
            self._resolver, world.source, world.metrics, every_s=settings.resolve_every_s
        )
        self._regular = RegularInstances(
            world.kube, world.source, world.metrics, world.leads, world.autoscaler_error
        )
        self._statuses = StatusWriter(
            world.kube, world.events, world.metrics, world.leads, every_s=settings.status_every_s
        )
        self._registration = Registration(world.kube, world.source, world.metrics, world.leads)
        self._speeds: dict[str, float] = {}
        self._pools: dict[Function, Pool] = {}
        self._speeds_s = self._scaled_s = self._pooled_s = self._shown_s = -1e9

    def step(self) -> float:
        session = self._world.session()
        if session is None or not self._world.source.complete:
            return _LEAST_GAP_S
        objects = self._world.source.burst_functions()
        self._registration.follow(objects)
        gone = self._functions.read(objects, time.monotonic())
        session.follow((known.spec for known in self._functions), self._restore)
        self._functions.find_routes(self._world.source.route)
        session.tell_knative_of(_told(self._functions))
        more = self._templates.look(self._functions, self._world.leads)
        session.weigh({k.spec.function: k.found.spec.memory_bytes for k in self._functions if k.found.spec})
        agents = self._agents(session)
        readiness = agents.readiness(self._functions)
        self._announce(session, agents, readiness)
        if time.monotonic() - self._scaled_s >= self._settings.scale_every_s:
            self._scaled_s = time.monotonic()
            self._regular.scale(session, self._functions)
        self._regular.release(
            [*gone, *(known for known in self._functions if known.mode is not Mode.ENFORCE)]
        )
        self._statuses.write(session, self._functions, readiness)
        if time.monotonic() - self._shown_s >= _SHOW_EVERY_S:
            self._shown_s = time.monotonic()
            self._show(session, readiness)
        return _LEAST_GAP_S if more else _EVERY_S

    def stop(self) -> None:
        self._world.metrics.show(())
        self._world.metrics.show_conditions((), ())

    def _restore(self, account: Account) -> None:
        """A new leader takes over the filter's history, if it is no older than the filter looks back."""
        for known in self._functions:
            if known.spec.function == account.function.function:
                saved, saved_s = status.history_before(status_before(known.obj))
                now_s, age_s = time.monotonic(), max(time.time() - saved_s, 0.0)
                if saved:
                    account.history.restore(saved, now_s - age_s, now_s)

    def _agents(self, session: LeaderSession) -> Agents:
        if time.monotonic() - self._speeds_s >= _SPEEDS_EVERY_S:
            self._speeds_s = time.monotonic()
            self._speeds = self._resolver.speeds()
        port = self._settings.agent_port
        found = [((pod.node, pod.address, port), usable) for pod, usable in self._world.source.agents()]
        found += [(agent, True) for agent in self._settings.fixed_agents]
        every = tuple(AgentAddress(node=n, address=a, port=p) for (n, a, p), _ in found)
        usable = tuple(
            AgentAddress(node=n, address=a, port=p, speed=self._speeds.get(n, 1.0))
            for (n, a, p), may in found
            if may
        )
        return Agents(every, usable, session.links.states)

    def _announce(self, session: LeaderSession, agents: Agents, readiness: dict[Function, Readiness]) -> None:
        now_s, sizing = time.monotonic(), self._settings.sizing
        if now_s - self._pooled_s >= _POOLS_EVERY_S:
            self._pooled_s, self._pools = now_s, {}

        def pool_of(function: Function) -> Pool:
            if function not in self._pools:
                with session.lock:
                    account = session.accounts[function]
                    self._pools[function] = pool(account.bursts, sizing, now_s, account.run_s)
            return self._pools[function]

        session.announce(
            listed(self._functions, readiness),
            agents.usable,
            agents.every,
            preparations(self._functions, agents, pool_of, sizing, self._settings.most_in_namespace),
        )

    def _show(self, session: LeaderSession, readiness: dict[Function, Readiness]) -> None:
        now_s = time.monotonic()
        with session.lock:
            shown = [
                (function, account.view(now_s), account.scaler.average(now_s))
                for function, account in session.accounts.items()
            ]
        self._world.metrics.show(shown)
        self._world.metrics.show_conditions(self._statuses.reasons(), readiness.values())


def _told(functions: Iterable[Known]) -> dict[Function, Route]:
    """Functions of whose excess traffic Knative's autoscaler is told. In shadow, too: what waits here would
    otherwise wait in the activator, which counts it."""
    return {
        known.spec.function: known.revision
        for known in functions
        if known.revision and known.spec.via is Via.KNATIVE
    }
