"""Metrics of the controller."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["KneeScaleMetrics"]


class KneeScaleMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.policies = Gauge(
            "surgekit_kneescale_policies", "KneePolicies by what their last decision was", ["reason"],
            registry=self.registry,
        )  # fmt: skip
        self.decisions = Counter(
            "surgekit_kneescale_decisions", "Decisions by what they were", ["reason"], registry=self.registry
        )
        self.changes = Counter(
            "surgekit_kneescale_changes",
            "Changes of replicas carried out through scale",
            registry=self.registry,
        )
        self.failures = Counter(
            "surgekit_kneescale_failures", "Faults, by what failed: scale, status, decision or round",
            ["what"], registry=self.registry,
        )  # fmt: skip
        self.round_seconds = Histogram(
            "surgekit_kneescale_round_seconds", "One round over the policies that were due",
            buckets=(0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0), registry=self.registry,
        )  # fmt: skip
