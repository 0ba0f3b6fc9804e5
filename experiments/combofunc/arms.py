"""The arms of the comparison, and which size and keep time each baseline uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from experiments.combofunc.baselines import Autopilot, Delayed, RandomFit, Stock
from experiments.combofunc.model import Scaler
from experiments.combofunc.trimaran import PLUGINS, Trimaran
from experiments.combofunc.workload import FUNCTIONS, Function

__all__ = [
    "ARMS", "AS_SHIPPED_S", "AUTOPILOT", "BASELINES", "LIVE_ARMS", "NO_INPLACE", "OURS", "RANDOM_FIT",
    "STOCK", "TRIMARAN", "Choice", "Choices", "PlannedOf", "Setup", "beside", "candidates", "scaler",
]  # fmt: skip

OURS, NO_INPLACE, STOCK, RANDOM_FIT, AUTOPILOT = "ours", "no_inplace", "stock", "random_fit", "autopilot"
TRIMARAN = "trimaran"
BASELINES = (STOCK, RANDOM_FIT, TRIMARAN, AUTOPILOT, NO_INPLACE)
ARMS = (OURS, *BASELINES)
LIVE_ARMS = tuple(arm for arm in ARMS if arm != TRIMARAN)  # the lab's nodes have no load to measure
# How long idle containers are kept (Knative's scale-down delay). Each baseline uses the best of these. The
# trace is played three times as fast, so these are 0, 1, 3, 5 and 10 minutes of it.
KEPT_S = (0.0, 20.0, 60.0, 100.0, 200.0)
AS_SHIPPED_S = 100.0  # ours: 5 minutes, and idle containers, shrunk, for 5 more


class PlannedOf(Protocol):
    """Makes the planner's scaler."""

    def __call__(
        self, function: Function, in_place: bool, price_weight: float | None, keep_warm_s: float
    ) -> Scaler:
        """A `price_weight` of None is the shipped default."""


@dataclass(frozen=True)
class Choice:
    """A baseline's setting for one function: its (largest) size, and how long it keeps idle containers."""

    step: int  # index into the function's sizes; past the end, the last
    shrink_first: bool = False  # how Autopilot scales down
    keep_s: float = 0.0
    plugin: str = ""  # how Trimaran scores nodes

    def label(self, function: Function) -> str:
        way = (" shrink first" if self.shrink_first else "") + (f" {self.plugin}" if self.plugin else "")
        kept = f" kept {self.keep_s:.0f} s" if self.keep_s else ""
        return function.sizes[min(self.step, len(function.sizes) - 1)].name + way + kept


Choices = Mapping[str, Choice]  # by function
_LAST_STEP = max(len(f.sizes) for f in FUNCTIONS.values()) - 1


def candidates(arm: str) -> list[Choice]:
    """The first choices of the sweep, the same for all functions."""
    if arm == NO_INPLACE:
        return [Choice(_LAST_STEP, keep_s=keep_s) for keep_s in KEPT_S]
    if arm == AUTOPILOT:
        return [Choice(step, shrink) for step in range(2, _LAST_STEP + 1) for shrink in (True, False)]
    plugins = list(PLUGINS) if arm == TRIMARAN else [""]
    return [Choice(step, plugin=plugin) for step in range(_LAST_STEP + 1) for plugin in plugins]


def beside(arm: str, choice: Choice, sizes: int) -> list[Choice]:
    """The neighbours of a choice, which the sweep tries next for a function with `sizes` sizes."""
    kept = [replace(choice, keep_s=keep_s) for keep_s in KEPT_S if keep_s != choice.keep_s]
    if arm == NO_INPLACE:
        return kept
    at, least = min(choice.step, sizes - 1), min(c.step for c in candidates(arm))
    found = [replace(choice, step=step) for step in (at - 1, at + 1) if least <= step < sizes]
    if arm == AUTOPILOT:
        found.append(replace(choice, shrink_first=not choice.shrink_first))
    if arm == TRIMARAN:
        found += [replace(choice, plugin=plugin) for plugin in PLUGINS if plugin != choice.plugin]
    return found + kept


@dataclass(frozen=True)
class Setup:
    """How one arm plays one function in one round."""

    arm: str
    seed: int
    choice: Choice | None  # None for ours
    price_weight: float | None = None  # of the planner, where it is varied
    keep_warm_s: float | None = None  # where it is varied
    time_factor: float = 1.0  # how much faster than it was the trace is played

    def draw(self, function: Function) -> str:
        """The seed of the function's random choices."""
        return f"{function.name}/{self.seed}"


def scaler(setup: Setup, function: Function, planned: PlannedOf) -> Scaler:
    """The simulated scaler; `planned` makes the planner's own."""
    arm, choice, keep_s = setup.arm, setup.choice, setup.keep_warm_s
    if keep_s is None:
        keep_s = choice.keep_s if choice else AS_SHIPPED_S
    if choice is None or arm == NO_INPLACE:
        return planned(function, arm == OURS, setup.price_weight, keep_s)
    sizes, draw = function.sizes[: choice.step + 1], setup.draw(function)
    if arm == TRIMARAN:
        return Delayed(Trimaran(sizes[-1], PLUGINS[choice.plugin], draw, setup.time_factor), keep_s)
    if arm == AUTOPILOT:
        return Delayed(Autopilot(sizes, choice.shrink_first, draw), keep_s)
    return Delayed((Stock if arm == STOCK else RandomFit)(sizes[-1], draw), keep_s)
