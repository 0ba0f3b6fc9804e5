"""Sets the number of regular instances through the scale subresource, as scaling.py decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import structlog

from burst_plane.burst_function import BurstFunction, Via
from burst_plane.functions import Known
from burst_plane.knative.route import Route
from burst_plane.leader_session import LeaderSession
from burst_plane.metrics import ControllerMetrics
from burst_plane.sources import ClusterSource
from burst_plane.status import Regular
from burst_plane.traffic import excess_of
from surgekit.kube.client import ApiError, Kube
from surgekit.kube.scale import NotScalable, Scales
from surgekit.process.modes import Mode

__all__ = ["RegularInstances"]

log = structlog.get_logger(__name__)


class RegularInstances:
    def __init__(
        self,
        kube: Kube,
        source: ClusterSource,
        metrics: ControllerMetrics,
        leads: Callable[[], bool],
        autoscaler_error: Callable[[], str] = str,
    ) -> None:
        """`autoscaler_error`: why Knative's cannot be told; empty if it can."""
        self._autoscaler_error = autoscaler_error
        self._scales, self._source, self._metrics, self._leads = Scales(kube), source, metrics, leads

    def scale(self, session: LeaderSession, functions: Iterable[Known]) -> None:
        """One target's trouble does not keep the others."""
        for known in functions:
            with self._noting(known):
                self._follow(session, known)

    def release(self, functions: Iterable[Known]) -> None:
        """Targets that we no longer scale: one that we left at zero gets an instance, nobody else would."""
        for known in functions:
            if not known.scaled or known.refused:
                continue
            with self._noting(known):
                if known.spec.via is Via.SCALE and self._replicas(known.spec)[1] == 0:
                    self._set(known.spec, 0, max(known.spec.min_replicas, 1), "nobody scales it any more")
                known.scaled = False

    @contextmanager
    def _noting(self, known: Known) -> Iterator[None]:
        try:
            yield
        except (NotScalable, ApiError) as error:
            self._metrics.scalings.labels("failed").inc()
            if known.regular.reason != str(error):
                log.warning("not scaled", function=known.spec.key, error=str(error))
            known.regular = Regular(known.regular.ready, known.regular.wanted, str(error))

    def _follow(self, session: LeaderSession, known: Known) -> None:
        spec, now_s = known.spec, time.monotonic()
        if known.refused:  # costs no call, however many there are
            known.regular = Regular(0, 0, known.refused.message)
            return
        if spec.is_knative:
            self._show_knative(session, known)
            return
        ready, asked = self._replicas(spec)
        with session.lock:
            account = session.accounts[spec.function]
            heard = account.heard(now_s)
            decision = account.scaler.decide(ready, asked, now_s)
        wanted, reason = decision.action, "; ".join(decision.reasons)
        if known.mode is Mode.OFF:
            wanted, reason = asked, "off"
        elif not heard:  # fewer reports are no less traffic
            wanted, reason = asked, "no placement reports"
        elif wanted < asked and now_s - known.since_s < spec.keepalive_s:
            reason += f"; this leader has watched for less than the keepalive, so {asked} stay"
            wanted = asked
        ours = spec.via is Via.SCALE
        known.regular = Regular(ready, wanted, reason if ours else f"by others (via: {spec.via}); {reason}")
        if ours and known.mode is Mode.ENFORCE and wanted != asked:
            self._set(spec, asked, wanted, reason)

    def _show_knative(self, session: LeaderSession, known: Known) -> None:
        """Knative's autoscaler sets the number."""
        route, now_s = known.route, time.monotonic()
        if not isinstance(route, Route):
            known.regular = Regular(0, 0, route.message if route else "")
            return
        with session.lock:
            excess = excess_of(route, session.accounts[known.spec.function], now_s)
        told = f"it is told of {excess.concurrency:.2f} excess requests at once"
        if known.spec.via is not Via.KNATIVE or known.revision is None:
            told = "it is told nothing"
        elif self._autoscaler_error():
            told = f"it cannot be told: {self._autoscaler_error()}"
        known.regular = Regular(route.ready, route.wanted, f"Knative's autoscaler decides; {told}")

    def _set(self, spec: BurstFunction, asked: int, wanted: int, reason: str) -> None:
        if not self._leads():
            return
        self._scales.set(spec.target, wanted)
        self._metrics.scalings.labels("up" if wanted > asked else "down").inc()
        log.info(
            "scaled",
            namespace=spec.function.namespace,
            function=spec.function.name,
            before=asked,
            decision=wanted,
            reason=reason,
        )

    def _replicas(self, spec: BurstFunction) -> tuple[int, int]:
        """Ready, and asked for. Raise NotScalable or ApiError."""
        if spec.target.kind != "Deployment":
            asked = self._scales.get(spec.target).replicas
            return asked, asked
        if (found := self._source.deployment(spec.target)) is None:
            raise NotScalable(f"there is no Deployment {spec.target.name} in {spec.target.namespace}")
        return found.ready, found.asked
