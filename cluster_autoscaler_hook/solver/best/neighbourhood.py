"""Large-neighbourhood search: gives a few nodes back, and rents again for their containers, cheaper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cluster_autoscaler_hook.solver.best.columns import best_mix, dive
from cluster_autoscaler_hook.solver.best.filling import even_performance, fill_room
from cluster_autoscaler_hook.solver.best.greedy import cover, still_needed
from cluster_autoscaler_hook.solver.best.rent_task import RentTask
from cluster_autoscaler_hook.solver.best.tables import Floats, Ints, Pattern, Tables

__all__ = ["improve"]

# How many nodes are given back (from, below). Renting again greedily takes a tenth of the time of columns;
# columns gain more where there is much to rearrange.
GREEDY_NODES, COLUMNS_NODES = (2, 9), (5, 11)
COLUMN_ROUNDS, DIVE_ROUNDS = 10, 3


def improve(task: RentTask, patterns: list[Pattern], bound: float, rounds: int) -> list[Pattern]:
    """A solution that costs no more. The same input gives the same solution unless the deadline is
    reached."""
    tables, worth = task.tables, task.worth
    random = np.random.default_rng(1)
    current = list(patterns)
    gain = _gain(tables, current, worth)
    for _ in range(rounds):
        if task.deadline.reached() or tables.cost(current) <= bound * (1 + 1e-9):
            break
        by_columns = bool(random.random() < 0.5)
        size = int(random.integers(*(COLUMNS_NODES if by_columns else GREEDY_NODES)))
        given_back = _choose(current, gain, random, min(size, len(current)))
        noisy = worth * np.exp(random.choice([0.0, 0.1, 0.3]) * random.standard_normal(len(worth)))
        again = replace(task, worth=noisy)
        following = _rent_again(again, current, given_back, random, by_columns=by_columns)
        if following is not None:
            current = following
            gain = _gain(tables, current, worth)
    return current


def _gain(tables: Tables, patterns: list[Pattern], worth: Floats) -> Floats:
    """The worth of each node's contents relative to its price."""
    return np.array(
        [
            sum(worth[a] * n * tables.performance[a, tables.class_family[p.class_index]] for a, n in p.counts)
            / tables.price[p.class_index]
            for p in patterns
        ]
    )


def _choose(patterns: list[Pattern], gain: Floats, random: np.random.Generator, size: int) -> set[int]:
    """A poor node, some that serve the same apps, some at random."""
    poverty = np.exp(-4 * gain / max(gain.max(), 1e-12))
    first = int(random.choice(len(patterns), p=poverty / poverty.sum()))
    chosen = {first}
    apps = {a for a, _ in patterns[first].counts}
    if random.random() < 0.5:
        related = np.array([len(apps & {a for a, _ in p.counts}) + 1e-3 for p in patterns])
    else:
        related = poverty
    while len(chosen) < size:
        related[list(chosen)] = 0.0
        chosen.add(int(random.choice(len(patterns), p=related / related.sum())))
    return chosen


def _rent_again(
    task: RentTask, patterns: list[Pattern], given_back: set[int], random: np.random.Generator,
    *, by_columns: bool,
) -> list[Pattern] | None:  # fmt: skip
    """Rent by columns or greedily. None if nothing cheaper was found; greedily also if nothing as cheap with
    other contents."""
    tables = task.tables
    kept = [p for index, p in enumerate(patterns) if index not in given_back]
    before = [patterns[index] for index in sorted(given_back)]
    budget = tables.cost(before)
    need = still_needed(tables, task.need - tables.served(kept))
    needed = tables.needed(need)
    worths = task.worth[:, None] * even_performance(tables, need, needed)
    smallest = _smallest(tables, needed)
    for index, pattern in enumerate(kept):
        family = tables.class_family[pattern.class_index]
        if tables.free_cores(pattern) < smallest[family]:
            continue
        added = fill_room(tables, pattern.class_index, dict(pattern.counts), worths, needed)
        if added:
            counts = dict(pattern.counts)
            for a, n in added.items():
                counts[a] = counts.get(a, 0) + n
                need[a] -= n * tables.performance[a, family]
            kept[index] = Pattern(pattern.class_index, tuple(sorted(counts.items())))
            need = still_needed(tables, need)
            needed = tables.needed(need)
            smallest = _smallest(tables, needed)
    rest = replace(task, need=need)
    if by_columns and need.any():
        mix = best_mix(rest, before, COLUMN_ROUNDS)
        if mix is None:
            return None
        cheaper = dive(rest, mix, DIVE_ROUNDS, budget * (1 - 1e-9))
        return None if cheaper is None else kept + cheaper
    rented = cover(rest, random, budget * (1 + 1e-9))
    if rented is None:
        return None
    dearer = tables.cost(rented) > budget * (1 - 1e-9)
    return None if dearer and len(rented) > len(given_back) + 1 else kept + rented


def _smallest(tables: Tables, needed: Ints) -> Floats:
    """The cores of the smallest container still needed, per family; infinite if none is needed."""
    smallest: Floats = np.where(needed > 0, tables.cores, np.inf).min(axis=0)
    return smallest
