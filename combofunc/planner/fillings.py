"""Finds the combinations of sizes that are worth putting on a node, for all nodes at once.

The cost of a set of new (created or resized) containers depends on four numbers: their count, cpu, memory and
concurrency. If another set has the same concurrency with no more containers, cpu and memory, the first set is
never best, and no larger set that contains it is. So sets grow one container at a time, and only sets that
no other beats are grown further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from combofunc.planner.dominance import beats
from combofunc.planner.model import Size
from combofunc.planner.problem import Floats, Whole
from combofunc.planner.work import Work

__all__ = ["Fillings", "Limits", "fillings", "undominated"]

# Most sets to keep for one number of containers. There are more only if sizes are unrelated in cpu, memory
# and concurrency. Then the leanest are kept, and the plan may miss the best.
_SETS_KEPT = 400
# Work per number: sums, comparisons, two sorts.
_PASSES = 30
# More than any node's memory in bytes; 2**17 times this still fits 64 bits.
_MEMORY_STEP = 2**45


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a filling may have."""

    containers: int
    concurrency: int  # the target: more is worth nothing
    cpu_millicores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Fillings:
    """In order of concurrency; the first is the empty one."""

    count: Whole
    concurrency: Whole  # at most the target
    cpu: Floats
    memory: Floats
    without_last: Whole  # the filling this one was grown from
    last: Whole  # and the size that was added

    def sizes(self, filling: int) -> list[int]:
        """Indices of the filling's sizes, in order."""
        found = []
        while self.count[filling]:
            found.append(int(self.last[filling]))
            filling = int(self.without_last[filling])
        return sorted(found)


def undominated(sizes: Sequence[Size]) -> list[int]:
    """Indices of sizes worth creating: no other has as much concurrency for no more cpu and memory."""
    costs = np.array([(-s.concurrency, s.cpu_millicores, s.memory_bytes) for s in sizes])
    return np.flatnonzero(~beats(costs).any(axis=0)).tolist()


def fillings(sizes: Sequence[Size], limits: Limits, work: Work) -> Fillings:
    """All worthwhile sets of containers within the limits."""
    chosen = np.array(undominated(sizes), dtype=np.int64)
    added = np.array([(s.concurrency, s.cpu_millicores, s.memory_bytes) for s in sizes], dtype=np.int64)
    added = added[chosen].T[:, None, :]
    found = np.zeros((3, 1), dtype=np.int64)  # concurrency, cpu, memory
    without_last, last = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
    first = 0  # of the sets that are grown next
    for _ in range(limits.containers):
        work.spend(_PASSES * (found.shape[1] + (found.shape[1] - first) * len(chosen)))
        # Concurrency beyond the target is worth nothing: a set that reached it does not get better.
        grown = (found[:, first:, None] + added).reshape(3, -1)
        np.minimum(grown[0], limits.concurrency, out=grown[0])
        fits = np.flatnonzero((grown[1] <= limits.cpu_millicores) & (grown[2] <= limits.memory_bytes))
        fits = fits[_worthwhile(found, grown.take(fits, axis=1), limits)]
        if not len(fits):
            break
        without_last.append(first + fits // len(chosen))
        last.append(chosen[fits % len(chosen)])
        first = found.shape[1]
        found = np.concatenate([found, grown.take(fits, axis=1)], axis=1)
    count = np.repeat(np.arange(len(last)), [len(of_count) for of_count in last])
    order = np.argsort(found[0], kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    cpu, memory = found[1:, order].astype(float)
    grown_from, added_last = np.concatenate(without_last)[order], np.concatenate(last)[order]
    return Fillings(count[order], found[0, order], cpu, memory, place[grown_from], added_last)


def _worthwhile(found: Whole, grown: Whole, limits: Limits) -> Whole:
    """Indices of `grown` sets that neither a smaller set nor another grown set beats."""
    both = np.concatenate([found, grown], axis=1)
    order = np.lexsort(both[::-1])
    concurrency, _, memory = both.take(order, axis=1)
    group = np.cumsum(concurrency[1:] != concurrency[:-1])
    # Within a group cpu rises, so a set is beaten unless its memory is a new low. The step puts every group
    # below the one before it, so that the lows can run on over all groups.
    memory[1:] -= group * _MEMORY_STEP
    unbeaten = order[1:][memory[1:] < np.minimum.accumulate(memory)[:-1]]  # the first is the empty set
    stays: Whole = np.sort(unbeaten[unbeaten >= found.shape[1]]) - found.shape[1]
    if len(stays) <= _SETS_KEPT:
        return stays
    # The leanest of every concurrency, then the second leanest, and so on.
    concurrency, cpu, memory = grown[:, stays]
    weight = cpu / max(limits.cpu_millicores, 1) + memory / max(limits.memory_bytes, 1)
    order = np.lexsort((weight, concurrency))
    rank = np.arange(len(order)) - np.searchsorted(concurrency[order], concurrency[order])
    leanest: Whole = stays[np.sort(order[np.lexsort((weight[order], rank))[:_SETS_KEPT]])]
    return leanest
