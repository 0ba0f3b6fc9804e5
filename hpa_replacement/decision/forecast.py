"""Forecasts the next interval's load from those remembered.

Replicas asked for now serve the next interval, so what they are worth depends on its load. Loads differ in
how long they stay and in whether they come back (timers), and nobody need say which: of a load's distance
from the mean, the part that is found again so many intervals later is the autocorrelation there. So

    forecast = mean + correlation * (load `after` intervals before the next one - mean)

where loads resemble each other most. Loads without order give their mean: to follow them costs starts and
gains nothing. Forecasts lie around the mean, so a budget shared out by them lasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["LOAD_MEMORY", "Forecast", "forecast"]

# Intervals over which loads are remembered: half of it was worse on tuning seeds, and a status is small.
LOAD_MEMORY = 120
# How often a period must have been seen to be looked for.
_TIMES_SEEN = 4


@dataclass(frozen=True, slots=True)
class Forecast:
    load: float
    mean: float
    after: int = 1  # intervals between loads that resemble each other most
    correlation: float = 0.0  # of these

    @property
    def of_mean(self) -> float:
        return self.load / self.mean if self.mean > 0 else 1.0

    def __str__(self) -> str:
        how = f"{self.correlation:.0%} as {self.after} before" if self.correlation > 0 else "in no order"
        return f"{self.load:.3g} expected next (mean {self.mean:.3g}, loads come {how})"


def forecast(loads: Sequence[float]) -> Forecast:
    """`loads`: at least one, one per interval, the newest last."""
    seen = np.asarray(loads[-LOAD_MEMORY:], dtype=float)
    mean = float(seen.mean())
    away = seen - mean
    square = float(away @ away)
    best = Forecast(mean, mean)
    if square <= 0:
        return best
    chance = 1 / len(seen) ** 0.5  # the standard error of the correlation of loads without order (Bartlett)
    for after in range(1, max(len(seen) // _TIMES_SEEN, 1) + 1):
        correlation = float(away[after:] @ away[:-after]) / square - chance
        if correlation > best.correlation:
            best = Forecast(max(mean + correlation * float(away[-after]), 0.0), mean, after, correlation)
    return best
