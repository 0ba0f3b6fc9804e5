"""Dominance: which option is at least as good as another in every respect."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combofunc.planner.problem import Floats, Whole

__all__ = ["beats"]


def beats(costs: Floats | Whole) -> NDArray[np.bool_]:
    """[i, j]: row i beats row j: it is no higher in any column. Of equal rows the first beats the others."""
    no_higher = np.ones((len(costs), len(costs)), dtype=bool)
    for column in costs.T:
        no_higher &= column[:, None] <= column
    order = np.arange(len(costs))
    found: NDArray[np.bool_] = no_higher & (~no_higher.T | (order[:, None] < order))
    return found
