"""Scores of Trimaran's plugins, as they compute them: sigs.k8s.io/scheduler-plugins v0.34.7, pkg/trimaran.

Written after targetloadpacking/targetloadpacking.go and loadvariationriskbalancing/analysis.go (Apache-2.0).
Tests hold both to what the real plugins answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from experiments.combofunc.model import NodeLoad, NodeView
from experiments.combofunc.workload import Size

__all__ = ["LoadVariationRiskBalancing", "Plugin", "TargetLoadPacking", "risk_score", "target_score"]

_MAX_SCORE = 100  # fwk.MaxNodeScore


@dataclass(frozen=True)
class TargetLoadPacking:
    """Packs pods on nodes up to a CPU load, and spreads them over those above it. Defaults as shipped."""

    target_percent: int = 40
    requests_multiplier: float = 1.5  # a pod without limits is thought to use this times its requests
    best_effort_millicores: int = 1000  # and one without requests this
    averaged: bool = False  # the load is Prometheus' mean, not metrics-server's last value

    # Its README takes kube-scheduler's own scores of resources out of the profile.
    beside_resource_scores = False

    def score(self, node: NodeView, load: NodeLoad, size: Size, reporting_s: float) -> int:
        """`reporting_s`: the load may lack pods that were bound so long before the end of its window."""
        since_s = load.window_end_s - reporting_s
        missing = [self.predicted_millicores(b.cpu_millicores) for b in load.bound if b.at_s > since_s]
        coming = self.predicted_millicores(size.cpu_millicores) + sum(missing)
        seen = load.cpu_mean if self.averaged else load.cpu
        return target_score(seen, node.cpu_millicores, coming, self.target_percent)

    def predicted_millicores(self, requested: int | None) -> int:
        """What a container without a limit is thought to use; None if it requests nothing."""
        if requested is None:
            return self.best_effort_millicores
        return _rounded(requested * self.requests_multiplier)


@dataclass(frozen=True)
class LoadVariationRiskBalancing:
    """Balances the mean and the standard deviation of the loads of CPU and memory. Defaults as shipped."""

    margin: float = 1.0
    sensitivity: float = 1.0

    beside_resource_scores = True

    def score(self, node: NodeView, load: NodeLoad, size: Size, reporting_s: float) -> int:  # noqa: ARG002  # plugins are called alike
        cpu = (load.cpu_mean, load.cpu_std, size.cpu_millicores / node.cpu_millicores)
        memory = (load.memory_mean, load.memory_std, size.memory_bytes / node.memory_bytes)
        return risk_score([cpu, memory], self.margin, self.sensitivity)


Plugin = TargetLoadPacking | LoadVariationRiskBalancing


def target_score(load: float, capacity: int, coming: int, target: int) -> int:
    """`load`: a share of the capacity. `coming`: millicores of the pod, and of those that the load lacks."""
    used = load * capacity
    predicted = 100 * (used + coming) / capacity if capacity else 0.0
    if predicted > 100:
        return 0
    if predicted > target:
        return _rounded(target * (100 - predicted) / (100 - target))
    return _rounded((100 - target) * predicted / target + target)


def risk_score(resources: Iterable[tuple[float, float, float]], margin: float, sensitivity: float) -> int:
    """Each resource: mean load, its standard deviation and what the pod requests, as shares of the node."""
    return _rounded(min(_resource_score(*shares, margin, sensitivity) for shares in resources))


def _resource_score(mean: float, std: float, requested: float, margin: float, sensitivity: float) -> float:
    mu = _share(_share(mean) + max(requested, 0.0))
    sigma = _share(std)
    if sensitivity >= 0:
        sigma = sigma ** (1 / sensitivity)
    return (1 - (mu + _share(sigma * margin)) / 2) * _MAX_SCORE


def _share(value: float) -> float:
    return max(min(value, 1.0), 0.0)


def _rounded(value: float) -> int:
    """Go's math.Round of what is not below 0: halves go up."""
    whole = math.floor(value)
    return whole + (value - whole >= 0.5)
