"""The best filling of one node exactly: an integer program in cores, memory and containers.

Slower than `filling` by a hundred times, so it is asked only where that finds nothing more.
"""

from __future__ import annotations

import math

import numpy as np

from cluster_autoscaler_hook.best.tables import Floats, Ints, Pattern, Tables
from cluster_autoscaler_hook.linear_program import LinearProgram

__all__ = ["Knapsack"]


class Knapsack:
    """One class's knapsack; only the worths change between solves."""

    def __init__(self, tables: Tables, class_index: int, needed: Ints) -> None:
        self._tables, self._class_index = tables, class_index
        family = int(tables.class_family[class_index])
        bundles, room = tables.bundles, tables.room[class_index]
        limit = np.minimum(needed, tables.per_node)[bundles.app, family]
        inside = (bundles.family == family) & (bundles.level <= limit)
        inside &= (bundles.cores <= room[0]) & (bundles.memory <= room[1])
        self._app, self._level = bundles.app[inside], bundles.level[inside]
        self._family = family
        apps = list(dict.fromkeys(int(a) for a in self._app))
        row_of = {a: 3 + row for row, a in enumerate(apps)}
        upper = np.minimum(needed, tables.per_node)[:, family]
        self._program = LinearProgram(
            [-math.inf] * (3 + len(apps)), [*room, *(float(upper[a]) for a in apps)], small=True
        )
        for a, level, cores, memory in zip(
            self._app, self._level, bundles.cores[inside], bundles.memory[inside], strict=True
        ):
            self._program.add(0.0, [0, 1, 2, row_of[int(a)]], [cores, memory, 1.0, level], integer=True)

    def solve(self, worths: Floats, seconds: float, gap: float, nodes: int) -> tuple[Pattern | None, float]:
        """The best pattern found, and what no pattern of the class is worth more than; `worths` are of one
        container per (app, family)."""
        if not len(self._app):
            return None, 0.0
        self._program.set_costs(-worths[self._app, self._family] * self._level)
        outcome = self._program.solve(seconds, gap, nodes)
        most = -outcome.bound
        if outcome.values is None:
            return None, most
        counts: dict[int, int] = {}
        for a, level, number in zip(self._app, self._level, np.rint(outcome.values).astype(int), strict=True):
            if number > 0:
                counts[int(a)] = counts.get(int(a), 0) + int(number) * int(level)
        if not counts or not self._tables.holds(self._class_index, counts):
            return None, most
        return Pattern(self._class_index, tuple(sorted(counts.items()))), most
