"""Finds the best filling of one node exactly: an integer program in cores, memory and containers.

It is a hundred times slower than `filling`, so it is used only when that finds nothing more.
"""

from __future__ import annotations

import math

import numpy as np

from cluster_autoscaler_hook.solver.best.tables import Floats, Ints, Pattern, Tables
from cluster_autoscaler_hook.solver.linear_program import LinearProgram

__all__ = ["Knapsack"]


class Knapsack:
    """The knapsack of one class; only the worths change between solves."""

    def __init__(self, tables: Tables, class_index: int, needed: Ints) -> None:
        self._tables, self._class_index = tables, class_index
        family = int(tables.class_family[class_index])
        bundles, room = tables.bundles, tables.room[class_index]
        self._limit = np.minimum(needed, tables.per_node)
        limit = {int(a): int(self._limit[a, family]) for a in np.flatnonzero(self._limit[:, family])}
        # Apps that can save memory with more containers than needed.
        generous = {a for a in limit if tables.surplus(a, family, limit[a])}
        inside = (bundles.family == family) & (bundles.cores <= room[0]) & (bundles.memory <= room[1])
        inside &= np.isin(bundles.app, list(generous)) | (bundles.level <= self._limit[bundles.app, family])
        inside &= self._limit[bundles.app, family] > 0
        chosen = bundles[inside]
        self._app, self._level, self._family = chosen.app, chosen.level, family
        apps = list(dict.fromkeys(int(a) for a in chosen.app))
        row_of = {a: 3 + row for row, a in enumerate(apps)}
        most = [tables.per_node[a, family] if a in generous else limit[a] for a in apps]
        served_row = {a: 3 + len(apps) + row for row, a in enumerate(a for a in apps if a in generous)}
        self._program = LinearProgram(
            [-math.inf] * (3 + len(apps) + len(served_row)),
            [*room, *(float(n) for n in most), *[0.0] * len(served_row)], small=True,
        )  # fmt: skip
        for a, level, cores, memory in zip(
            chosen.app, chosen.level, chosen.cores, chosen.memory, strict=True
        ):
            rows, values = [0, 1, 2, row_of[int(a)]], [cores, memory, 1.0, level]
            if int(a) in generous:
                rows, values = [*rows, served_row[int(a)]], [*values, -float(level)]
            self._program.add(0.0, rows, values, integer=True)
        # The containers that count: no more than there are, and no more than are needed.
        self._served = np.array(list(served_row), dtype=np.int64)
        for a, row in served_row.items():
            self._program.add(0.0, [row], [1.0], upper=float(limit[a]))

    def solve(self, worths: Floats, seconds: float, gap: float, nodes: int) -> tuple[Pattern | None, float]:
        """The best pattern found, and an upper bound of the worth of every pattern of the class. `worths`: of
        one container per (app, family)."""
        if not len(self._app):
            return None, 0.0
        worth = worths[:, self._family]
        by_level = np.where(np.isin(self._app, self._served), 0.0, -worth[self._app] * self._level)
        self._program.set_costs(np.append(by_level, -worth[self._served]))
        outcome = self._program.solve(seconds, gap, nodes)
        most = -outcome.bound
        if outcome.values is None:
            return None, most
        counts: dict[int, int] = {}
        numbers = np.rint(outcome.values[: len(self._app)]).astype(int)
        for a, level, number in zip(self._app, self._level, numbers, strict=True):
            if number > 0:
                counts[int(a)] = counts.get(int(a), 0) + int(number) * int(level)
        if not counts:
            return None, most
        return self._tables.pattern(self._class_index, counts, self._limit), most
