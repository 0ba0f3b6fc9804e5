"""A placement's traffic report: HAProxy's statistics, and what the placement itself has done. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from burst_plane.model import Function
from burst_plane.wire.messages import FunctionTraffic
from surgekit.haproxy.traffic import FunctionTraffic as Statistics

__all__ = ["TrafficMeter", "function_of"]

# Looks miss short requests. Each counts as one of at least a millisecond in a report of a second; otherwise a
# function with many of them would seem idle, and lose its regular instances.
_LEAST = 0.001


def function_of(host: str) -> Function | None:
    name, dot, namespace = host.partition(".")
    return Function(namespace, name) if dot and name and namespace and "." not in namespace else None


class TrafficMeter:
    """Sums what several looks at the statistics saw, until it is asked for a report."""

    def __init__(self) -> None:
        self._before: dict[str, Statistics] = {}
        self._arrivals: Counter[str] = Counter()
        self._sums: dict[str, tuple[float, float, float]] = {}  # in pods, waiting, in emergency
        self._looks = 0
        self.started: Counter[str] = Counter()
        self.hits: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def look(self, statistics: Mapping[str, Statistics]) -> None:
        """Take the statistics as they are now, by host."""
        self._looks += 1
        for host, now in statistics.items():
            before = self._before.get(host)
            known = before is not None and before.backend == now.backend
            if before is not None and known:
                fell = now.arrivals < before.arrivals  # HAProxy was restarted
                self._arrivals[host] += now.arrivals if fell else now.arrivals - before.arrivals
            pods, waiting, emergency = self._sums.get(host, (0.0, 0.0, 0.0))
            self._sums[host] = (pods + now.in_pods, waiting + now.waiting, emergency + now.in_emergency)
        self._before = dict(statistics)

    def report(self) -> tuple[FunctionTraffic, ...]:
        """Since the last report. Every function that HAProxy serves is in it, so that zeros are heard."""
        hosts = self._sums.keys() | self.started.keys() | self.refused.keys() | self.failed.keys()
        functions = []
        for host in sorted(hosts):
            if (function := function_of(host)) is None:
                continue
            pods, waiting, emergency = self._sums.get(host, (0.0, 0.0, 0.0))
            looks, started = max(self._looks, 1), self.started[host]
            functions.append(
                FunctionTraffic(
                    function=function,
                    arrivals=self._arrivals[host],
                    in_regular=max(pods / looks, _LEAST * (self._arrivals[host] - started)),
                    queued=waiting / looks,
                    in_emergency=max(emergency / looks, _LEAST * started),
                    started=started,
                    hits=self.hits[host],
                    refused=self.refused[host],
                    failed=self.failed[host],
                )
            )
        self._sums, self._looks = {}, 0
        for counter in (self._arrivals, self.started, self.hits, self.refused, self.failed):
            counter.clear()
        return tuple(functions)
