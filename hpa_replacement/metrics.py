"""Metrics of the controller."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["KneeScaleMetrics"]


class KneeScaleMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.policies = Gauge(
            "surgekit_kneescale_policies", "KneePolicies by the reason of their condition", ["reason"],
            registry=self.registry,
        )  # fmt: skip
        self.decisions = Counter(
            "surgekit_kneescale_decisions", "Decisions by reason", ["reason"], registry=self.registry
        )
        self.changes = Counter(
            "surgekit_kneescale_changes",
            "Changes of replicas applied through scale",
            registry=self.registry,
        )
        self.failures = Counter(
            "surgekit_kneescale_failures", "Failures of: scale, status, decision, round, knative",
            ["what"], registry=self.registry,
        )  # fmt: skip
        self.round_seconds = Histogram(
            "surgekit_kneescale_round_seconds", "Time to reconcile the policies that were due",
            buckets=(0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0), registry=self.registry,
        )  # fmt: skip
