"""Aggregates the minimum-size containers of an app on one node into larger ones.

Algorithm 2 of the paper takes the largest level as often as possible, then the next. That needs least memory
only if levels divide each other: with levels 1, 4 and 6, eight containers are 4 + 4, not 6 + 1 + 1. Here the
answer is exact for any levels: least memory first, then fewest containers, then the largest ones. It is the
answer of Algorithm 2 if levels divide each other and a larger container needs no more memory than the smaller
ones it replaces.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

__all__ = ["Aggregation"]

# A cost of each container beside its memory, as a share of the largest: fewest containers win if memory is
# equal except for rounding. Far below the tolerance for an exact fit (model.TOLERANCE).
_EACH = 1e-13


class _Best(NamedTuple):
    cost: float
    memory_gib: float
    running: int
    level: int  # of one container


class Aggregation:
    """The best aggregation for each count, from a table that grows on demand."""

    def __init__(self, levels: tuple[int, ...], memory_gib: tuple[float, ...]) -> None:
        each = _EACH * (max(memory_gib) or 1.0)
        # Larger levels first: among equals the first is kept.
        self._sizes = sorted(
            ((level, memory + each, memory) for level, memory in zip(levels, memory_gib, strict=True)),
            reverse=True,
        )
        self._thriftiest, _, self._memory_gib = min(self._sizes, key=lambda size: size[1] / size[0])
        # Among as many containers as the thriftiest level has units, some add up to a multiple of it
        # (pigeonhole), and that multiple costs no more. So fewer containers are of other levels, and above
        # their sum each further unit is one more container of the thriftiest level.
        self._repeats_above = (self._thriftiest - 1) * max(levels)
        self._table = [_Best(0.0, 0.0, 0, 0)]

    def memory_of(self, count: int) -> float:
        """The memory of `count` containers. Not monotone: 8 can need less than 7."""
        times, best = self._best(count)
        return times * self._memory_gib + best.memory_gib

    def running(self, count: int) -> int:
        """The number of containers after aggregation."""
        times, best = self._best(count)
        return times + best.running

    def containers(self, count: int) -> dict[int, int]:
        """Level -> number of containers, larger levels first."""
        times, _ = self._best(count)
        found = {self._thriftiest: times} if times else {}
        left = count - times * self._thriftiest
        while left:
            level = self._table[left].level
            found[level] = found.get(level, 0) + 1
            left -= level
        return dict(sorted(found.items(), reverse=True))

    def _best(self, count: int) -> tuple[int, _Best]:
        """The number of containers of the thriftiest level, and the best aggregation of the rest."""
        times = max(0, -((self._repeats_above - count) // self._thriftiest))
        rest = count - times * self._thriftiest
        if rest >= len(self._table):
            self._grow(max(rest, 2 * len(self._table)))
        return times, self._table[rest]

    def _grow(self, count: int) -> None:
        table = list(self._table)  # another thread may read or extend it at the same time
        for n in range(len(table), count + 1):
            ways = [
                (table[n - level].cost + cost, level, memory)
                for level, cost, memory in self._sizes
                if level <= n
            ]
            cost, level, memory = min(ways, key=itemgetter(0))
            before = table[n - level]
            table.append(_Best(cost, before.memory_gib + memory, before.running + 1, level))
        self._table = table
