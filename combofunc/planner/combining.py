"""Chooses how much concurrency each node gives, so that the target is reached at the least cost.

Nodes share only the target, so this is a multiple-choice knapsack over f_n(q). A few nodes are combined
exactly, one after the other. With many nodes, find the price of a unit of concurrency at which the target is
just reached (the Lagrange multiplier). At this price each node takes the q with the least f_n(q) - price * q,
and for most nodes the choice is clear. Only the nodes with the least clear choice are then combined exactly,
with the others fixed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from combofunc.planner.problem import Floats, Whole
from combofunc.planner.work import Work

__all__ = ["around_a_price", "combine"]

# Most nodes to combine exactly, and most work of one exact combination (nodes * targets * choices).
_EXACT_NODES = 32
_EXACT_WORK = 2_000_000
_ROUNDING = 1e-6
# Steps of the bisection for the price: it is then known to a part in 10**12.
_HALVINGS = 40


def combine(cost: Floats, target: int, work: Work) -> Whole:
    """q of each node; `cost` is f_n(q). If the target is out of reach, the most each node can give."""
    width = cost.shape[1]
    most: Whole = width - 1 - np.argmax(np.isfinite(cost)[:, ::-1], axis=1)
    if most.sum() <= target:
        return most
    cheapest: Whole = np.argmin(cost, axis=1)
    if cheapest.sum() >= target:
        return cheapest
    if len(cost) <= _EXACT_NODES and len(cost) * (target + 1) * width <= _EXACT_WORK:
        return _exactly(cost, [np.arange(width)] * len(cost), target, work)
    return around_a_price(cost, target, work)


def around_a_price(cost: Floats, target: int, work: Work) -> Whole:
    work.spend(_HALVINGS * cost.size)
    below, above, unit_price = _price(cost, target)
    # At this price some nodes are indifferent between two amounts. As many as needed give the larger one.
    indifferent = np.cumsum(above - below)
    last = int(np.searchsorted(indifferent, target - below.sum()))
    rows = np.arange(len(cost))
    chosen = np.where(rows <= last, above, below)
    loss = cost - unit_price * np.arange(cost.shape[1])
    loss -= loss.min(axis=1)[:, None]
    # A better plan has no choice that loses more than this plan can be away from the best.
    gap = unit_price * (chosen.sum() - target) + _ROUNDING
    others = loss.copy()
    others[rows, chosen] = np.inf
    clear = np.where(below == above, others.min(axis=1), 0.0)
    unclear = np.lexsort((np.abs(rows - last), clear))[:_EXACT_NODES]
    found = chosen.copy()
    found[unclear] = 0
    choices = [np.flatnonzero(row <= gap) for row in loss[unclear]]
    found[unclear] = _exactly(cost[unclear], choices, int(target - found.sum()), work)
    return found


def _price(cost: Floats, target: int) -> tuple[Whole, Whole, float]:
    """The lowest price that reaches the target, and what each node gives just below it and at it."""
    q = np.arange(cost.shape[1], dtype=float)
    finite = np.where(np.isfinite(cost), cost, 0.0)
    low, high = 0.0, float(finite.max() - min(finite.min(), 0.0)) + 1.0
    below = np.argmin(cost, axis=1)
    above = cost.shape[1] - 1 - np.argmax(np.isfinite(cost)[:, ::-1], axis=1)
    for _ in range(_HALVINGS):
        open_rows = np.flatnonzero(below != above)
        if not len(open_rows):
            break
        middle = (low + high) / 2
        chosen = np.argmin(cost[open_rows] - middle * q, axis=1)
        clear = above.sum() - above[open_rows].sum()
        if clear + chosen.sum() >= target:
            high, above[open_rows] = middle, chosen
        else:
            low, below[open_rows] = middle, chosen
    return below, above, high


def _exactly(cost: Floats, choices: Sequence[Whole], target: int, work: Work) -> Whole:
    """Dynamic programming, node after node: the least cost for every amount that may still be missing."""
    least = np.array([q[0] for q in choices])
    missing = np.arange(max(target - int(least.sum()), 0) + 1)
    work.spend(4 * len(missing) * sum(len(q) for q in choices))
    cheapest = np.full(len(missing), np.inf)
    cheapest[0] = 0.0
    taken = np.empty((len(cost), len(missing)), dtype=np.int64)
    left = missing[:, None]
    for i, q in enumerate(choices):
        if i == 0 or q is not choices[i - 1]:
            left = np.maximum(missing[:, None] - (q - q[0]), 0)
        costs = cheapest[left]
        costs += cost[i, q]
        best = costs.argmin(axis=1)
        cheapest = costs[missing, best]
        taken[i] = q[best]
    found = np.empty(len(cost), dtype=np.int64)
    still = len(missing) - 1
    for i in range(len(cost) - 1, -1, -1):
        found[i] = taken[i, still]
        still = max(still - int(found[i] - least[i]), 0)
    return found
