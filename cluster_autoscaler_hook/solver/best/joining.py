"""Joins nodes into fewer, larger ones at the same price (the paper's phase 2), and spreads apps (SFMPL)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cluster_autoscaler_hook.solver.best.tables import Pattern, Tables

__all__ = ["join", "spread"]


# How often a join checks whether one more node fits.
TRIES = 20_000


def join(tables: Tables, patterns: list[Pattern]) -> list[Pattern]:
    """Replace several nodes of a family by one that holds all their containers and costs no more, unless that
    would break an app's SFMPL."""
    alike: dict[tuple[int, int], Counter[Pattern]] = defaultdict(Counter)
    for pattern in patterns:
        alike[_kind(tables, pattern.class_index)][pattern] += 1
    targets: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i in np.argsort(-tables.capacity[:, 0], kind="stable"):
        targets[_kind(tables, int(i))].append(int(i))
    tries = iter(range(TRIES))
    for kind, nodes in alike.items():
        for target in targets[kind]:
            _join_into(tables, nodes, target, tries)
    return [pattern for nodes in alike.values() for pattern in nodes.elements()]


def _kind(tables: Tables, class_index: int) -> tuple[int, int]:
    """The family and the approximate memory per core: reservations on a node shift the ratio with its
    size."""
    cores, memory, _ = tables.capacity[class_index]
    return int(tables.class_family[class_index]), round(math.log2(float(memory / cores)))


def _join_into(tables: Tables, nodes: Counter[Pattern], target: int, tries: Iterator[int]) -> None:
    """Join smaller nodes, largest first, into as many nodes of the target class as they fill. A node that
    cannot be joined stays as it is."""
    cores = tables.capacity[:, 0]
    smaller = [pattern for pattern in nodes if cores[pattern.class_index] < cores[target]]
    smaller.sort(key=lambda pattern: -cores[pattern.class_index])
    for position, first in enumerate(smaller):
        while nodes[first]:
            parts, whole = _parts(tables, nodes, smaller[position:], target, tries)
            price = sum(n * float(tables.price[part.class_index]) for part, n in parts.items())
            if parts.total() < 2 or price < tables.price[target] * (1 - 1e-9):
                break
            times = min(nodes[part] // n for part, n in parts.items())
            for part, n in parts.items():
                nodes[part] -= times * n
            nodes[whole] += times


def _parts(
    tables: Tables, nodes: Counter[Pattern], candidates: list[Pattern], target: int, tries: Iterator[int]
) -> tuple[Counter[Pattern], Pattern]:
    """The first candidate, the others that fit one target node with it, and that node."""
    parts: Counter[Pattern] = Counter()
    counts: dict[int, int] = {}
    whole = Pattern(target, ())
    left = float(tables.capacity[target, 0]) + 1e-9
    for part in candidates:
        cores = float(tables.capacity[part.class_index, 0])
        while parts[part] < nodes[part] and cores <= left and next(tries, None) is not None:
            more = counts.copy()
            for a, n in part.counts:
                more[a] = more.get(a, 0) + n
            larger = Pattern(target, tuple(sorted(more.items())))
            if not tables.holds(target, more) or _breaks_sfmpl(tables, larger):
                break
            parts[part] += 1
            counts, whole, left = more, larger, left - cores
        if not parts:
            break
    return +parts, whole


def _breaks_sfmpl(tables: Tables, pattern: Pattern) -> bool:
    family = tables.class_family[pattern.class_index]
    return any(
        tables.apps[a].sfmpl < 1
        and n > 1
        and n * tables.performance[a, family] > tables.apps[a].sfmpl * tables.workload[a] * (1 + 1e-9)
        for a, n in pattern.counts
    )


def spread(tables: Tables, patterns: list[Pattern]) -> list[Pattern]:
    """Move containers of apps that break their SFMPL to other nodes of the family with room."""
    nodes = [_Node(tables, p.class_index, dict(p.counts)) for p in patterns]
    alike: list[list[_Node]] = [[] for _ in tables.families]
    for node in nodes:
        alike[int(tables.class_family[node.class_index])].append(node)
    served = tables.served(patterns)
    for a, app in enumerate(tables.apps):
        if app.sfmpl >= 1:
            continue
        for node in [node for node in nodes if node.counts.get(a, 0) > 1]:
            family = int(tables.class_family[node.class_index])
            most = max(int(app.sfmpl * served[a] / tables.performance[a, family] + 1e-9), 1)
            for other in alike[family]:
                if node.counts[a] <= most:
                    break
                if other is not node:
                    _move(a, node, other, most)
    return [Pattern(node.class_index, tuple(sorted(node.counts.items()))) for node in nodes]


@dataclass(slots=True)
class _Node:
    """A node whose containers can move."""

    tables: Tables
    class_index: int
    counts: dict[int, int]

    def with_one(self, app: int, more: int) -> dict[int, int] | None:
        """The contents with `more` (1 or -1) containers of an app; None if the node does not hold them."""
        counts = {**self.counts, app: self.counts.get(app, 0) + more}
        return counts if self.tables.holds(self.class_index, counts) else None


def _move(app: int, source: _Node, target: _Node, most: int) -> None:
    """Move containers while the source has more than `most` and the target has room."""
    while source.counts[app] > most > target.counts.get(app, 0):
        # 7 can need more memory than 8, so try both.
        more, rest = target.with_one(app, 1), source.with_one(app, -1)
        if more is None or rest is None:
            break
        source.counts, target.counts = rest, more
