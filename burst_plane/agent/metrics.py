"""The agent's metrics. No label has the name of a function: a tenant chooses those."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from burst_plane.agent.pulselet import Pulselet
from burst_plane.agent.stock import Stock

__all__ = ["PulseletMetrics"]

_PREFIX = "surgekit_pulselet"
_BUCKETS = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5, 5.0)


class PulseletMetrics(Collector):
    def __init__(self, pulselet: Pulselet, stock: Stock) -> None:
        self._pulselet, self._stock = pulselet, stock
        self.registry = CollectorRegistry()
        self.registry.register(self)
        start_s = Histogram(
            f"{_PREFIX}_start_seconds",
            "From a Start's receipt until the instance's port was open, by what it was started from",
            ["origin"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        pulselet.on_started = lambda origin, took_s: start_s.labels(origin).observe(took_s)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        state, counts = self._pulselet.state(), self._pulselet.counts
        yield GaugeMetricFamily(f"{_PREFIX}_instances", "Instances that run", value=self._pulselet.running)
        yield GaugeMetricFamily(f"{_PREFIX}_draining", "1 while the agent ends", value=float(state.draining))
        for name, help_, free, total in (
            (
                "cpu_cores",
                "Cores that instances may take",
                state.cpu_millis_free / 1000,
                state.cpu_millis / 1000,
            ),
            ("memory_bytes", "Memory that instances may take", state.memory_bytes_free, state.memory_bytes),
        ):
            gauge = GaugeMetricFamily(f"{_PREFIX}_{name}", help_, labels=["state"])
            gauge.add_metric(["free"], free)
            gauge.add_metric(["taken"], total - free)
            yield gauge
        ready = GaugeMetricFamily(
            f"{_PREFIX}_ready", "Containers that are ready for a start", labels=["kind"]
        )
        ready.add_metric(["created"], sum(each.created for each in state.prepared))
        ready.add_metric(["frozen"], sum(each.frozen for each in state.prepared))
        yield ready
        for name, help_, label, values in (
            ("refused", "Starts that were refused", "reason", counts.refused),
            ("ended", "Instances that ended", "reason", counts.ended),
            ("made_ready", "Containers that were made ready", "kind", self._stock.made),
            ("ready_used", "Ready containers that became an instance: hits", "kind", self._stock.used),
            ("ready_given_up", "Ready containers that were removed unused", "kind", self._stock.given_up),
        ):
            counter = CounterMetricFamily(f"{_PREFIX}_{name}", help_, labels=[label])
            for key, value in values.items():
                counter.add_metric([str(key)], value)
            yield counter
        yield CounterMetricFamily(
            f"{_PREFIX}_ready_lost", "Ready containers whose process ended", value=self._stock.lost_total
        )
        yield CounterMetricFamily(
            f"{_PREFIX}_ready_byte_seconds",
            "Memory that ready containers held, times how long",
            value=self._stock.ready_byte_seconds,
        )
