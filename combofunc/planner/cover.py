"""Chooses the sizes of containers for nodes that do not exist yet. Pure.

Nothing runs on such a node, so a container costs the same on each: tau_c + lambda * B with beta = 1 + x, eqs
(6)-(9). What is left of ComboFunc's problem is the cheapest set of sizes whose concurrency reaches the need,
an unbounded knapsack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cluster_model.cost import PodPrices
from combofunc.planner.model import Size, Weights
from combofunc.planner.problem import CORE_MILLICORES, GIB

__all__ = ["cheapest_cover", "costs_on_empty_nodes"]

# Above this need the table counts in larger units, rounded so that the need is still reached. It bounds the
# work to 64 sizes times as many steps: less than 0.1 s.
_MOST_STEPS = 4096


def costs_on_empty_nodes(
    sizes: Sequence[Size], tau_create_s: float, weights: Weights
) -> Mapping[Size, float]:
    """`sizes`: of whole pods."""
    return {
        size: PodPrices(
            size.cpu_millicores / CORE_MILLICORES, size.memory_bytes / GIB, 1.0, 1.0,
            weights.price_weight, weights.price_swing,
        ).cost(tau_create_s, 0.0, 1.0, 1.0)
        for size in sizes
    }  # fmt: skip


def cheapest_cover(costs: Mapping[Size, float], need: int) -> list[Size]:
    """The cheapest sizes with a concurrency of at least `need`, large ones first. Exact up to a need of 4096."""
    unit = max(math.ceil(need / _MOST_STEPS), 1)
    steps = math.ceil(need / unit)
    # A size smaller than a unit still counts, as one of several that make up a unit.
    bundles = []
    for size, cost in sorted(costs.items(), key=lambda item: _order(item[0])):
        together = math.ceil(unit / size.concurrency)
        bundles.append((together * size.concurrency // unit, together * cost, size, together))
    best, last = [0.0], list[int]()
    for step in range(1, steps + 1):
        options = [best[max(step - units, 0)] + cost for units, cost, _, _ in bundles]
        cheapest = min(range(len(options)), key=options.__getitem__)
        best.append(options[cheapest])
        last.append(cheapest)
    chosen: list[Size] = []
    while steps > 0:
        units, _, size, together = bundles[last[steps - 1]]
        chosen += [size] * together
        steps -= units
    return sorted(chosen, key=_order, reverse=True)


def _order(size: Size) -> tuple[int, int, int, str]:
    return size.concurrency, size.cpu_millicores, size.memory_bytes, size.name
