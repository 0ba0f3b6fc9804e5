"""Metrics of the controller."""

from __future__ import annotations

from dataclasses import replace

from limit_allocator.metrics import LimitMetrics
from tests.limit_allocator.test_status import ALLOWED, VIEW

PREFIX = "surgekit_limit_allocator_"


def value(metrics: LimitMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(PREFIX + name, labels)


def test_sums_over_all_applications() -> None:
    metrics = LimitMetrics()
    silent = replace(VIEW, silent_nodes=frozenset({"n1"}))
    metrics.show(
        [("Enforcing", ALLOWED, VIEW), ("AgentsSilent", ALLOWED, silent), ("AgentsSilent", ALLOWED, silent)]
    )
    assert [value(metrics, "cores", what=what) for what in ("limit", "allocated", "used")] == [12.0, 4.5, 0.6]
    assert value(metrics, "memory_bytes", what="allocated") == 3 * (256 << 20)
    assert value(metrics, "applications", reason="AgentsSilent") == 2
    assert value(metrics, "applications", reason="NoPods") == 0
    assert (value(metrics, "silent_nodes"), value(metrics, "containers")) == (1, 3)
    assert (value(metrics, "memory_events_survived"), value(metrics, "oom_kills")) == (21, 3)
    metrics.show([])
    assert value(metrics, "applications", reason="Enforcing") == 0
