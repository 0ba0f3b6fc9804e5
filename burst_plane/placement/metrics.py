"""Metrics of a placement: never a function's name as a label."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["PlacementMetrics"]

_SECONDS = (0.001, 0.003, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 1.0, 3.0)


class PlacementMetrics:
    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.placements = Counter(
            "surgekit_burst_placement_requests",
            "Requests for an emergency instance by outcome: placed, or why the request waits in the queue",
            ["outcome"], registry=registry,
        )  # fmt: skip
        self.place_seconds = Histogram(
            "surgekit_burst_placement_seconds", "From HAProxy's question to a started instance",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.starts = Counter(
            "surgekit_burst_placement_starts",
            "Emergency instances by what they were started from: frozen, created, cold",
            ["origin"], registry=registry,
        )  # fmt: skip
        self.retries = Counter(
            "surgekit_burst_placement_retries", "Second attempts, on another node", registry=registry
        )
        self.ended = Counter(
            "surgekit_burst_placement_ended", "Emergency requests that ended: answered, failed",
            ["outcome"], registry=registry,
        )  # fmt: skip
        self.unreadable = Counter(
            "surgekit_burst_placement_unreadable", "Questions and log lines that make no sense", ["what"],
            registry=registry,
        )  # fmt: skip
        self.statistics_failures = Counter(
            "surgekit_burst_placement_statistics_failures", "Looks at HAProxy's statistics that failed",
            registry=registry,
        )  # fmt: skip

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """A gauge that is read when Prometheus asks."""
        Gauge(f"surgekit_burst_placement_{name}", text, registry=self.registry).set_function(value)
