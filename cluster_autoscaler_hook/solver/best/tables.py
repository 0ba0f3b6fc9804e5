"""The problem as arrays, for fast access in the search.

Rows are apps with a workload, columns are root families. `runs` is False for a pair that cannot run. Classes
that another class of their family dominates are left out.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cluster_autoscaler_hook.solver.model import (
    TOLERANCE,
    Allocation,
    Container,
    InstanceClass,
    Node,
    Problem,
)
from cluster_autoscaler_hook.solver.validation import fits

__all__ = ["Bundles", "Floats", "Ints", "Pattern", "Tables"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_LIMIT = 1 << 40


@dataclass(frozen=True, slots=True)
class Pattern:
    """One node: a class (by index) and minimum-size containers per app (by index)."""

    class_index: int
    counts: tuple[tuple[int, int], ...]  # (app, count), by app, counts above 0


@dataclass(frozen=True)
class Bundles:
    """The containers that can be put on a node in one step, by aggregation level, larger levels first."""

    app: Ints
    family: Ints
    level: Ints
    cores: Floats
    memory: Floats

    def __getitem__(self, chosen: NDArray[np.bool_] | Ints) -> Bundles:
        return Bundles(
            self.app[chosen], self.family[chosen], self.level[chosen], self.cores[chosen], self.memory[chosen]
        )


class Tables:
    """See the module's text. `capacity` columns: cores, GiB, containers."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.apps = tuple(app for app in problem.apps if app.workload > 0)
        self.families = tuple(dict.fromkeys(c.family for c in problem.classes))
        self.classes = _undominated(problem.classes)
        shape = (len(self.apps), len(self.families))
        # Performance is in shares of the app's workload, so that one solver tolerance suits tiny and huge
        # ones.
        self.workload: Floats = np.ones(len(self.apps))
        self.runs = np.zeros(shape, dtype=bool)
        self.cores: Floats = np.zeros(shape)
        self.performance: Floats = np.ones(shape)
        self.per_node: Ints = np.zeros(shape, dtype=np.int64)
        self.containers: dict[tuple[int, int], Container] = {}
        hosts = {family: [c for c in self.classes if c.family == family] for family in self.families}
        for f, family in enumerate(self.families):
            for a, app in enumerate(self.apps):
                container = problem.containers.get((app.name, family))
                if container is None or not any(fits(container, c) for c in hosts[family]):
                    continue
                self.runs[a, f] = True
                self.cores[a, f] = container.cores
                self.performance[a, f] = min(container.performance / app.workload, 1.0)
                self.per_node[a, f] = app.max_per_node or NO_LIMIT
                self.containers[a, f] = container
        self._surplus: dict[tuple[int, int, int], tuple[tuple[int, float, int], ...]] = {}
        self.class_family: Ints = np.array([self.families.index(c.family) for c in self.classes])
        self.capacity: Floats = np.array(
            [[c.cores, c.memory_gib, NO_LIMIT if c.max_containers is None else c.max_containers]
             for c in self.classes], dtype=float,
        )  # fmt: skip
        self.room: Floats = self.capacity * (1 + TOLERANCE / 2)
        self.gib_per_core: Floats = np.round(self.capacity[:, 1] / self.capacity[:, 0], 6)
        self.price: Floats = np.array([c.price_per_hour for c in self.classes])

    def needed(self, need: Floats) -> Ints:
        """The number of minimum-size containers of each app that would meet `need` in one family alone."""
        but_for_rounding = np.maximum(need - self.workload * TOLERANCE / 2, 0.0)
        counts = np.minimum(np.ceil(but_for_rounding[:, None] / self.performance), NO_LIMIT).astype(np.int64)
        return np.where(self.runs & (need > 0)[:, None], np.maximum(counts, 1), 0)

    def surplus(self, app: int, family: int, limit: int) -> tuple[tuple[int, float, int], ...]:
        """(level, its memory, needed containers it replaces): if `limit` containers are needed, one of that
        level instead of the last of them takes less memory, although it is more than needed."""
        key = (app, family, limit)
        if key not in self._surplus:
            container = self.containers[app, family]
            self._surplus[key] = tuple(
                (level, memory, limit % level)
                for level, memory in zip(container.levels, container.memory_gib, strict=True)
                if limit % level > 1
                and limit - limit % level + level <= self.per_node[app, family]
                and memory < container.aggregation.memory_of(limit % level) * (1 - TOLERANCE)
            )
        return self._surplus[key]

    @cached_property
    def aggregating(self) -> list[tuple[int, int]]:
        """The pairs (app, family) with more than one level."""
        return [pair for pair, container in self.containers.items() if len(container.levels) > 1]

    @cached_property
    def memory_per_container(self) -> Floats:
        """The memory of a container at the best aggregation level, which is the least possible."""
        memory = np.zeros(self.runs.shape)
        needed = self.needed(self.workload)
        for (a, f), container in self.containers.items():
            sizes = zip(container.levels, container.memory_gib, strict=True)
            memory[a, f] = min(m / min(level, needed[a, f]) for level, m in sizes)
        return memory

    @cached_property
    def least_cost(self) -> Floats:
        """The lowest price of the room that a container takes in each family, counting one resource only."""
        cost = np.full(self.runs.shape, np.inf)
        for i, f in enumerate(self.class_family):
            cores, memory, _ = self.capacity[i]
            share = np.maximum(self.cores[:, f] / cores, self.memory_per_container[:, f] / memory)
            cost[:, f] = np.minimum(cost[:, f], self.price[i] * np.maximum(share, 1e-12))
        return np.where(self.runs, cost, np.inf)

    @cached_property
    def bundles(self) -> Bundles:
        """All (app, family, level), larger levels first."""
        rows = sorted(
            (
                (-level, a, f, level * container.cores, memory)
                for (a, f), container in self.containers.items()
                for level, memory in zip(container.levels, container.memory_gib, strict=True)
            )
        )
        columns = np.array(rows, dtype=float).reshape(len(rows), 5).T
        level, app, family = (column.astype(np.int64) for column in (-columns[0], columns[1], columns[2]))
        return Bundles(app, family, level, columns[3], columns[4])

    def used(self, family: int, counts: dict[int, int]) -> tuple[float, float, int]:
        """The cores, GiB and containers of a node's contents after aggregation."""
        cores = memory = 0.0
        running = 0
        for a, count in counts.items():
            container = self.containers[a, family]
            cores += count * container.cores
            memory += container.aggregation.memory_of(count)
            running += container.aggregation.running(count)
        return cores, memory, running

    def holds(self, class_index: int, counts: dict[int, int]) -> bool:
        family = int(self.class_family[class_index])
        cores, memory, running = self.used(family, counts)
        room = self.room[class_index]
        return (
            cores <= room[0]
            and memory <= room[1]
            and running <= room[2]
            and all(count <= self.per_node[a, family] for a, count in counts.items())
        )

    def pattern(self, class_index: int, counts: dict[int, int], limit: Ints) -> Pattern:
        """A node with `counts`, or most of them; no app has more than `limit` (per app and family) unless
        that saves memory."""
        family = int(self.class_family[class_index])
        kept = dict(sorted(counts.items()))
        for a, count in kept.items():
            needs = self.containers[a, family].aggregation
            enough = range(int(limit[a, family]), count)
            memory, running = needs.memory_of(count), needs.running(count)
            kept[a] = next(
                (n for n in enough if needs.memory_of(n) <= memory and needs.running(n) <= running), count
            )
        # The aggregation with least memory can have more containers than a class allows.
        while not self.holds(class_index, kept):
            most = max(kept, key=lambda a: self.containers[a, family].aggregation.running(kept[a]))
            kept[most] -= 1
            kept = {a: count for a, count in kept.items() if count}
        return Pattern(class_index, tuple(kept.items()))

    def on_the_cheapest(self, family: int, counts: dict[int, int]) -> Pattern:
        """A node with the cheapest class of the family that fits `counts`; one must fit."""
        enough = (self.room >= self.used(family, counts)).all(axis=1) & (self.class_family == family)
        return Pattern(int(np.argmin(np.where(enough, self.price, np.inf))), tuple(sorted(counts.items())))

    def patterns(self, nodes: Iterable[Node]) -> list[Pattern]:
        """The nodes as patterns, each with the cheapest class that fits its contents."""
        index = {app.name: a for a, app in enumerate(self.apps)}
        family = {c.name: self.families.index(c.family) for c in self.problem.classes}
        return [
            self.on_the_cheapest(
                family[node.instance_class], {index[name]: n for name, n in node.containers.items()}
            )
            for node in nodes
        ]

    def free_cores(self, pattern: Pattern) -> float:
        family = int(self.class_family[pattern.class_index])
        used = sum(n * self.cores[a, family] for a, n in pattern.counts)
        return float(self.room[pattern.class_index, 0] - used)

    def served(self, patterns: list[Pattern]) -> Floats:
        """The performance per app of some nodes."""
        total = np.zeros(len(self.apps))
        for pattern in patterns:
            family = self.class_family[pattern.class_index]
            for a, count in pattern.counts:
                total[a] += count * self.performance[a, family]
        return total

    def cost(self, patterns: list[Pattern]) -> float:
        return float(sum(self.price[pattern.class_index] for pattern in patterns))

    def allocation(self, patterns: list[Pattern]) -> Allocation:
        return Allocation(
            tuple(
                Node(self.classes[p.class_index].name, {self.apps[a].name: n for a, n in p.counts})
                for p in patterns
            )
        )


def _undominated(classes: tuple[InstanceClass, ...]) -> tuple[InstanceClass, ...]:
    """The classes without those that another of the family equals or exceeds in size at no higher price."""

    def size(c: InstanceClass) -> tuple[float, float, float]:
        return c.cores, c.memory_gib, NO_LIMIT if c.max_containers is None else c.max_containers

    def cheap_and_large(c: InstanceClass) -> tuple[float, list[float], str]:
        return c.price_per_hour, [-x for x in size(c)], c.name

    kept: dict[str, list[InstanceClass]] = {}
    for c in sorted(classes, key=cheap_and_large):
        rivals = kept.setdefault(c.family, [])
        own = size(c)
        if not any(all(map(operator.ge, size(rival), own)) for rival in rivals):
            rivals.append(c)
    return tuple(sorted((c for rivals in kept.values() for c in rivals), key=cheap_and_large))
