"""The arms of the comparison, and the size at which a homogeneous one is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from experiments.combofunc.baselines import Autopilot, Delayed, RandomFit, Stock
from experiments.combofunc.model import Scaler
from experiments.combofunc.workload import FUNCTIONS, Function

__all__ = [
    "ARMS", "AS_SHIPPED_S", "AUTOPILOT", "BASELINES", "NO_INPLACE", "OURS", "RANDOM_FIT", "STOCK", "Choice",
    "Choices", "PlannedOf", "beside", "candidates", "scaler",
]  # fmt: skip

OURS, NO_INPLACE, STOCK, RANDOM_FIT, AUTOPILOT = "ours", "no_inplace", "stock", "random_fit", "autopilot"
BASELINES = (STOCK, RANDOM_FIT, AUTOPILOT, NO_INPLACE)
ARMS = (OURS, *BASELINES)
# How long what is not needed is kept (Knative's scale-down delay); each baseline has its best of these. The
# trace is played three times as fast as it was, so these are 0, 1, 3 and 5 minutes of it.
KEPT_S = (0.0, 20.0, 60.0, 100.0)
AS_SHIPPED_S = 100.0  # ours: 5 minutes


class PlannedOf(Protocol):
    """Makes the planner's scaler; the command line brings it, since the lab does not know the parts."""

    def __call__(
        self, function: Function, in_place: bool, price_weight: float | None, keep_warm_s: float
    ) -> Scaler:
        """`price_weight` None: as shipped."""


@dataclass(frozen=True)
class Choice:
    """What a baseline has for a function: its size, or the largest it grows to, and how long it keeps it."""

    step: int  # index into the function's sizes; beyond them, the last
    shrink_first: bool = False  # Autopilot's way down
    keep_s: float = 0.0

    def label(self, function: Function) -> str:
        way = " shrink first" if self.shrink_first else ""
        kept = f" kept {self.keep_s:.0f} s" if self.keep_s else ""
        return function.sizes[min(self.step, len(function.sizes) - 1)].name + way + kept


Choices = Mapping[str, Choice]  # by function
_LAST_STEP = max(len(f.sizes) for f in FUNCTIONS.values()) - 1


def candidates(arm: str) -> list[Choice]:
    """What a sweep tries, for all functions alike."""
    if arm == NO_INPLACE:
        return [Choice(_LAST_STEP, keep_s=keep_s) for keep_s in KEPT_S]
    if arm == AUTOPILOT:
        return [Choice(step, shrink) for step in range(2, _LAST_STEP + 1) for shrink in (True, False)]
    return [Choice(step) for step in range(_LAST_STEP + 1)]


def beside(arm: str, choice: Choice, sizes: int) -> list[Choice]:
    """What a sweep tries next, for a function with so many sizes."""
    kept = [replace(choice, keep_s=keep_s) for keep_s in KEPT_S if keep_s != choice.keep_s]
    if arm == NO_INPLACE:
        return kept
    at, least = min(choice.step, sizes - 1), min(c.step for c in candidates(arm))
    found = [replace(choice, step=step) for step in (at - 1, at + 1) if least <= step < sizes]
    if arm == AUTOPILOT:
        found.append(replace(choice, shrink_first=not choice.shrink_first))
    return found + kept


def scaler(
    arm: str,
    function: Function,
    seed: int,
    choice: Choice | None,
    planned: PlannedOf,
    price_weight: float | None,
    keep_warm_s: float | None,
) -> Scaler:
    """`choice`: None for ours. `price_weight` and `keep_warm_s` are for who plans; None: not varied."""
    if choice is None or arm == NO_INPLACE:
        if keep_warm_s is None:
            keep_warm_s = choice.keep_s if choice else AS_SHIPPED_S
        return planned(function, arm == OURS, price_weight, keep_warm_s)
    sizes = function.sizes[: choice.step + 1]
    draw = f"{function.name}/{seed}"
    if arm == AUTOPILOT:
        return Delayed(Autopilot(sizes, choice.shrink_first, draw), choice.keep_s)
    return Delayed((Stock if arm == STOCK else RandomFit)(sizes[-1], draw), choice.keep_s)
