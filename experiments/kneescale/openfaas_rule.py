"""OpenFaaS's own autoscaling (KneeScale IV-C), a baseline: a rule on successful invocations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["OpenFaasRule"]


@dataclass
class OpenFaasRule:
    """More than 5 invocations a second for 10 s adds 20 % of the maximum; fewer: back to the minimum."""

    most: int
    least: int = 10  # the paper's com.openfaas.scale.min; with 1 it never scaled
    above_per_s: float = 5.0
    for_s: float = 10.0
    share: float = 0.2
    _since_s: float | None = field(default=None, init=False)

    def replicas(self, now_s: float, successful_per_s: float, replicas: int) -> int:
        """The desired replicas. Call it every few seconds."""
        if successful_per_s <= self.above_per_s:
            self._since_s = None
            return self.least
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s < self.for_s - 1e-6:
            return max(replicas, self.least)
        self._since_s = now_s  # the alert goes on: the next step after another such period
        return min(self.most, replicas + math.ceil(self.share * self.most))
