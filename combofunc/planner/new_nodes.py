"""Chooses the sizes of containers for nodes that do not exist yet. Pure.

Nothing runs on such a node, so a container costs the same on each: tau_c + lambda * B with beta = 1 + x, eqs
(6)-(9). What is left of ComboFunc's problem is the cheapest set of sizes whose concurrency reaches the need.
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster_model.cost import PodPrices
from cluster_model.cover import cheapest_cover
from combofunc.planner.model import Size, Weights
from combofunc.planner.problem import CORE_MILLICORES, GIB

__all__ = ["sizes_for_new_nodes"]


def sizes_for_new_nodes(
    sizes: Sequence[Size], need: int, tau_create_s: float, weights: Weights
) -> list[Size]:
    """The cheapest sizes with a concurrency of at least `need`, large ones first. `sizes`: of whole pods."""
    chosen = cheapest_cover(
        {size.name: (size.concurrency, _cost(size, tau_create_s, weights)) for size in sizes}, need
    )
    largest_first = sorted(sizes, key=lambda size: (-size.concurrency, size.name))
    return [size for size in largest_first for _ in range(chosen[size.name])]


def _cost(size: Size, tau_create_s: float, weights: Weights) -> float:
    """S + lambda * B on an empty node."""
    cores, gib = size.cpu_millicores / CORE_MILLICORES, size.memory_bytes / GIB
    prices = PodPrices(cores, gib, 1.0, 1.0, weights.price_weight, weights.price_swing)
    return prices.cost(tau_create_s, 0.0, 1.0, 1.0)
