"""Accounts for the paper's budget (section II-B): replicas, summed over the sampling intervals of a window.

Running replicas are charged for the time they ran, also while samples are missing. A decision never asks for
more replicas than the budget can pay for one more interval; only `hold` keeps minReplicas running when
nothing is left.

The paper holds the knee until the budget is gone and then stops. Variant best spreads it instead: scores are
concave, so the same replica-intervals score higher when they last to the end of the window. And since
score(n load, n replicas) = n score(load, replicas) (search/load.py), one more replica adds the same wherever
load / replicas is the same. So an interval's share of the budget is

    budget left / intervals left * load expected / mean load.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hpa_replacement.decision.forecast import Forecast
from hpa_replacement.decision.model import Spending
from hpa_replacement.decision.policy import AtEnd, Budget

__all__ = [
    "BEYOND_KNEE",
    "Budget",
    "affordable",
    "affordable_on_average",
    "at_end",
    "charge",
    "left",
    "share_of_load",
]

# Kneedle values a replica relative to the range it searched, a budget values it in replicas. So when the
# budget has replicas to spare, up to a quarter more than the knee is used; no more: a budget is a limit.
BEYOND_KNEE = 1.25
# Absorbs rounding: intervals are not exactly samplingInterval long.
_ROUNDING = 1e-6


def charge(
    spending: Spending | None,
    budget: Budget,
    *,
    interval_s: float,
    replicas: int,
    since_s: float,
    now_s: float,
) -> Spending:
    """Charge `replicas` that ran from `since_s` until now. Windows follow each other without a gap."""
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
    """The most replicas the budget pays for one more interval."""
    return math.floor(left(spending, budget) + _ROUNDING)


def affordable_on_average(spending: Spending, budget: Budget, interval_s: float, now_s: float) -> float:
    """Replicas for each remaining interval of the window if the rest of the budget is spread evenly."""
    rest_s = spending.window_start_s + budget.window_s - now_s
    return left(spending, budget) / max(rest_s / interval_s, 1.0)


def at_end(budget: Budget, min_replicas: int) -> int:
    """Replicas once the budget is spent."""
    return 0 if budget.at_end is AtEnd.STOP else min_replicas


def share_of_load(average_share: float, expected: Forecast) -> int:
    """Replicas for an interval with this load: its part of the budget, in proportion to the load."""
    return round(average_share * expected.of_mean)
