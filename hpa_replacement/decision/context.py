"""The inputs of one decision, with the bounds that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hpa_replacement.decision import budget
from hpa_replacement.decision.forecast import forecast
from hpa_replacement.decision.model import Sample, Scaling, State
from hpa_replacement.decision.policy import Policy
from hpa_replacement.search import Variant
from surgekit.decision import Decision

__all__ = ["DecisionContext"]

# A search of variant best asks for at most so many times the average share of the budget: a knee beyond that
# could not be afforded, so it need not be known.
_SEARCH_BEYOND_SHARE = 1.25


@dataclass(frozen=True, slots=True)
class DecisionContext:
    policy: Policy
    state: State
    sample: Sample
    now_s: float

    @property
    def low(self) -> int:
        return self.policy.min_replicas

    @property
    def high(self) -> int:
        """The most replicas that policy and cluster allow."""
        return min(self.policy.max_replicas, self.sample.capacity)

    @property
    def ceiling(self) -> int:
        """The most replicas for the next interval: `high`, the exploration cap, the rest of the budget."""
        limits = [self.high]
        if self.policy.search.exploration_cap is not None:
            limits.append(self.policy.search.exploration_cap)
        if self.policy.budget is not None and self.state.spending is not None:
            limits.append(budget.affordable(self.state.spending, self.policy.budget))
        return min(limits)

    @property
    def search_ceiling(self) -> int:
        """The most replicas a search may ask for."""
        average_share = self.average_share
        if average_share is None or not self.follows_load:
            return self.ceiling
        return min(self.ceiling, max(int(_SEARCH_BEYOND_SHARE * average_share), self.low))

    @property
    def follows_load(self) -> bool:
        """Whether each load gets its knee (variant best), rather than Algorithm 2 reacting to errors."""
        return self.policy.search.variant is Variant.BEST

    @property
    def trouble(self) -> str:
        """Why more replicas are needed; empty when they are not."""
        if self.sample.errors_per_s > 0:
            return f"{self.sample.errors_per_s:g} errors/s"
        limit_s = self.policy.thresholds.latency_s
        if limit_s is not None and self.sample.latency_s is not None and self.sample.latency_s > limit_s:
            return f"latency {self.sample.latency_s:.3g} s above {limit_s:g} s"
        return ""

    @property
    def average_share(self) -> float | None:
        """Replicas the budget gives each remaining interval on average; None without a budget."""
        if self.policy.budget is None or self.state.spending is None:
            return None
        return budget.affordable_on_average(
            self.state.spending, self.policy.budget, self.policy.interval_s, self.now_s
        )

    def limit_to_share(self, knee: int) -> tuple[int, tuple[str, ...]]:
        """Replicas for the next interval: what the budget gives it, up to a little more than `knee`."""
        if self.average_share is None:
            return knee, ()
        expected = forecast(self.state.loads)
        share = max(budget.share_of_load(self.average_share, expected), self.low)
        replicas = min(share, int(knee * budget.BEYOND_KNEE))
        return replicas, (f"{expected}: the budget gives it {share}",)

    def clamp(self, replicas: int) -> int:
        return max(min(replicas, self.ceiling), self.low)

    def scale(self, replicas: int, *reasons: str, state: State | None = None) -> Decision[Scaling]:
        """Ask for this many replicas, clamped to the bounds."""
        replicas = self.clamp(replicas)
        state = replace(state or self.state, asked=replicas, asked_at_s=self.now_s)
        return Decision(Scaling(replicas, state), reasons)

    def hold(self, *reasons: str, state: State | None = None) -> Decision[Scaling]:
        """Leave the replicas as they are."""
        return Decision(Scaling(None, state or self.state), reasons)
