"""Metrics of the controller: sums over all applications, never a pod's name as a label."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.allowance import Allowance
from limit_allocator.conditions import REASONS
from limit_allocator.view import View

__all__ = ["LimitMetrics"]


class LimitMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._applications = Gauge(
            "surgekit_limit_allocator_applications",
            "DistributedContainers by the reason of their condition Enforced",
            ["reason"], registry=self.registry,
        )  # fmt: skip
        self._containers = Gauge(
            "surgekit_limit_allocator_containers", "Containers that agents registered", registry=self.registry
        )
        self._cores = Gauge(
            "surgekit_limit_allocator_cores", "CPU, of all applications: limit, allocated, used",
            ["what"], registry=self.registry,
        )  # fmt: skip
        self._bytes = Gauge(
            "surgekit_limit_allocator_memory_bytes", "Memory, of all applications: limit, allocated, used",
            ["what"], registry=self.registry,
        )  # fmt: skip
        self._silent = Gauge(
            "surgekit_limit_allocator_silent_nodes", "Nodes that hold limits and whose agents are silent",
            registry=self.registry,
        )  # fmt: skip
        self._survived = Gauge(
            "surgekit_limit_allocator_memory_events_survived",
            "Memory events after which the container lived, since this replica leads",
            registry=self.registry,
        )
        self._oom_kills = Gauge(
            "surgekit_limit_allocator_oom_kills", "OOM kills in managed containers, since this replica leads",
            registry=self.registry,
        )  # fmt: skip
        self.decision_seconds = Histogram(
            "surgekit_limit_allocator_decision_seconds", "Time from a tick's reports to its orders",
            buckets=(0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0), registry=self.registry,
        )  # fmt: skip
        self.resizes = Counter(
            "surgekit_limit_allocator_resizes", "Ceilings moved in pods' specs: done, failed",
            ["outcome"], registry=self.registry,
        )  # fmt: skip
        self.failures = Counter(
            "surgekit_limit_allocator_failures", "Failures of: status, report", ["what"],
            registry=self.registry,
        )  # fmt: skip

        self.reports = Counter(
            "surgekit_limit_allocator_reports", "Reports of agents that were read", registry=self.registry
        )
        self.orders = Counter(
            "surgekit_limit_allocator_orders", "Messages sent to agents", registry=self.registry
        )

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """A gauge that is read when Prometheus asks."""
        Gauge(f"surgekit_limit_allocator_{name}", text, registry=self.registry).set_function(value)

    def show(self, applied: Iterable[tuple[str, Allowance, View]], too_many: int = 0) -> None:
        """Each application's reason of the condition Enforced, and what it was written from.

        `too_many`: how many DistributedContainers do not count.
        """
        applications = list(applied)
        reasons = Tally(reason for reason, _, _ in applications) + Tally(TooMany=too_many)
        for reason in REASONS["Enforced"]:
            self._applications.labels(reason).set(reasons[reason])
        views = [view for _, _, view in applications]
        self._containers.set(sum(view.container_count for view in views))
        limits = [allowance for _, allowance, _ in applications]
        cores = (
            ("limit", sum(a.cpu_us for a in limits)),
            ("allocated", sum(v.allocated_cpu_us for v in views)),
            ("used", sum(v.used_cpu_us for v in views)),
        )
        for what, cpu_us in cores:
            self._cores.labels(what).set(cpu_us / PERIOD_US)
        memory = (
            ("limit", sum(a.memory_bytes for a in limits)),
            ("allocated", sum(v.allocated_memory_bytes for v in views)),
            ("used", sum(v.used_memory_bytes for v in views)),
        )
        for what, size_bytes in memory:
            self._bytes.labels(what).set(size_bytes)
        self._silent.set(len({node for view in views for node in view.silent_nodes}))
        self._survived.set(sum(view.events_survived for view in views))
        self._oom_kills.set(sum(view.oom_kills for view in views))
