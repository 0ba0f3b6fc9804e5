"""Metrics of the adapter."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["Metrics"]

# Dense around the goal of 5 ms.
_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


class Metrics:
    def __init__(self, policies: Callable[[], int], input_age_s: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "surgekit_adapter_requests_total", "Requests by API group (or none) and HTTP status",
            ["group", "code"], registry=self.registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "surgekit_adapter_request_seconds", "Time to answer a request for a metric",
            buckets=_BUCKETS_S, registry=self.registry,
        )  # fmt: skip
        known = Gauge("surgekit_adapter_policies", "KneePolicies known", registry=self.registry)
        known.set_function(lambda: float(policies()))
        age = Gauge(
            "surgekit_adapter_input_age_seconds", "Age of the watch of KneePolicies",
            registry=self.registry,
        )  # fmt: skip
        age.set_function(input_age_s)
