"""The probe's metrics. Nodes are labels, pods never are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from node_speed_probe.ledger import Snapshot

__all__ = ["ProbeMetrics"]


class ProbeMetrics(Collector):
    """Read from the latest snapshot at each scrape, so that deleted nodes disappear here too."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot
        self.registry = CollectorRegistry()
        self.writes = Counter(
            "surgekit_probe_writes",
            "NodeSpeed objects written, by result",
            ["result"],
            registry=self.registry,
        )
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        snapshot = self._snapshot()
        tau = _gauge("tau_create_seconds", "Seconds to create one container on the node when alone", "node")
        error = _gauge("tau_create_relative_error", "Standard error of tau_create over its value", "node")
        resize = _gauge("tau_resize_seconds", "Seconds until the node follows an in-place resize", "node")
        creating = _gauge("creating", "Creations that share the node's speed now", "node")
        for estimate in snapshot.estimates:
            tau.add_metric([estimate.node], estimate.tau_create_s)
            error.add_metric([estimate.node], estimate.tau_create_rel_error)
            creating.add_metric([estimate.node], estimate.creating)
            if estimate.tau_resize_s is not None:
                resize.add_metric([estimate.node], estimate.tau_resize_s)
        yield from (tau, error, resize, creating)
        yield CounterMetricFamily(
            "surgekit_probe_samples", "Creations that gave a sample", value=snapshot.samples_total
        )
        aborted = CounterMetricFamily(
            "surgekit_probe_aborted", "Creations that gave no sample, by reason", labels=["reason"]
        )
        for reason, count in snapshot.aborted_total.items():
            aborted.add_metric([reason], count)
        yield aborted


def _gauge(name: str, help: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"surgekit_probe_{name}", help, labels=[label])
