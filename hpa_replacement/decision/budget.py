"""The paper's budget (section II-B): replicas, summed over the sampling intervals of a window.

What runs is charged for the time it ran, told or not: also while samples are missing. A decision is never for
more replicas than one more interval of them would leave in the budget; only `hold` at minReplicas goes on
when nothing is left.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hpa_replacement.decision.model import Spending
from hpa_replacement.decision.policy import AtEnd, Budget

__all__ = ["Budget", "affordable", "affordable_on_average", "at_end", "charge", "left"]


def charge(
    spending: Spending | None, budget: Budget, interval_s: float, replicas: int, since_s: float, now_s: float
) -> Spending:
    """`replicas` ran from `since_s` until now. A new window begins on the window's own grid."""
    if spending is None:
        return Spending(window_start_s=now_s)
    windows = math.floor((now_s - spending.window_start_s) / budget.window_s)
    if windows >= 1:
        spending = Spending(spending.window_start_s + windows * budget.window_s)
    elapsed_s = max(now_s - max(since_s, spending.window_start_s), 0.0)
    return replace(spending, spent=spending.spent + replicas * elapsed_s / interval_s)


def left(spending: Spending, budget: Budget) -> float:
    return max(budget.replica_intervals - spending.spent, 0.0)


def affordable(spending: Spending, budget: Budget) -> int:
    """The most replicas one more interval may have."""
    # Sums of intervals that are not exactly 30 s long: half a millionth of a replica is not worth one.
    return math.floor(left(spending, budget) + 1e-6)


def affordable_on_average(spending: Spending, budget: Budget, interval_s: float, now_s: float) -> float:
    """What the rest of the budget gives each interval of the rest of the window."""
    rest_s = spending.window_start_s + budget.window_s - now_s
    return left(spending, budget) / max(rest_s / interval_s, 1.0)


def at_end(budget: Budget, min_replicas: int) -> int:
    return 0 if budget.at_end is AtEnd.STOP else min_replicas
