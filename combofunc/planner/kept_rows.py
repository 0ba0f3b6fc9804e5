"""The sets of containers that a node may keep. Each set is a row, with what it leaves free on the node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from combofunc.planner.dominance import beats
from combofunc.planner.problem import Floats, Problem, Whole
from combofunc.planner.work import LIST_ITEM, Work

__all__ = ["KeptRows", "kept_rows"]

_UNFINISHED_FACTOR = 4


@dataclass(frozen=True, slots=True, eq=False)
class KeptRows:
    """The rows of one node are neighbours."""

    starts: Whole  # the first row of each node
    node: Whole  # index into `nodes`
    at: Whole  # index into the problem's nodes
    spare: Whole  # number of containers that are not kept and can be resized
    concurrency: Whole
    cost: Floats  # lambda * B of the kept containers
    cpu_left: Floats
    memory_left: Floats
    pods_left: Floats
    kinds: Sequence[dict[int, list[int]]]  # by node: its containers, grouped by kind
    sets: Sequence[Whole]  # by node: how many of each kind are kept, a row each

    def kept(self, row: int) -> list[int]:
        node = int(self.node[row])
        kinds, counts = self.kinds[node].values(), self.sets[node][row - int(self.starts[node])].tolist()
        return [c for alike, count in zip(kinds, counts, strict=True) for c in alike[:count]]


@dataclass(frozen=True, slots=True, eq=False)
class _Kinds:
    """The kinds of containers on one node. Arrays and lists have every kind of every node."""

    most: dict[int, int]  # how many of each kind here can be kept
    cost: Floats  # lambda * B of one container here
    concurrency: Floats
    better: list[list[bool]]  # [i][j]: kind i is better than j


def kept_rows(problem: Problem, nodes: Sequence[int], worth: float, sets_kept: int, work: Work) -> KeptRows:
    """`worth`: about what a unit of concurrency costs. `sets_kept`: most sets to consider on one node."""
    ids: dict[tuple[int, bool], int] = {}
    kinds: list[dict[int, list[int]]] = [{} for _ in nodes]
    own_node: list[int] = []
    own_kind: list[int] = []
    for i, here in enumerate(nodes):
        for container in problem.own.get(here, ()):
            size = problem.size_of[container], problem.resizable[container]
            kind = ids.setdefault(size, len(ids))
            kinds[i].setdefault(kind, []).append(container)
            own_node.append(i)
            own_kind.append(kind)
    sizes = [(problem.known_sizes[size], resizable) for size, resizable in ids]
    numbers = [(s.concurrency, s.cpu_millicores, s.memory_bytes, resizable, 1) for s, resizable in sizes]
    facts = np.array(numbers, dtype=float).reshape(-1, 5)
    # A better kind: no less concurrency, no more resources, no fewer left to resize.
    better: list[list[bool]] = beats(facts[:, :4] * (-1, 1, 1, 1)).tolist()
    concurrency, cpu, memory, _, _ = facts.T
    cost = problem.cpu_price[nodes, None] * cpu + problem.memory_price[nodes, None] * memory
    sets, kept = [np.zeros((1, 0), dtype=np.int64)] * len(nodes), [np.zeros((1, 5))] * len(nodes)
    for i, alike in enumerate(kinds):
        if alike:
            most = {kind: len(c) if problem.keepable[c[0]] else 0 for kind, c in alike.items()}
            sets[i] = _sets(_Kinds(most, cost[i], concurrency, better), worth, sets_kept, work)
            kept[i] = sets[i] @ facts[list(alike)]  # whole numbers: their sums are exact
    own = np.zeros((len(nodes), 5))
    np.add.at(own, own_node, facts[own_kind])
    rows = np.array([len(of_node) for of_node in sets])
    node = np.repeat(np.arange(len(nodes)), rows)
    at = np.array(nodes, dtype=np.int64)[node]
    facts_kept = np.concatenate(kept)
    concurrency, cpu, memory, _, _ = facts_kept.T
    _, cpu_left, memory_left, spare, pods_left = (own[node] - facts_kept).T
    return KeptRows(
        np.cumsum(rows) - rows,
        node,
        at,
        spare.astype(np.int64),
        concurrency.astype(np.int64),
        problem.cpu_price[at] * cpu + problem.memory_price[at] * memory,
        problem.cpu_free[at] + cpu_left,
        problem.memory_free[at] + memory_left,
        problem.pods_free[at] + pods_left,
        kinds,
        sets,
    )


def _sets(here: _Kinds, worth: float, sets_kept: int, work: Work) -> Whole:
    """All sensible ways to keep containers, as counts of each kind; at most `sets_kept` ways."""
    kinds, limits = list(here.most), list(here.most.values())
    cost, concurrency, better = here.cost, here.concurrency, here.better
    sets: list[tuple[int, ...]] = [()]
    for i, kind in enumerate(kinds):
        work.spend(LIST_ITEM * len(sets) * (limits[i] + 1) * (i + 1))
        added = [(count,) for count in range(limits[i], -1, -1)]
        sets = [before + count for before in sets for count in added]
        # Keep all of a better kind before any of a worse one.
        for j, other in enumerate(kinds[:i]):
            if better[other][kind]:
                sets = [s for s in sets if s[j] == limits[j] or not s[i]]
            elif better[kind][other]:
                sets = [s for s in sets if s[i] == limits[i] or not s[j]]
        # Keep more sets until the end: which is best shows only then.
        if len(sets) > _UNFINISHED_FACTOR * sets_kept:
            so_far = kinds[: i + 1]
            best = _best(np.array(sets), cost[so_far], concurrency[so_far], worth, sets_kept)
            sets = [sets[j] for j in best.tolist()]
    counts = np.array(sets)
    if len(sets) > sets_kept:
        counts = counts[_best(counts, cost[kinds], concurrency[kinds], worth, sets_kept)]
    return counts


def _best(counts: Whole, cost: Floats, concurrency: Floats, worth: float, sets_kept: int) -> Whole:
    """Take the cheapest set of each concurrency first, then the second cheapest of each, and so on."""
    costs, reached = counts @ cost, counts @ concurrency
    order = np.lexsort((costs, reached))
    ordered = reached[order]
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    rank[[0, -1]] = -1  # always include "keep all" and "keep none"
    best: Whole = np.sort(np.lexsort((costs - worth * reached, rank))[:sets_kept])
    return best
