"""The inputs of one decision: the caller's offer, prices, DaemonSets and the time left."""

from __future__ import annotations

from dataclasses import dataclass

from cluster_autoscaler_hook.expander.caller_model import Overhead
from cluster_autoscaler_hook.expander.model import Offer, Option
from cluster_autoscaler_hook.expander.prices import Prices
from cluster_autoscaler_hook.solver.deadline import Deadline

__all__ = ["ScaleUpRequest"]


@dataclass(frozen=True, slots=True)
class ScaleUpRequest:
    offer: Offer
    prices: Prices
    overhead: Overhead  # as configured, or as inferred from the caller's node counts
    deadline: Deadline

    @property
    def priced_options(self) -> list[Option]:
        """The options whose price and node size are known."""
        known = self.prices.by_group.keys() & self.offer.templates.keys()
        return [option for option in self.offer.options if option.group in known]
