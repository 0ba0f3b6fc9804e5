"""The arms of the comparison, and the size at which a homogeneous one is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kwok.combofunc.baselines import Autopilot, RandomFit, Stock
from kwok.combofunc.model import Scaler
from kwok.combofunc.workload import FUNCTIONS, Function

__all__ = [
    "ARMS", "AUTOPILOT", "BASELINES", "HOMOGENEOUS", "NO_INPLACE", "OURS", "RANDOM_FIT", "STOCK", "Choice",
    "Choices", "PlannedOf", "candidates", "scaler",
]  # fmt: skip

OURS, NO_INPLACE, STOCK, RANDOM_FIT, AUTOPILOT = "ours", "no_inplace", "stock", "random_fit", "autopilot"
BASELINES = (STOCK, RANDOM_FIT, AUTOPILOT, NO_INPLACE)
ARMS = (OURS, *BASELINES)
HOMOGENEOUS = (STOCK, RANDOM_FIT, AUTOPILOT)


class PlannedOf(Protocol):
    """Makes the planner's scaler; the command line brings it, since the lab does not know the parts."""

    def __call__(self, function: Function, in_place: bool, price_weight: float | None) -> Scaler: ...


@dataclass(frozen=True)
class Choice:
    """What a homogeneous arm has for a function: its size, or the largest it grows to."""

    step: int  # index into the function's sizes; beyond them, the last
    shrink_first: bool = False  # Autopilot's way down

    def label(self, function: Function) -> str:
        way = " shrink first" if self.shrink_first else ""
        return function.sizes[min(self.step, len(function.sizes) - 1)].name + way


Choices = Mapping[str, Choice]  # by function


def candidates(arm: str) -> list[Choice]:
    """What a sweep tries, for all functions alike."""
    steps = range(max(len(f.sizes) for f in FUNCTIONS.values()))
    if arm == AUTOPILOT:
        return [Choice(step, shrink) for step in steps for shrink in (True, False) if step >= 2]
    return [Choice(step) for step in steps]


def scaler(
    arm: str,
    function: Function,
    seed: int,
    choice: Choice | None,
    planned: PlannedOf,
    price_weight: float | None,
) -> Scaler:
    if choice is None:
        return planned(function, in_place=arm == OURS, price_weight=price_weight)
    sizes = function.sizes[: choice.step + 1]
    draw = f"{function.name}/{seed}"
    if arm == AUTOPILOT:
        return Autopilot(sizes, choice.shrink_first, draw)
    return (Stock if arm == STOCK else RandomFit)(sizes[-1], draw)
