"""Rent nodes one kind at a time: each time the class whose best filling is worth most for its price."""

from __future__ import annotations

import numpy as np

from cluster_autoscaler_hook.best.filling import even_performance, fill_classes
from cluster_autoscaler_hook.best.tables import Floats, Pattern, Tables
from cluster_autoscaler_hook.model import TOLERANCE

__all__ = ["cover", "still_needed"]


def still_needed(tables: Tables, need: Floats) -> Floats:
    """Without what is met but for rounding."""
    return np.where(need > tables.workload * TOLERANCE / 2, need, 0.0)


def cover(
    tables: Tables, worth: Floats, need: Floats, random: np.random.Generator, dear: float = np.inf
) -> list[Pattern] | None:
    """Nodes that meet `need`; None when they would cost `dear` or more."""
    need = still_needed(tables, need)
    patterns: list[Pattern] = []
    cost = 0.0
    while need.any():
        needed = tables.needed(need)
        worths = worth[:, None] * even_performance(tables, need, needed)
        filled = fill_classes(tables, worths, needed, random, dear - cost)
        gain = filled.worth / tables.price
        chosen = int(np.argmax(gain))
        if gain[chosen] <= 0:
            return None
        pattern = filled.pattern(chosen)
        family = tables.class_family[chosen]
        # As often as every app in it still needs it whole.
        times = min(int(needed[a, family]) // count for a, count in pattern.counts)
        patterns += [pattern] * times
        cost += times * float(tables.price[chosen])
        if cost > dear:
            return None
        for a, count in pattern.counts:
            need[a] -= times * count * tables.performance[a, family]
        need = still_needed(tables, need)
    return patterns
