"""The hook's metrics for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cluster_autoscaler_hook.karpenter.model import Plan

__all__ = ["HookMetrics"]


class HookMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.writes = Counter(
            "surgekit_node_planner_writes",
            "Objects written, by kind and result",
            ["kind", "result"],
            registry=self.registry,
        )
        self.refusals = Counter(
            "surgekit_node_planner_refusals",
            "Claims with a class that could not be rented",
            registry=self.registry,
        )
        self.plan_seconds = Histogram(
            "surgekit_node_planner_plan_seconds", "Time to make a plan", registry=self.registry
        )
        self.waiting = Gauge(
            "surgekit_node_planner_waiting_pods",
            "Pods that opted in and wait for a node",
            registry=self.registry,
        )
        self.left = Gauge(
            "surgekit_node_planner_left_pods",
            "Pods that opted in, have no node and are left to Karpenter's pools",
            registry=self.registry,
        )
        self._nodes = Gauge("surgekit_node_planner_planned", "Nodes of the last plan", registry=self.registry)
        self._cost = Gauge(
            "surgekit_node_planner_plan_cost_per_hour", "Price of the last plan", registry=self.registry
        )
        self._bound = Gauge(
            "surgekit_node_planner_plan_lower_bound_per_hour",
            "Lower bound of the last plan's price",
            registry=self.registry,
        )
        self._short = Gauge(
            "surgekit_node_planner_short_pods",
            "Pods that the last plan does not serve",
            registry=self.registry,
        )

    def planned(self, plan: Plan) -> None:
        self._nodes.set(len(plan.nodes))
        self._cost.set(plan.cost_per_hour)
        self._bound.set(plan.lower_bound_per_hour)
        self._short.set(sum(shortage.pods for shortage in plan.shortages))
