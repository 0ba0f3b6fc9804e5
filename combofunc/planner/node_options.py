"""Computes f_n(q): the least cost of concurrency q on node n.

A node's part of a plan is a set of kept containers and a filling of new ones. A new container comes from
resizing one that is not kept, or from creating one (eq. 6), whichever is cheaper. A row is a node and
one set of kept containers. All rows are priced with all fillings at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from combofunc.planner.fillings import Fillings
from combofunc.planner.kept_rows import KeptRows
from combofunc.planner.problem import Floats, Problem, Whole
from combofunc.planner.work import Work

__all__ = ["NodeOptions", "node_options"]

# Numbers in one array: small enough for a few arrays to stay in a core's cache.
_BLOCK = 32_000
# Work per number.
_PASSES = 10


@dataclass(frozen=True, slots=True, eq=False)
class NodeOptions:
    problem: Problem
    fillings: Fillings
    nodes: Sequence[int]
    rows: KeptRows
    creations: Whole  # how many of i new containers are better created, by index into `nodes` and i
    scaling_s: Floats  # sum of S_np, by number of new containers and row
    steps: Whole  # the fillings' concurrencies
    reached: Whole  # q, by step and row
    least: Floats  # the least cost of each step, by step and row
    cost: Floats  # f_n(q), by index into `nodes` and q; q = target also stands for all above

    def pick(self, concurrency: Whole) -> list[tuple[int, list[int], list[int], int]]:
        """For the chosen q of each node: (node, containers kept, sizes added, number of creations)."""
        rows, fillings, own = self.rows, self.fillings, self.problem.own
        wanted = self.cost[np.arange(len(self.nodes)), concurrency][rows.node]
        row, step = np.nonzero(((self.least == wanted) & (self.reached == concurrency[rows.node])).T)
        first = np.searchsorted(rows.node[row], np.arange(len(self.nodes)))
        row, step = row[first], step[first]
        costs = _priced(self.problem, rows, row, fillings, self.scaling_s)
        costs[fillings.concurrency[:, None] != self.steps[step]] = np.inf
        filling = np.argmin(costs, axis=0)
        created = _created(self.creations, rows, row, fillings.count[filling])
        return [
            (at, rows.kept(i), fillings.sizes(filled), int(new))
            for at, i, filled, new in zip(
                rows.at[row].tolist(), row.tolist(), filling.tolist(), created, strict=True
            )
            if filled or at in own
        ]


def node_options(
    problem: Problem, fillings: Fillings, nodes: Sequence[int], rows: KeptRows, work: Work
) -> NodeOptions:
    width = min(problem.target, int(rows.concurrency.max(initial=0) + fillings.concurrency.max())) + 1
    steps = np.flatnonzero(np.bincount(fillings.concurrency))
    starts = np.searchsorted(fillings.concurrency, steps)
    counts = np.arange(int(fillings.count.max()) + 1)
    creations = _creations(problem, nodes, len(counts) - 1)
    scaling_s = _scaling_s(problem, rows, creations, counts[:, None])
    work.spend(len(rows.node) * (_PASSES * len(fillings.count) + 4 * width))
    height = max(_BLOCK // len(fillings.count), 1)
    least = np.concatenate(
        [
            np.minimum.reduceat(
                _priced(problem, rows, slice(start, start + height), fillings, scaling_s), starts, axis=0
            )
            for start in range(0, len(rows.node), height)
        ],
        axis=1,
    )
    reached = np.minimum(steps[:, None] + rows.concurrency, width - 1)
    by_row = np.full((width, len(rows.node)), np.inf)
    by_row[reached, np.arange(len(rows.node))] = least
    by_row[-1] = np.where(reached == width - 1, least, np.inf).min(axis=0)  # several steps may reach it
    cost = np.minimum.reduceat(by_row, rows.starts, axis=1).T
    f = np.ascontiguousarray(cost)
    return NodeOptions(problem, fillings, nodes, rows, creations, scaling_s, steps, reached, least, f)


def _priced(
    problem: Problem, rows: KeptRows, some: slice | Whole, fillings: Fillings, scaling_s: Floats
) -> Floats:
    """S + lambda * B by filling and row; infinite if it does not fit."""
    at = rows.at[some]
    costs: Floats = scaling_s[:, some][fillings.count]
    costs += fillings.cpu[:, None] * problem.cpu_price[at]
    costs += fillings.memory[:, None] * problem.memory_price[at]
    over = fillings.cpu[:, None] > rows.cpu_left[some]
    over |= fillings.memory[:, None] > rows.memory_left[some]
    np.putmask(costs, over, np.inf)
    costs[0] = 0.0  # nothing new: kept containers always fit, even on an over-committed node
    costs += rows.cost[some]
    return costs


def _scaling_s(problem: Problem, rows: KeptRows, creations: Whole, counts: Whole) -> Floats:
    """Sum of S_np, eq. (6), for these counts of new containers. A resize needs no pod slot."""
    at = rows.at
    created = _created(creations, rows, slice(None), counts)
    before, slowdowns = problem.creating[at], problem.creation.total
    total: Floats = problem.tau_create_s[at] * (slowdowns[before + created] - slowdowns[before])
    total += problem.image_pull_s[at] * created
    total += problem.tau_resize_s[at] * problem.resize.total[counts - created]
    total[(created > 0) & (~problem.accepts[at] | (counts > rows.pods_left))] = np.inf
    return total


def _created(creations: Whole, rows: KeptRows, some: slice | Whole, counts: Whole) -> Whole:
    """How many of the new containers are created, because no other can be resized or creating is faster."""
    faster = np.where(counts <= rows.pods_left[some], creations[rows.node[some], counts], 0)
    created: Whole = np.maximum(counts - rows.spare[some], faster)
    return created


def _creations(problem: Problem, nodes: Sequence[int], most: int) -> Whole:
    """How many of 0..`most` new containers are better created than resized, by index into `nodes`.

    The next one is created if that is faster than one more resize. Both get slower with their number.
    """
    found = np.zeros((len(nodes), most + 1), dtype=np.int64)
    at, number = np.array(nodes, dtype=np.int64), np.arange(1, most + 1)
    resize_s = problem.tau_resize_s[at, None] * problem.resize.each[number]
    first_s = problem.tau_create_s * problem.creation.each[problem.creating + 1] + problem.image_pull_s
    open_rows = np.flatnonzero(problem.accepts[at] & (first_s[at] < resize_s.max(axis=1, initial=0.0)))
    at, resize_s = at[open_rows, None], resize_s[open_rows]
    slowdowns = problem.creation.each[problem.creating[at] + number]
    create_s = problem.tau_create_s[at] * slowdowns + problem.image_pull_s[at]
    order = np.argsort(np.concatenate([resize_s, create_s], axis=1), axis=1, kind="stable")
    found[open_rows, 1:] = np.cumsum(order[:, :most] >= most, axis=1)
    return found
