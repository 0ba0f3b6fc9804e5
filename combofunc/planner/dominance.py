"""Which of several is at least as good as another in everything: sizes to create, containers to keep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combofunc.planner.problem import Floats, Whole

__all__ = ["beats"]


def beats(costs: Floats | Whole) -> NDArray[np.bool_]:
    """Which row beats which other: by being no higher anywhere; of equals the first."""
    no_higher = np.ones((len(costs), len(costs)), dtype=bool)
    for column in costs.T:
        no_higher &= column[:, None] <= column
    order = np.arange(len(costs))
    found: NDArray[np.bool_] = no_higher & (~no_higher.T | (order[:, None] < order))
    return found
