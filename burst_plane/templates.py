"""Looks at pod templates, those that are due. Each look costs a dry-run create and some reads."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from burst_plane.functions import Functions, Known
from burst_plane.knative.route import NotRouted
from burst_plane.metrics import ControllerMetrics
from burst_plane.resolver import Resolver
from burst_plane.sources import ClusterSource
from burst_plane.turns import in_turns
from surgekit.kube.client import ApiError
from surgekit.process.modes import Mode

__all__ = ["Templates"]

log = structlog.get_logger(__name__)

_MOST_RESOLVED = 10  # a look
_REFUSED_AGAIN_S = 10.0  # after the API server refused: somebody may have mended it
_LEAST_S = 1.0  # between two looks at one template, however often it changes


class Templates:
    def __init__(
        self, resolver: Resolver, source: ClusterSource, metrics: ControllerMetrics, *, every_s: float
    ) -> None:
        self._resolver, self._source, self._metrics, self._every_s = resolver, source, metrics, every_s

    def look(self, functions: Functions, leads: Callable[[], bool]) -> bool:
        """Look at those that are due: namespaces in turn, the longest waiting of each first. True if more are
        due."""
        due = [(known, now) for known in functions if (now := self._due(known))]
        due.sort(key=lambda pair: pair[0].resolved_s)
        turns = in_turns(due, lambda pair: pair[0].spec.function.namespace)
        for known, looked_at in turns[:_MOST_RESOLVED]:
            if not leads():
                return False
            known.resolved_s = time.monotonic()
            function = known.spec.function
            try:
                known.resolution = self._resolver.resolve(
                    known.spec,
                    self._source.port(function.namespace, function.name),
                    self._source.policies(function.namespace),
                    known.revision,
                )
            except ApiError as error:  # the API server's fault: what was found stays
                self._metrics.failures.labels("resolve").inc()
                log.warning("template not resolved", function=known.spec.key, error=str(error))
                continue
            known.looked_at = looked_at
            self._metrics.resolutions.labels(known.resolution.reason).inc()
        return len(due) > _MOST_RESOLVED

    def _due(self, known: Known) -> tuple[object, ...]:
        """What the resolution depends on, if it must be made anew; else empty."""
        if known.error or known.refused or known.mode is Mode.OFF:
            return ()
        if isinstance(known.route, NotRouted):
            return ()
        function, target = known.spec.function, known.spec.target
        deployment = self._source.deployment(target) if target.kind == "Deployment" else None
        looked_at = (
            known.spec.generation,
            deployment.generation if deployment else 0,
            known.route.uid if known.route else "",
            self._source.port(function.namespace, function.name),
            tuple(sorted(self._source.policies(function.namespace), key=lambda p: p.name)),
        )
        age_s = time.monotonic() - known.resolved_s
        again_s = min(self._every_s, self._every_s if known.resolution.spec else _REFUSED_AGAIN_S)
        changed = looked_at != known.looked_at and age_s >= _LEAST_S
        return looked_at if changed or age_s >= again_s else ()
