"""Metrics of the agent. Each scrape reads what the agent counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from limit_allocator.agent.node_agent import NodeAgent

__all__ = ["AgentMetrics"]

_PREFIX = "surgekit_limit_agent"
# A tick has 100 ms; 200 containers take 5 (experiments/escra/agent_cost.py).
_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class AgentMetrics(Collector):
    def __init__(self, agent: NodeAgent, streams: Callable[[], bool]) -> None:
        self.registry = CollectorRegistry()
        self._agent, self._streams = agent, streams
        self.tick_s = Histogram(
            f"{_PREFIX}_tick_seconds", "Time that a tick took", buckets=_BUCKETS, registry=self.registry
        )
        self.faults = 0  # ticks that failed
        self.registry.register(self)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        agent, counts, limits = self._agent, self._agent.counts, self._agent.limits
        held = list(agent.held.values())
        modes = Counter("enforce" if one.enforced else "shadow" for one in held)
        yield _gauge("containers", "Containers that the agent looks after", "mode", modes)
        yield GaugeMetricFamily(
            f"{_PREFIX}_stream_up", "1 while a controller answers", value=float(self._streams())
        )
        yield _counter("foreign_writes", "Limits that others wrote", "what", limits.drift.total)
        yield _counter("refused_writes", "Writes that the kernel refused", "file", limits.refused)
        yield _counter(
            "written_back", "Containers whose own limits were written back", "result", counts.written_back
        )
        orders = {"void": counts.void_orders, "unreadable": counts.unreadable_orders}
        yield _counter("ignored_orders", "Orders that were not carried out", "reason", orders)
        for name, help_, value in (
            ("memory_events", "Times that a container needed memory", counts.memory_events),
            ("released", "Containers that waited too long for memory", counts.released),
            ("oom_kills", "Processes of containers that the kernel killed for memory", counts.oom_kills),
            ("unreadable_containers", "Readings that failed", counts.unreadable_containers),
            ("step_failures", "Ticks that failed by a fault of ours", self.faults),
        ):
            yield CounterMetricFamily(f"{_PREFIX}_{name}", help_, value=value)


def _gauge(name: str, help_: str, label: str, values: Counter[str]) -> Metric:
    family = GaugeMetricFamily(f"{_PREFIX}_{name}", help_, labels=[label])
    for value in ("enforce", "shadow"):
        family.add_metric([value], values[value])
    return family


def _counter(name: str, help_: str, label: str, values: dict[str, int]) -> Metric:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", help_, labels=[label])
    for value, number in list(values.items()):
        family.add_metric([value], number)
    return family
