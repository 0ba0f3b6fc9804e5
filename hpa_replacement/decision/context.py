"""One round of deciding: what all parts of it look at, with the bounds worked out once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hpa_replacement.decision import budget
from hpa_replacement.decision.model import Decision, Sample, State
from hpa_replacement.decision.policy import Policy
from hpa_replacement.search import Variant

__all__ = ["Round"]

# A search of ours asks for at most so many times what the budget gives each interval: a knee beyond that
# could not be afforded, so it need not be known.
_BEYOND_SHARE = 1.25


@dataclass(frozen=True, slots=True)
class Round:
    policy: Policy
    state: State
    sample: Sample
    now_s: float

    @property
    def low(self) -> int:
        return self.policy.min_replicas

    @property
    def high(self) -> int:
        """What the cluster and the policy allow."""
        return min(self.policy.max_replicas, self.sample.capacity)

    @property
    def ceiling(self) -> int:
        """What one more interval may have: also the cap and the rest of the budget count."""
        limits = [self.high]
        if self.policy.search.exploration_cap is not None:
            limits.append(self.policy.search.exploration_cap)
        if self.policy.budget is not None and self.state.spending is not None:
            limits.append(budget.affordable(self.state.spending, self.policy.budget))
        return min(limits)

    @property
    def reach(self) -> int:
        """What a search may ask for."""
        if self.policy.budget is None or self.state.spending is None or not self.ours:
            return self.ceiling
        each = budget.affordable_on_average(
            self.state.spending, self.policy.budget, self.policy.interval_s, self.now_s
        )
        return min(self.ceiling, max(int(_BEYOND_SHARE * each), self.low))

    @property
    def ours(self) -> bool:
        return self.policy.search.variant is Variant.BEST

    @property
    def trouble(self) -> str:
        """Why more replicas are needed; empty when they are not."""
        if self.sample.errors_per_s > 0:
            return f"{self.sample.errors_per_s:g} errors/s"
        most = self.policy.thresholds.latency_s
        if most is not None and self.sample.latency_s is not None and self.sample.latency_s > most:
            return f"latency {self.sample.latency_s:.3g} s above {most:g} s"
        return ""

    def within(self, replicas: int) -> int:
        return max(min(replicas, self.ceiling), self.low)

    def scale(self, replicas: int, *reasons: str, state: State | None = None) -> Decision:
        replicas = self.within(replicas)
        state = replace(state or self.state, asked=replicas, asked_at_s=self.now_s)
        return Decision(replicas, state, reasons)

    def stay(self, *reasons: str, state: State | None = None) -> Decision:
        return Decision(None, state or self.state, reasons)
