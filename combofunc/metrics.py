"""The controller's metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["ComboFuncMetrics"]


class ComboFuncMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.functions = Gauge(
            "surgekit_combofunc_objects", "Number of ComboFuncs and InPlaceDeployments", ["kind"],
            registry=self.registry,
        )  # fmt: skip
        self.plans = Counter(
            "surgekit_combofunc_plans", "Plans by outcome: planned, shortage or failed", ["outcome"],
            registry=self.registry,
        )  # fmt: skip
        self.plan_seconds = Histogram(
            "surgekit_combofunc_plan_seconds", "Time to make one plan, without waiting in line",
            buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0), registry=self.registry,
        )  # fmt: skip
        self.actions = Counter(
            "surgekit_combofunc_actions", "Actions on pods by kind and outcome: done or failed",
            ["action", "outcome"], registry=self.registry,
        )  # fmt: skip
        self.shortage = Gauge(
            "surgekit_combofunc_shortage", "Concurrency that no node has room for, all functions together",
            registry=self.registry,
        )  # fmt: skip
        self.lag_seconds = Histogram(
            "surgekit_combofunc_lag_seconds", "From a new target to as much concurrency being Ready",
            buckets=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0), registry=self.registry,
        )  # fmt: skip
        self.placed_elsewhere = Counter(
            "surgekit_combofunc_placed_elsewhere",
            "Pods that the scheduler bound to another node than planned",
            registry=self.registry,
        )  # fmt: skip
