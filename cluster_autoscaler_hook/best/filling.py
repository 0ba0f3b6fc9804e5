"""Which containers to put on one node: a knapsack in cores and memory, for all classes at once.

Bundles (an app's containers of one aggregation level) are taken greedily by worth per resource, where a
resource is a mix of cores and memory. No mix is right for all classes, so each class is filled once per
mix and keeps the best. All (class, mix) rows take their next bundle in the same numpy step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cluster_autoscaler_hook.best.tables import Floats, Ints, Pattern, Tables

__all__ = ["Filled", "even_performance", "fill_classes", "fill_room"]

# Share of cores in the resource a bundle is judged by; the rest is memory, scaled to the class's ratio.
MIXES: Floats = np.array([1.0, 0.7, 0.5, 0.3, 0.0])
# How many of the best classes are filled again in how many random orders, and how far from the order by
# worth these are.
CLOSER_CLASSES = 16
CLOSER_MIXES = 16
NOISE = 0.2
HOPELESS, MANY = 0.7, 200
# Bundles a row is offered between looks at which rows have room.
STEPS = 8


@dataclass(frozen=True)
class Filled:
    """The best filling of each class: how much it is worth, and the containers per app."""

    worth: Floats
    counts: Ints

    def pattern(self, class_index: int) -> Pattern:
        row = self.counts[class_index]
        return Pattern(class_index, tuple((int(a), int(row[a])) for a in np.flatnonzero(row)))


def even_performance(tables: Tables, need: Floats, needed: Ints) -> Floats:
    """Performance of one container per (app, family) that counts. The last container of an app serves less
    than it could; spread over all of them, a family whose containers divide the need well wins."""
    return np.minimum(tables.performance, need[:, None] / np.maximum(needed, 1))


def fill_classes(
    tables: Tables, worths: Floats, needed: Ints, random: np.random.Generator, dearest: float = np.inf
) -> Filled:
    """Fill an empty node of every class up to price `dearest`; `worths`, `needed` per (app, family)."""
    best = Filled(np.zeros(len(tables.classes)), np.zeros((len(tables.classes), len(tables.apps)), np.int64))
    limit = np.minimum(needed, tables.per_node)
    bundles = tables.bundles
    # Families where an app is worth far less for its room than elsewhere are left to others.
    gain = worths / tables.least_cost
    hopeless = HOPELESS if len(bundles.app) > MANY else 0.0
    welcome = (worths > 0) & (gain >= hopeless * gain.max(axis=1, keepdims=True))
    wanted = (bundles.level <= limit[bundles.app, bundles.family]) & welcome[bundles.app, bundles.family]
    members = np.flatnonzero(tables.price <= dearest)
    if not wanted.any() or not len(members):
        return best
    _keep_best(best, *_fill(tables, wanted, worths, limit, members, MIXES, None))
    # The classes that look best are looked at more closely, in orders that are a little off.
    closer = members[np.argsort(-best.worth[members] / tables.price[members], kind="stable")[:CLOSER_CLASSES]]
    mixes = random.random(CLOSER_MIXES)
    _keep_best(best, *_fill(tables, wanted, worths, limit, np.sort(closer), mixes, random))
    return best


def _keep_best(best: Filled, classes: Ints, counts: Ints, worth: Floats) -> None:
    order = np.lexsort((worth, classes))
    last = np.flatnonzero(np.diff(classes[order], append=-1))
    rows = order[last]
    rows = rows[worth[rows] > best.worth[classes[rows]]]
    best.worth[classes[rows]], best.counts[classes[rows]] = worth[rows], counts[rows]


def _fill(
    tables: Tables, wanted: NDArray[np.bool_], worths: Floats, limit: Ints, members: Ints,
    mixes: Floats, random: np.random.Generator | None,
) -> tuple[Ints, Ints, Floats]:  # fmt: skip
    """Every member with every mix: its class, its containers per app, what they are worth."""
    orders, classes = _orders(tables, wanted, worths, members, mixes, random)
    counts, worth = _take_in_order(tables, orders, classes, worths, limit)
    return classes, counts, worth


def _orders(
    tables: Tables, wanted: NDArray[np.bool_], worths: Floats, members: Ints,
    mixes: Floats, random: np.random.Generator | None,
) -> tuple[Ints, Ints]:  # fmt: skip
    """In which order each row takes bundles: by worth per resource. Returns the orders (rows of bundle
    indices, -1 at the end) and the class of each row."""
    bundles = tables.bundles
    rows, classes = [], []
    per_family = [np.flatnonzero(wanted & (bundles.family == f)) for f in range(len(tables.families))]
    width = max(map(len, per_family))
    for f, index in enumerate(per_family):
        own = members[tables.class_family[members] == f]
        if not len(index) or not len(own):
            continue
        worth = worths[bundles.app[index], f] * bundles.level[index]
        if random is not None:
            worth = worth * np.exp(NOISE * random.standard_normal((len(mixes), len(index))))
        ratio = tables.capacity[own, 1] / tables.capacity[own, 0]
        ratios, ratio_of = np.unique(np.round(ratio, 6), return_inverse=True)
        memory = bundles.memory[index] / ratios[:, None]
        judged = mixes[:, None] * bundles.cores[index] + (1 - mixes)[:, None] * memory[:, None, :]
        # The sort is stable and bundles come larger level first: of two equally good the larger is taken.
        order = np.argsort(-worth / np.maximum(judged, 1e-12), axis=2, kind="stable")
        padded = np.full((len(ratios), len(mixes), width), -1, dtype=np.int64)
        padded[:, :, : len(index)] = index[order]
        rows.append(padded[ratio_of].reshape(-1, width))
        classes.append(np.repeat(own, len(mixes)))
    if not rows:
        return np.zeros((0, width), dtype=np.int64), np.zeros(0, dtype=np.int64)
    return np.concatenate(rows), np.concatenate(classes)


def _take_in_order(
    tables: Tables, orders: Ints, members: Ints, worths: Floats, limit: Ints
) -> tuple[Ints, Floats]:
    bundles = tables.bundles
    family = tables.class_family[members]
    full = limit.T[family].astype(float)
    left = full.ravel().copy()
    rows = np.arange(len(members))  # those that still have room
    cores, memory, slots = (tables.room[members, column].copy() for column in range(3))
    # At the end stands what bundle -1 is: nothing, of which none fits.
    item_cores, item_memory, level, app = (
        np.append(column, last)
        for column, last in zip(
            (np.maximum(bundles.cores, 1e-12), np.maximum(bundles.memory, 1e-12), bundles.level, bundles.app),
            (1e300, 1e300, 1, 0), strict=True,
        )
    )  # fmt: skip
    least_cores, least_memory = bundles.cores.min(), bundles.memory.min()
    for start in range(0, orders.shape[1], STEPS):
        block = orders[rows, start : start + STEPS].T
        where = rows * full.shape[1] + app[block]
        for c, m, n, at in zip(item_cores[block], item_memory[block], level[block], where, strict=True):
            has = left[at]
            take = np.floor(np.minimum(np.minimum(cores / c, memory / m), np.minimum(slots, has / n)))
            cores -= take * c
            memory -= take * m
            slots -= take
            left[at] = has - take * n
        open_rows = (cores >= least_cores) & (memory >= least_memory) & (slots >= 1) & (block[-1] >= 0)
        if not open_rows.all():
            rows, cores, memory, slots = (v[open_rows] for v in (rows, cores, memory, slots))
            if not len(rows):
                break
    counts = full - left.reshape(full.shape)
    return counts.astype(np.int64), (counts * worths.T[family]).sum(axis=1)


def fill_room(
    tables: Tables, class_index: int, counts: dict[int, int], worths: Floats, needed: Ints
) -> dict[int, int]:
    """More containers for a node that has some, as `needed` (per app and family) allows; the additions.

    What an app has and gets is aggregated together, so each step asks for the memory of the whole."""
    family = int(tables.class_family[class_index])
    content, added = dict(counts), dict[int, int]()
    cores, memory, running = tables.used(family, content)
    room = tables.room[class_index]
    candidates = np.flatnonzero((needed[:, family] > 0) & (worths[:, family] > 0))
    if not len(candidates):
        return added
    ratio = room[1] / room[0]
    cost = tables.cores[candidates, family] + tables.memory_per_container[candidates, family] / ratio
    for a in candidates[np.argsort(-worths[candidates, family] / np.maximum(cost, 1e-12), kind="stable")]:
        container = tables.containers[int(a), family]
        present = content.get(int(a), 0)
        limit = min(int(needed[a, family]), int(tables.per_node[a, family]) - present)
        if container.cores > 0:
            limit = min(limit, int((room[0] - cores) / container.cores))
        before = container.memory_of(present)
        # From the most that the cores allow downwards: memory is not monotone, so the first that fits.
        for count in range(max(limit, 0), max(limit - 16, 0), -1):
            more = container.memory_of(present + count) - before
            slots = _containers(container.levels, present + count) - _containers(container.levels, present)
            if memory + more <= room[1] and running + slots <= room[2]:
                content[int(a)] = present + count
                added[int(a)] = count
                cores += count * container.cores
                memory += more
                running += slots
                break
    return added


def _containers(levels: tuple[int, ...], count: int) -> int:
    running = 0
    for level in reversed(levels):
        of_level, count = divmod(count, level)
        running += of_level
    return running
