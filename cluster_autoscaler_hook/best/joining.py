"""Fewer, larger nodes at the same price (the paper's phase 2), and apps spread over nodes (SFMPL)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np

from cluster_autoscaler_hook.best.tables import Pattern, Tables

__all__ = ["join", "spread"]


def join(tables: Tables, patterns: list[Pattern]) -> list[Pattern]:
    """Replace several nodes of a family by one that holds all they hold and costs no more, unless an app
    with a wish would then lose more with one node than it wishes."""
    alike: dict[tuple[int, int], list[Pattern]] = defaultdict(list)
    for pattern in patterns:
        alike[_kind(tables, pattern.class_index)].append(pattern)
    targets: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i in np.argsort(-tables.capacity[:, 0], kind="stable"):
        targets[_kind(tables, int(i))].append(int(i))
    joined: list[Pattern] = []
    for kind, members in alike.items():
        left = members
        for target in targets[kind]:
            left = _join_into(tables, left, target)
        joined += left
    return joined


def _kind(tables: Tables, class_index: int) -> tuple[int, int]:
    """Family, and about how much memory a core has: what a node keeps for itself shifts it by its size."""
    cores, memory, _ = tables.capacity[class_index]
    return int(tables.class_family[class_index]), round(math.log2(float(memory / cores)))


def _join_into(tables: Tables, patterns: list[Pattern], target: int) -> list[Pattern]:
    """As many nodes of the target class as smaller ones add up to, largest first."""
    by_class: dict[int, list[Pattern]] = defaultdict(list)
    for pattern in patterns:
        by_class[pattern.class_index].append(pattern)
    smaller = [i for i in by_class if tables.capacity[i, 0] < tables.capacity[target, 0]]
    smaller.sort(key=lambda i: -tables.capacity[i, 0])
    while True:
        parts, left = list[Pattern](), float(tables.capacity[target, 0])
        for i in smaller:
            cores = float(tables.capacity[i, 0])
            times = min(int((left + 1e-9) / cores), len(by_class[i]))
            parts += by_class[i][-times:] if times else []
            left -= times * cores
        counts: Counter[int] = Counter()
        for pattern in parts:
            counts.update(dict(pattern.counts))
        whole = Pattern(target, tuple(sorted(counts.items())))
        if (
            len(parts) < 2
            or tables.cost(parts) < tables.price[target] * (1 - 1e-9)
            or not tables.holds(target, counts)
            or _breaks_wish(tables, whole)
        ):
            return [pattern for members in by_class.values() for pattern in members]
        for pattern in parts:
            by_class[pattern.class_index].pop()
        by_class[target].append(whole)


def _breaks_wish(tables: Tables, pattern: Pattern) -> bool:
    family = tables.class_family[pattern.class_index]
    return any(
        tables.apps[a].sfmpl < 1
        and n > 1
        and n * tables.performance[a, family] > tables.apps[a].sfmpl * tables.workload[a] * (1 + 1e-9)
        for a, n in pattern.counts
    )


def spread(tables: Tables, patterns: list[Pattern]) -> list[Pattern]:
    """Move containers of an app that too much depends on one node for to nodes of the family with room."""
    contents = [dict(p.counts) for p in patterns]
    holders: list[list[int]] = [[] for _ in tables.families]
    for index, p in enumerate(patterns):
        holders[int(tables.class_family[p.class_index])].append(index)
    served = tables.served(patterns)
    for a, app in enumerate(tables.apps):
        if app.sfmpl >= 1:
            continue
        most = [
            max(int(app.sfmpl * served[a] / tables.performance[a, f] + 1e-9), 1) for f in range(len(holders))
        ]
        for index in [i for i, content in enumerate(contents) if content.get(a, 0) > 1]:
            family = int(tables.class_family[patterns[index].class_index])
            others = holders[family] if contents[index][a] > most[family] else []
            for other in others:
                if other == index:
                    continue
                if not _move(tables, patterns, contents, a, index, other, most[family]):
                    break
    return [
        Pattern(p.class_index, tuple(sorted(content.items())))
        for p, content in zip(patterns, contents, strict=True)
    ]


def _move(
    tables: Tables, patterns: list[Pattern], contents: list[dict[int, int]],
    app: int, source: int, target: int, most: int,
) -> bool:  # fmt: skip
    """Move containers while the source has too many and the target takes more; whether it still has."""
    while contents[source][app] > most > contents[target].get(app, 0):
        more = {**contents[target], app: contents[target].get(app, 0) + 1}
        rest = {**contents[source], app: contents[source][app] - 1}
        # 7 can need more memory than 8, so both are asked.
        if not tables.holds(patterns[target].class_index, more):
            break
        if not tables.holds(patterns[source].class_index, rest):
            break
        contents[source], contents[target] = rest, more
    return contents[source][app] > most
