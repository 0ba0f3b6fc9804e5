"""The highest cumulative score a budget buys (variant best).

The paper holds the knee until the budget is gone and then stops. Scores are concave, so the same
replica-intervals give more when they last to the end of the window; and with score(n load, n replicas) =
n score(load, replicas) (search/load.py) one more replica adds the same wherever load / replicas is the same.
So an interval's share is

    what the rest of the budget gives each interval of the rest of the window * load / mean load,

and replicas are this share. Kneedle says what a replica is worth by the range it looked at, a budget says it
in replicas: so where the budget has them to spare, a quarter more than the knee is taken, and no more, for a
budget is a limit and not a wish. Replicas follow a load an interval late; what the budget gives each interval
anyway is kept standing for the highest load of the last half hour, so that the next such peak finds it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hpa_replacement.decision import budget
from hpa_replacement.decision.context import Round
from hpa_replacement.decision.model import State

__all__ = ["BEYOND_KNEE", "PEAK_MEMORY", "average_share", "share_of_budget", "standing", "worth_having"]

# By how much a budget with replicas to spare may pass the knee.
BEYOND_KNEE = 1.25
# Intervals the mean and the peak of the load look back: loads move, and a window can be a day.
PEAK_MEMORY = 60


def average_share(this: Round, state: State) -> float | None:
    """What the rest of the budget gives each interval of the rest of the window; None without a budget."""
    if this.policy.budget is None or state.spending is None:
        return None
    return budget.affordable_on_average(
        state.spending, this.policy.budget, this.policy.interval_s, this.now_s
    )


def share_of_budget(this: Round, state: State, load: float) -> tuple[int | None, State]:
    """The replicas this interval's load may have (None: no budget), and the load remembered."""
    each = average_share(this, state)
    if each is None or load <= 0:
        return None, state
    count = min(state.load_count + 1, PEAK_MEMORY)
    mean = state.load_mean + (load - state.load_mean) / count
    share = max(math.floor(each * load / mean + 1e-6), this.low)
    return share, replace(state, load_mean=mean, load_count=count)


def worth_having(knee: int, share: int | None) -> tuple[int, tuple[str, ...]]:
    """Replicas for a load whose knee is known, and why they are not the knee."""
    if share is None:
        return knee, ()
    replicas = min(share, int(knee * BEYOND_KNEE))
    if replicas == knee:
        return knee, ()
    return replicas, (f"the budget gives this interval {share}",)


def standing(this: Round, state: State, peak_knee: int) -> int:
    """Replicas kept while the load is low; never more than lasts to the end of the window."""
    each = average_share(this, state)
    return 0 if each is None else min(int(each), peak_knee)
