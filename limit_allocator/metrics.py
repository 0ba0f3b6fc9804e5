"""Metrics of the controller."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from limit_allocator.view import View

__all__ = ["AllocatorMetrics"]

_PREFIX = "surgekit_limit_allocator"
_CORE_US = 100_000  # per period


class AllocatorMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._gauges: list[Gauge] = []  # of applications
        self.decision_seconds = Histogram(
            f"{_PREFIX}_decision_seconds", "Time to decide about all containers once",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0), registry=self.registry,
        )  # fmt: skip
        self.reports = self._counter("reports", "Reports of agents that were read")
        self.refused = self._counter("refused_reports", "Reports that made no sense; their streams end")
        self.orders = self._counter("orders", "Messages to agents")
        self.failures = self._counter("status_failures", "Statuses that could not be written")
        self.statuses = self._counter("status_writes", "Statuses written")
        self.resizes = self._counter("resizes", "Ceilings moved through pods/resize: done, refused", "result")
        self._containers = self._of("containers", "Containers of an application")
        self._allocated_cores = self._of("allocated_cores", "Sum of its containers' CPU limits")
        self._used_cores = self._of("used_cores", "CPU use of its containers")
        self._allocated_bytes = self._of("allocated_memory_bytes", "Sum of its memory limits and reserves")
        self._used_bytes = self._of("used_memory_bytes", "Memory that its containers use, without page cache")
        self._oom_kills = self._of("oom_kills", "Processes killed for memory since this controller leads")
        self._survived = self._of("memory_events_survived", "Memory events that a container outlived")

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """A gauge that is read when Prometheus asks."""
        Gauge(f"{_PREFIX}_{name}", text, registry=self.registry).set_function(value)

    def show(self, namespace: str, name: str, view: View) -> None:
        for gauge, value in (
            (self._containers, len(view.containers)),
            (self._allocated_cores, view.allocated_cpu_us / _CORE_US),
            (self._used_cores, view.used_cpu_us / _CORE_US),
            (self._allocated_bytes, view.allocated_memory_bytes),
            (self._used_bytes, view.used_memory_bytes),
            (self._oom_kills, view.oom_kills),
            (self._survived, view.events_survived),
        ):
            gauge.labels(namespace, name).set(value)

    def forget_all(self) -> None:
        """This replica knows nothing of applications any more."""
        for gauge in self._gauges:
            gauge.clear()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

    def _of(self, name: str, text: str) -> Gauge:
        gauge = Gauge(f"{_PREFIX}_{name}", text, ["namespace", "name"], registry=self.registry)
        self._gauges.append(gauge)
        return gauge
