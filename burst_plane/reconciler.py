"""The slow loop of the leader: BurstFunctions and what belongs to them in, directory, scale and statuses out.

Where an object cannot be read, its last valid spec goes on for regular scaling, and its excess traffic waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog

from burst_plane import burst_function, status
from burst_plane.burst_function import BURST_FUNCTIONS, BurstFunction, SpecError, Via
from burst_plane.conditions import Readiness, conditions, invalid, overflows
from burst_plane.leader_session import LeaderSession
from burst_plane.metrics import ControllerMetrics
from burst_plane.model import Preparation
from burst_plane.preparing import Sizing, Wanted, pool, prepare
from burst_plane.resolver import Resolution, Resolver
from burst_plane.settings import Settings
from burst_plane.sources import ClusterSource
from burst_plane.status import Regular
from burst_plane.traffic import Account
from burst_plane.wire.messages import AgentAddress, Listed
from surgekit.decision import Decision
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.conditions import Condition, status_before
from surgekit.kube.events import Events
from surgekit.kube.scale import NotScalable, Scales
from surgekit.kube.status import patch_status
from surgekit.process.modes import Mode

__all__ = ["Reconciler"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]

_EVERY_S = 0.5  # between two looks, and after a change at once
_LEAST_GAP_S = 0.1
_MOST_RESOLVED = 10  # a look; each is a dry-run create and some reads
_REFUSED_AGAIN_S = 10.0  # after the API server refused: somebody may have mended it
_SPEEDS_EVERY_S = 60.0
_RESOLVING = Resolution(None, "Resolving", "its pod template was not looked at yet")


@dataclass(slots=True)
class _Known:
    """What this leader knows of one function."""

    spec: BurstFunction
    obj: Json
    resolution: Resolution = _RESOLVING
    looked_at: tuple[object, ...] = ()  # what the resolution was made from
    resolved_s: float = -1e9
    written_s: float = -1e9
    said: tuple[tuple[str, bool | None, str], ...] = ()  # conditions as written last
    regular: Regular = field(default_factory=lambda: Regular(0, 0, ""))


class Reconciler:
    """Lives as long as this replica leads; the next one starts from the objects, agents and placements."""

    def __init__(
        self,
        settings: Settings,
        kube: Kube,
        source: ClusterSource,
        events: Events,
        metrics: ControllerMetrics,
        *,
        session: Callable[[], LeaderSession | None],
        leads: Callable[[], bool],
    ) -> None:
        self._settings, self._kube, self._source = settings, kube, source
        self._events, self._metrics = events, metrics
        self._session, self._leads = session, leads
        self._resolver, self._scales = Resolver(kube), Scales(kube)
        self._known: dict[str, _Known] = {}  # by uid
        self._invalid: dict[str, str] = {}  # by uid: why
        self._speeds: dict[str, float] = {}
        self._speeds_s = self._scaled_s = -1e9
        self._sizing = Sizing(
            hit_share=settings.hit_share,
            least=settings.least_prepared,
            most=settings.most_prepared,
            least_nodes=settings.least_nodes,
            frozen_starts=settings.frozen_starts,
        )

    def step(self) -> float:
        session = self._session()
        if session is None or not self._source.complete:
            return _LEAST_GAP_S
        self._read(self._source.burst_functions())
        self._refuse_too_many()
        session.follow((known.spec for known in self._known.values()), self._restore)
        more = self._resolve()
        agents = self._agents()
        readiness = {uid: self._readiness(session, known) for uid, known in self._known.items()}
        self._announce(session, agents, readiness)
        now_s = time.monotonic()
        if now_s - self._scaled_s >= self._settings.scale_every_s:
            self._scaled_s = now_s
            self._scale(session)
        self._write(session, readiness)
        self._show(session, readiness)
        return _LEAST_GAP_S if more else _EVERY_S

    def stop(self) -> None:
        self._metrics.show(())
        self._metrics.show_conditions((), ())

    # --- what there is ---

    def _read(self, objects: Iterable[Json]) -> None:
        there, self._invalid = set(), {}
        for obj in objects:
            uid = str(obj["metadata"]["uid"])
            there.add(uid)
            try:
                spec = burst_function.read(obj)
            except SpecError as error:
                self._invalid[uid] = str(error)
                if uid in self._known:
                    self._known[uid].obj = obj
                else:
                    self._write_invalid(obj, str(error))
                continue
            if uid in self._known:
                self._known[uid].spec, self._known[uid].obj = spec, obj
            else:
                self._known[uid] = _Known(spec, obj)
        for gone in self._known.keys() - there:
            del self._known[gone]

    def _refuse_too_many(self) -> None:
        """Of a namespace's functions the oldest may overflow: the work for a tenant is bounded."""
        by_namespace: dict[str, list[_Known]] = {}
        for known in self._known.values():
            by_namespace.setdefault(known.spec.function.namespace, []).append(known)
        most = self._settings.most_functions
        for group in by_namespace.values():
            group.sort(key=lambda k: (str(k.obj["metadata"].get("creationTimestamp")), k.spec.function.name))
            for known in group[most:]:
                why = f"only the {most} oldest BurstFunctions of a namespace may overflow"
                known.resolution, known.looked_at = Resolution(None, "TooManyFunctions", why), ()
            for known in group[:most]:
                if known.resolution.reason == "TooManyFunctions":
                    known.resolution, known.resolved_s = _RESOLVING, -1e9

    def _restore(self, account: Account) -> None:
        """A new leader takes over the filter's history, if it is no older than the filter looks back."""
        for known in self._known.values():
            if known.spec.function == account.function.function:
                saved, saved_s = status.history_before(status_before(known.obj))
                now_s, age_s = time.monotonic(), max(time.time() - saved_s, 0.0)
                if saved:
                    account.history.restore(saved, now_s - age_s, now_s)

    def _mode(self, spec: BurstFunction) -> Mode:
        order = list(Mode)
        return min(spec.mode, self._settings.mode, key=order.index)

    # --- pod templates ---

    def _resolve(self) -> bool:
        """Look at the pod templates that are due, the longest waiting first. True if more are due."""
        due = [(known, now) for known in self._known.values() if (now := self._due(known))]
        due.sort(key=lambda pair: pair[0].resolved_s)
        for known, looked_at in due[:_MOST_RESOLVED]:
            if not self._leads():
                return False
            known.resolved_s = time.monotonic()
            function = known.spec.function
            try:
                found = self._resolver.resolve(
                    known.spec,
                    self._source.port(function.namespace, function.name),
                    self._source.policies(function.namespace),
                )
            except (ApiError, KubeUnreachable) as error:  # the API server's fault: what was found stays
                self._metrics.failures.labels("resolve").inc()
                log.warning("template not resolved", function=known.spec.key, error=str(error))
                continue
            self._metrics.resolutions.labels(found.reason).inc()
            known.resolution, known.looked_at = found, looked_at
        return len(due) > _MOST_RESOLVED

    def _due(self, known: _Known) -> tuple[object, ...]:
        """What the resolution depends on, if it must be made anew; else empty."""
        if known.resolution.reason == "TooManyFunctions" or self._mode(known.spec) is Mode.OFF:
            return ()
        function, target = known.spec.function, known.spec.target
        deployment = self._source.deployment(target.namespace, target.name)
        looked_at = (
            known.spec.generation,
            deployment.generation if deployment and target.kind == "Deployment" else 0,
            self._source.port(function.namespace, function.name),
            tuple(sorted(p.name for p in self._source.policies(function.namespace))),
        )
        age_s = time.monotonic() - known.resolved_s
        again_s = self._settings.resolve_every_s
        if known.resolution.spec is None:
            again_s = min(again_s, _REFUSED_AGAIN_S)
        changed = looked_at != known.looked_at and age_s >= 1.0
        return looked_at if changed or age_s >= again_s else ()

    # --- placements and agents ---

    def _agents(self) -> list[tuple[AgentAddress, bool]]:
        """Each with whether instances may start there."""
        if time.monotonic() - self._speeds_s >= _SPEEDS_EVERY_S:
            self._speeds_s = time.monotonic()
            self._speeds = self._resolver.speeds()
        found = [
            (AgentAddress(node=pod.node, address=pod.address, port=self._settings.agent_port), usable)
            for pod, usable in self._source.agents()
        ]
        for text in self._settings.agents:
            node, _, place = text.partition("=")
            host, _, port = place.rpartition(":")
            found.append((AgentAddress(node=node, address=host.strip("[]"), port=int(port)), True))
        return found

    def _announce(
        self,
        session: LeaderSession,
        agents: list[tuple[AgentAddress, bool]],
        readiness: dict[str, Readiness],
    ) -> None:
        states, now_s = session.links.states, time.monotonic()
        every = tuple(agent for agent, _ in agents)
        usable = tuple(
            AgentAddress(node=a.node, address=a.address, port=a.port, speed=self._speeds.get(a.node, 1.0))
            for a, may in agents
            if may
        )
        listed, wanted = [], []
        for uid, known in self._known.items():
            spec, mode = known.resolution.spec, self._mode(known.spec)
            if spec is None or uid in self._invalid or not overflows(mode, True, readiness[uid]):
                continue
            function = known.spec
            listed.append(
                Listed(
                    function=function.function,
                    template=spec.template,
                    mode=str(mode),
                    cpu_millis=spec.cpu_millis,
                    memory_bytes=spec.memory_bytes + spec.scratch_bytes,
                    longest_s=function.longest_s,
                    idempotent=function.idempotent,
                    most_instances=function.most_instances,
                    variant=str(function.variant),
                )
            )
            if mode is Mode.ENFORCE:
                with session.lock:
                    account = session.accounts[function.function]
                    size = pool(account.bursts, self._sizing, now_s)
                wanted.append(Wanted(function.function, spec, size))
        nodes = [a.node for a in usable if a.node in states and not states[a.node][0].draining]
        prepared: dict[str, tuple[Preparation, ...]] = {agent.node: () for agent in every}
        prepared |= prepare(wanted, nodes, self._sizing)
        session.announce(tuple(listed), usable, every, prepared)

    def _readiness(self, session: LeaderSession, known: _Known) -> Readiness:
        states = session.links.states
        spec = known.resolution.spec
        found = [
            (node, of)
            for node, (state, _) in sorted(states.items())
            for of in state.prepared
            if spec is not None and of.function == known.spec.function and of.template == spec.template
        ]
        may_start = sum(not state.draining for state, _ in states.values())
        return Readiness(may_start, tuple(found))

    # --- regular instances ---

    def _scale(self, session: LeaderSession) -> None:
        for known in self._known.values():
            spec = known.spec
            mode = self._mode(spec)
            if mode is Mode.OFF:
                known.regular = Regular(*self._replicas(spec), "off")
                continue
            try:
                self._scale_one(session, known, mode)
            except (NotScalable, ApiError) as error:  # one target's trouble does not keep the others
                self._metrics.scalings.labels("failed").inc()
                known.regular = Regular(known.regular.ready, known.regular.wanted, str(error))
                log.warning("not scaled", function=spec.key, error=str(error))

    def _scale_one(self, session: LeaderSession, known: _Known, mode: Mode) -> None:
        spec = known.spec
        ready, asked = self._replicas(spec)
        with session.lock:
            decision: Decision[int] = session.accounts[spec.function].scaler.decide(
                ready, asked, time.monotonic()
            )
        reason = "; ".join(decision.reasons)
        if spec.via is not Via.SCALE:
            reason = f"by others (via: {spec.via}); {reason}"
        known.regular = Regular(ready, decision.action, reason)
        if spec.via is not Via.SCALE or mode is not Mode.ENFORCE or not decision.valid:
            return
        if decision.action != asked and self._leads():
            self._scales.set(spec.target, decision.action)
            self._metrics.scalings.labels("up" if decision.action > asked else "down").inc()
            log.info(
                "scaled",
                namespace=spec.function.namespace,
                function=spec.function.name,
                before=asked,
                decision=decision.action,
                reason=reason,
            )

    def _replicas(self, spec: BurstFunction) -> tuple[int, int]:
        """Ready, and asked for."""
        target = spec.target
        if target.kind == "Deployment":
            found = self._source.deployment(target.namespace, target.name)
            return (found.ready, found.asked) if found else (0, 0)
        asked = self._scales.get(target).replicas
        return asked, asked

    # --- statuses ---

    def _write(self, session: LeaderSession, readiness: dict[str, Readiness]) -> None:
        for uid, known in self._known.items():
            if uid in self._invalid:
                self._write_invalid(known.obj, self._invalid[uid])
                known.said = ()
                continue
            resolution, mode = known.resolution, self._mode(known.spec)
            if mode is Mode.OFF and resolution.spec is None:
                resolution = Resolution(None, "Off", "nothing is looked at")
            said = conditions(mode, resolution.reason, resolution.message, readiness[uid])
            if not self._is_due(known, said):
                continue
            now_s = time.monotonic()
            with session.lock:
                account = session.accounts[known.spec.function]
                view, saved = account.view(now_s), account.history.saved(now_s)
            spec = resolution.spec
            body = status.status_of(
                status_before(known.obj), said, known.spec.generation, mode, spec.template if spec else "",
                view, saved, known.regular, readiness[uid], time.time(),
            )  # fmt: skip
            known.written_s = time.monotonic()  # also if it fails: not more often than this
            if self._patch(known.obj, body):
                self._tell(known, said)
                known.said = tuple((c.type, c.holds, c.reason) for c in said)

    def _is_due(self, known: _Known, said: list[Condition]) -> bool:
        """Conditions are written when they change, numbers every so often. No more than once a second."""
        age_s = time.monotonic() - known.written_s
        short = tuple((c.type, c.holds, c.reason) for c in said)
        changed = short != known.said
        return age_s >= self._settings.status_every_s or (changed and age_s >= 1.0)

    def _write_invalid(self, obj: Json, why: str) -> None:
        said = invalid(why)
        before = status_before(obj)
        body = status.invalid_status(before, said, _generation(obj), time.time())
        if list(map(_essence, before.get("conditions") or ())) == list(map(_essence, body["conditions"])):
            return
        if self._patch(obj, body):
            self._events.post(obj["metadata"], "InvalidSpec", why, "Warning")

    def _patch(self, obj: Json, body: Json) -> bool:
        """One object's trouble does not keep the others from their status."""
        if not self._leads():
            return False
        try:
            patch_status(self._kube, BURST_FUNCTIONS, obj["metadata"], body)
        except ApiError as error:
            self._metrics.failures.labels("status").inc()
            log.warning("status not written", burst_function=obj["metadata"].get("name"), error=str(error))
            return False
        return True

    def _tell(self, known: _Known, said: list[Condition]) -> None:
        """An Event when it begins or ends to be eligible or to overflow, and why."""
        before = {of[0]: of[2] for of in known.said}
        for c in said:
            if c.type != "Ready" and c.holds is not None and before.get(c.type) != c.reason:
                usual = c.holds or c.reason in ("Off", "NoAgents")
                self._events.post(
                    known.obj["metadata"], c.reason, c.message, "Normal" if usual else "Warning"
                )

    def _show(self, session: LeaderSession, readiness: dict[str, Readiness]) -> None:
        now_s = time.monotonic()
        with session.lock:
            shown = [
                (function, account.view(now_s), account.scaler.average(now_s))
                for function, account in session.accounts.items()
            ]
        self._metrics.show(shown)
        reasons = [{of[0]: of[2] for of in known.said} for known in self._known.values()]
        self._metrics.show_conditions(
            [(of.get("Eligible", "Resolving"), of.get("Overflow", "")) for of in reasons], readiness.values()
        )


def _generation(obj: Json) -> int:
    generation = obj["metadata"].get("generation")
    return generation if isinstance(generation, int) else 0


def _essence(condition: Json) -> tuple[object, ...]:
    return tuple(condition.get(key) for key in ("type", "status", "reason", "message", "observedGeneration"))
