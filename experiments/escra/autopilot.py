"""Autopilot's ML recommender (Rzadca et al., EuroSys 2020, section 3.3), as Escra's authors recreated it.

An ensemble of models, each a decay rate and a safety margin. A model keeps, for every limit on offer, the
decayed share of samples above it (overrun) and what it had too much (underrun), and picks the limit with the
least weighted cost, plus the price of a change; its recommendation is that limit plus its margin. The
recommender follows the model whose own recommendations have cost least lately, at a price for changing
model and limit. Pure: one resource of one container.

An underrun counts by its amount, as a share of the highest limit on offer: if it were counted by samples,
both shares would add up to 1, and the best limit would be the highest sample ever seen.

The weights are not published. Escra's authors tuned them for performance, and so do we
(`autopilot_tuning`, on tuning seeds).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Autopilot", "Weights"]

_DECAYS = (0.02, 0.1, 0.3, 0.7)  # of one period's share: half-lives of 34, 7, 2 and 0.6 periods
_MARGINS = (0.0, 0.1, 0.25, 0.5, 1.0)  # of the limit
# A container that uses this share of its limit is held back by it, so a sample so near to a limit counts as
# above it. Else a throttled container would never be seen to need more.
_AT_LIMIT = 0.97


@dataclass(frozen=True, slots=True)
class Weights:
    overrun: float
    underrun: float
    limit_change: float
    model_change: float
    cost_decay: float


@dataclass
class Autopilot:
    """Limits on offer are multiples of `step` up to `steps` of them."""

    step: float
    steps: int
    weights: Weights

    def __post_init__(self) -> None:
        models = [(decay, margin) for decay in _DECAYS for margin in _MARGINS]
        self._decay, self._margin = (np.array(column)[:, None] for column in zip(*models, strict=True))
        self._limits = np.arange(1, self.steps + 1) * self.step
        self._over, self._under = (np.zeros((len(models), self.steps)) for _ in range(2))
        self._picked = np.zeros(len(models), np.int64)
        self._cost = np.zeros(len(models))
        self._model: int | None = None
        self._limit = 0.0

    def recommend(self, samples: Sequence[float]) -> float:
        """The limit from now on, after a period with these samples of use."""
        over, under = self._runs(samples)
        w = self.weights
        self._over += self._decay * (over - self._over)
        self._under += self._decay * (under - self._under)
        first = self._model is None
        changes = np.arange(self.steps) != self._picked[:, None]
        costs = w.overrun * self._over + w.underrun * self._under + w.limit_change * changes * (not first)
        self._picked = costs.argmin(axis=1)
        limits = np.minimum(self._limits[self._picked] * (1.0 + self._margin[:, 0]), self._limits[-1])

        at = np.clip(np.searchsorted(self._limits, limits - self.step / 2), 0, self.steps - 1)
        differs = (limits != self._limit) & (not first)
        # What each recommendation would have cost in this period.
        now = w.overrun * over[at] + w.underrun * under[at] + w.limit_change * differs
        self._cost += w.cost_decay * (now - self._cost)
        models = np.arange(len(self._cost))
        total = self._cost + w.limit_change * differs
        if self._model is not None:
            total = total + w.model_change * (models != self._model)
        self._model = int(total.argmin())
        self._limit = float(limits[self._model])
        return self._limit

    def _runs(self, samples: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For every limit on offer, the share of samples above it, and its mean amount above the samples."""
        ordered = np.sort(np.asarray(samples, dtype=float)) / _AT_LIMIT
        count = len(ordered)
        below = np.searchsorted(ordered, self._limits, side="right")
        sums = np.concatenate([[0.0], np.cumsum(ordered)])
        too_much = (self._limits * below - sums[below]) / count
        return (count - below) / count, too_much / self._limits[-1]
