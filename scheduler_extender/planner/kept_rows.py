"""The sets of a node's containers that may be kept: a row each, with what they leave of the node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_extender.planner.model import Size
from scheduler_extender.planner.problem import Floats, Problem, Whole

__all__ = ["KeptRows", "kept_rows"]

_ON_THE_WAY = 4


@dataclass(frozen=True, slots=True, eq=False)
class KeptRows:
    """Rows of one node follow each other."""

    node: Whole  # position among the nodes asked for
    at: Whole  # the problem's node
    spare: Floats  # its containers that are not kept and can be resized
    concurrency: Whole
    cost: Floats  # lambda * B of the kept
    cpu_left: Floats
    memory_left: Floats
    pods_left: Floats
    kinds: Sequence[dict[int, list[int]]]  # by node: its containers that are alike
    counts: Whole  # by row and kind: how many are kept

    def kept(self, row: int) -> list[int]:
        kinds = self.kinds[int(self.node[row])]
        return [c for kind, alike in kinds.items() for c in alike[: int(self.counts[row, kind])]]


def kept_rows(problem: Problem, nodes: Sequence[int], worth: float, sets_kept: int) -> KeptRows:
    """`worth`: about what a unit of concurrency costs; `sets_kept`: on one node."""
    ids: dict[tuple[Size, bool], int] = {}
    kinds: list[dict[int, list[int]]] = []
    for here in nodes:
        alike: dict[int, list[int]] = {}
        for container in problem.own.get(here, ()):
            kind = problem.containers[container].size, problem.resizable[container]
            alike.setdefault(ids.setdefault(kind, len(ids)), []).append(container)
        kinds.append(alike)
    spare = np.array([resizable for _, resizable in ids], dtype=float)
    facts = [(size.concurrency, size.cpu_millicores, size.memory_bytes) for size, _ in ids]
    concurrency, cpu, memory = np.array(facts, dtype=float).reshape(-1, 3).T
    better = _better(concurrency, cpu, memory, spare)
    rows, counts = [1] * len(nodes), [np.zeros((1, len(ids)), dtype=np.int64)] * len(nodes)
    for i, (here, alike) in enumerate(zip(nodes, kinds, strict=True)):
        if alike:
            cost = problem.cpu_price[here] * cpu + problem.memory_price[here] * memory
            most = {kind: len(c) if problem.keepable[c[0]] else 0 for kind, c in alike.items()}
            sets = _sets(most, cost, concurrency, worth, better, sets_kept)
            counts[i] = np.zeros((len(sets), len(ids)), dtype=np.int64)
            counts[i][:, list(alike)] = sets
            rows[i] = len(sets)
    node = np.repeat(np.arange(len(nodes)), rows)
    at = np.array(nodes, dtype=np.int64)[node]
    kept = np.concatenate(counts)
    own = np.array([[len(alike.get(kind, ())) for kind in range(len(ids))] for alike in kinds])
    left = own[node] - kept
    return KeptRows(
        node,
        at,
        left @ spare,
        (kept @ concurrency).astype(np.int64),
        problem.cpu_price[at] * (kept @ cpu) + problem.memory_price[at] * (kept @ memory),
        problem.cpu_free[at] + left @ cpu,
        problem.memory_free[at] + left @ memory,
        problem.pods_free[at] + left.sum(axis=1),
        kinds,
        kept,
    )


def _better(concurrency: Floats, cpu: Floats, memory: Floats, spare: Floats) -> list[list[bool]]:
    """Which kind is rather kept than which: as much concurrency, no more held, no less left to resize."""

    def at_most(values: Floats) -> NDArray[np.bool_]:
        return values[:, None] <= values

    found = at_most(-concurrency) & at_most(cpu) & at_most(memory) & at_most(spare)
    np.fill_diagonal(found, False)
    answer: list[list[bool]] = (found & ~(found.T & np.tri(len(found), dtype=bool))).tolist()
    return answer


def _sets(
    most: dict[int, int],
    cost: Floats,
    concurrency: Floats,
    worth: float,
    better: list[list[bool]],
    sets_kept: int,
) -> list[tuple[int, ...]]:
    """How many of each kind are kept, in every way that makes sense, or in so many ways."""
    sets: list[tuple[int, ...]] = [()]
    kinds = list(most)
    for i, kind in enumerate(kinds):
        limit = most[kind]
        # Of this kind none is kept before all of a better one.
        first = [j for j in range(i) if better[kinds[j]][kind]]
        later = [j for j in range(i) if better[kind][kinds[j]]]
        grown = []
        for before in sets:
            top = limit if not first or all(before[j] == most[kinds[j]] for j in first) else 0
            bottom = limit if later and any(before[j] for j in later) else 0
            grown += [(*before, count) for count in range(top, bottom - 1, -1)]
        sets = grown
        # On the way more are kept: what is best is seen late.
        if len(sets) > (sets_kept if kind == kinds[-1] else _ON_THE_WAY * sets_kept):
            counts, so_far = np.array(sets), kinds[: i + 1]
            chosen = _thinned(counts @ cost[so_far], counts @ concurrency[so_far], worth)[:sets_kept]
            sets = [sets[j] for j in np.sort(chosen)]
    return sets


def _thinned(cost: Floats, concurrency: Floats, worth: float) -> Whole:
    """The best first: the cheapest set of each concurrency goes before the second cheapest of any."""
    order = np.lexsort((cost, concurrency))
    starts = np.flatnonzero(np.diff(concurrency[order], prepend=-1))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    rank[[0, -1]] = -1  # all of them and none are always looked at
    return np.lexsort((cost - worth * concurrency, rank))
