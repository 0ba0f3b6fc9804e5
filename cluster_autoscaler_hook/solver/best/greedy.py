"""Rents nodes greedily: each time the class whose best filling is worth most for its price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cluster_autoscaler_hook.solver.best.filling import Filled, even_performance, fill_classes
from cluster_autoscaler_hook.solver.best.packing import pack
from cluster_autoscaler_hook.solver.best.rent_task import RentTask
from cluster_autoscaler_hook.solver.best.tables import Floats, Pattern, Tables
from cluster_autoscaler_hook.solver.model import TOLERANCE

__all__ = ["Rounds", "cover", "still_needed"]


@dataclass(slots=True)
class Rounds:
    """The number of rounds that are made even after the deadline, to get an answer at all."""

    left: int = 0


def still_needed(tables: Tables, need: Floats) -> Floats:
    """The need without amounts that are only rounding errors."""
    return np.where(need > tables.workload * TOLERANCE / 2, need, 0.0)


def cover(
    task: RentTask, random: np.random.Generator, cost_limit: float = np.inf, rounds: Rounds | None = None
) -> list[Pattern] | None:
    """Nodes that meet the need; None if they would cost `cost_limit` or more.

    Each round also tries one node that meets all of the rest: filling node after node well leaves a poor last
    one. After the deadline and `rounds`, the rest is packed."""
    tables = task.tables
    need = still_needed(tables, task.need)
    patterns: list[Pattern] = []
    cost = 0.0
    ended: list[Pattern] | None = None
    while need.any():
        if rounds is not None and rounds.left > 0:
            rounds.left -= 1
        elif task.deadline.reached():
            rest = pack(tables, need)
            return patterns + rest if cost + tables.cost(rest) < cost_limit else ended
        needed = tables.needed(need)
        worths = task.worth[:, None] * even_performance(tables, need, needed)
        filled = fill_classes(tables, worths, needed, random, cost_limit - cost)
        last = _last(tables, filled, need)
        if last is not None and cost + tables.price[last.class_index] < cost_limit:
            ended = [*patterns, last]
            cost_limit = cost + float(tables.price[last.class_index])
        gain = filled.worth / tables.price
        chosen = int(np.argmax(gain))
        if gain[chosen] <= 0:
            return ended
        pattern = filled.pattern(chosen)
        family = tables.class_family[chosen]
        # As often as every app needs all of its containers in it.
        times = max(1, min(int(needed[a, family]) // count for a, count in pattern.counts))
        patterns += [pattern] * times
        cost += times * float(tables.price[chosen])
        if cost > cost_limit:
            return ended
        for a, count in pattern.counts:
            need[a] -= times * count * tables.performance[a, family]
        need = still_needed(tables, need)
    return patterns


def _last(tables: Tables, filled: Filled, need: Floats) -> Pattern | None:
    """The cheapest filled node that meets all of `need`."""
    served = filled.counts * tables.performance.T[tables.class_family]
    enough = (still_needed(tables, need - served) == 0).all(axis=1)
    if not enough.any():
        return None
    pattern = filled.pattern(int(np.argmin(np.where(enough, tables.price, np.inf))))
    return pattern if not still_needed(tables, need - tables.served([pattern])).any() else None
