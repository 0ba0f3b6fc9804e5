"""Fills one node of every class at once: a knapsack in cores and memory.

Bundles (containers of one aggregation level) are taken greedily by worth per resource. A resource is a mix of
cores and memory. No mix suits all classes, so each class is filled once per mix and keeps the best filling.
All (class, mix) rows take their next bundle in the same numpy step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_autoscaler_hook.solver.best.tables import Bundles, Floats, Ints, Pattern, Tables

__all__ = ["Filled", "even_performance", "fill_classes", "fill_room"]

# The share of cores in the resource; the rest is memory, scaled to the class's ratio.
MIXES: Floats = np.array([1.0, 0.7, 0.5, 0.3, 0.0])
# How many of the best classes are filled again, in how many random orders, and how much these deviate from
# the order by worth.
CLOSER_CLASSES = 16
CLOSER_MIXES = 16
NOISE = 0.2
# With many bundles, an app is not put where it is worth less than this share of its best worth for its room.
HOPELESS, MANY = 0.7, 200
# Bundles offered to a row before rows without room are removed.
STEPS = 8
# How many counts of an app are tried for a node with room, above the need and below it.
TRIED = 16


@dataclass(frozen=True)
class Filled:
    """The best filling of each class: its worth, and the containers per app. There can be more containers
    than needed where that saves memory; the surplus is worth nothing."""

    tables: Tables
    limit: Ints  # per (app, family)
    worth: Floats
    counts: Ints

    def pattern(self, class_index: int) -> Pattern:
        row = self.counts[class_index]
        counts = {int(a): int(row[a]) for a in np.flatnonzero(row)}
        return self.tables.pattern(class_index, counts, self.limit)

    def useful(self) -> Ints:
        """The containers per class and app, without the surplus."""
        return np.minimum(self.counts, self.limit.T[self.tables.class_family])


def even_performance(tables: Tables, need: Floats, needed: Ints) -> Floats:
    """The effective performance of one container per (app, family). The last container of an app serves less
    than it could; this loss is spread over all, so a family whose containers divide the need well wins."""
    return np.minimum(tables.performance, need[:, None] / np.maximum(needed, 1))


def fill_classes(
    tables: Tables, worths: Floats, needed: Ints, random: np.random.Generator, max_price: float = np.inf
) -> Filled:
    """Fill an empty node of every class up to price `max_price`; `worths`, `needed` per (app, family)."""
    limit = np.minimum(needed, tables.per_node)
    empty = np.zeros((len(tables.classes), len(tables.apps)), np.int64)
    best = Filled(tables, limit, np.zeros(len(tables.classes)), empty)
    # Skip families where an app is worth far less for its room than elsewhere.
    gain = worths / tables.least_cost
    hopeless = HOPELESS if len(tables.bundles.app) > MANY else 0.0
    welcome = (worths > 0) & (gain >= hopeless * gain.max(axis=1, keepdims=True))
    offer = _offer(tables, worths, limit, welcome)
    members = np.flatnonzero(tables.price <= max_price)
    if not len(offer.served) or not len(members):
        return best
    _keep_best(best, *_fill(offer, members, MIXES, None))
    # Fill the best classes again, in slightly different orders.
    closer = members[np.argsort(-best.worth[members] / tables.price[members], kind="stable")[:CLOSER_CLASSES]]
    mixes = random.random(CLOSER_MIXES)
    _keep_best(best, *_fill(offer, np.sort(closer), mixes, random))
    return best


@dataclass(frozen=True)
class _Offer:
    """The bundles that a node may take, larger levels first: how many needed containers each counts for, and
    how often it may be taken. A bundle with surplus counts for fewer than it has, and is taken once."""

    tables: Tables
    worths: Floats  # of one container per (app, family)
    limit: Ints  # per (app, family)
    bundles: Bundles
    served: Floats
    times: Floats

    @cached_property
    def by_family(self) -> list[Ints]:
        return [np.flatnonzero(self.bundles.family == f) for f in range(self.limit.shape[1])]

    @cached_property
    def items(self) -> _Items:
        bundles, served = self.bundles, self.served
        return _Items(
            _ending(np.maximum(bundles.cores, 1e-12), 1e300),
            _ending(np.maximum(bundles.memory, 1e-12), 1e300),
            _ending(served, 1), _ending(self.times, 1), _ending(bundles.level - served, 0),
            _ending(bundles.app, 0),
        )  # fmt: skip

    @cached_property
    def has_surplus(self) -> bool:
        return bool(np.isfinite(self.times).any())


class _Items(NamedTuple):
    """The bundles as columns. The last entry is bundle -1: nothing, which never fits."""

    cores: Floats
    memory: Floats
    serves: Floats
    times: Floats
    over: Floats
    app: Ints


def _ending(column: NDArray[Any], last: float) -> NDArray[Any]:
    ended = np.empty(len(column) + 1, column.dtype)
    ended[:-1], ended[-1] = column, last
    return ended


def _offer(tables: Tables, worths: Floats, limit: Ints, welcome: NDArray[np.bool_]) -> _Offer:
    all_of_it = tables.bundles
    wanted = (all_of_it.level <= limit[all_of_it.app, all_of_it.family]) & welcome[
        all_of_it.app, all_of_it.family
    ]
    bundles = all_of_it[wanted]
    surplus = [
        (a, f, level, level * tables.cores[a, f], memory, served)
        for a, f in tables.aggregating
        if limit[a, f] > 1 and welcome[a, f]
        for level, memory, served in tables.surplus(a, f, int(limit[a, f]))
    ]
    served = bundles.level.astype(float)
    if not surplus:
        return _Offer(tables, worths, limit, bundles, served, np.full(len(served), np.inf))
    app, family, level, cores, memory, serves = (np.array(column) for column in zip(*surplus, strict=True))
    order = np.argsort(-np.append(bundles.level, level), kind="stable")
    joined = Bundles(
        np.append(bundles.app, app), np.append(bundles.family, family), np.append(bundles.level, level),
        np.append(bundles.cores, cores), np.append(bundles.memory, memory),
    )  # fmt: skip
    times = np.append(np.full(len(served), np.inf), np.ones(len(serves)))
    return _Offer(tables, worths, limit, joined[order], np.append(served, serves)[order], times[order])


def _keep_best(best: Filled, classes: Ints, counts: Ints, worth: Floats) -> None:
    order = np.lexsort((worth, classes))
    in_order = classes[order]
    last = np.ones(len(order), dtype=bool)  # of its class
    np.not_equal(in_order[1:], in_order[:-1], out=last[:-1])
    rows = order[last]
    rows = rows[worth[rows] > best.worth[classes[rows]]]
    best.worth[classes[rows]], best.counts[classes[rows]] = worth[rows], counts[rows]


def _fill(
    offer: _Offer, members: Ints, mixes: Floats, random: np.random.Generator | None
) -> tuple[Ints, Ints, Floats]:
    """Fill every member with every mix: its class, its containers per app, their worth."""
    orders, classes = _orders(offer, members, mixes, random)
    counts, worth = _take_in_order(offer, orders, classes)
    return classes, counts, worth


def _orders(
    offer: _Offer, members: Ints, mixes: Floats, random: np.random.Generator | None
) -> tuple[Ints, Ints]:
    """The order in which each row takes bundles: by worth per resource. Return the orders (rows of bundle
    indices, -1 at the end) and the class of each row."""
    tables, bundles = offer.tables, offer.bundles
    rows, classes = [], []
    width = max(map(len, offer.by_family))
    for f, index in enumerate(offer.by_family):
        own = members[tables.class_family[members] == f]
        if not len(index) or not len(own):
            continue
        worth = offer.worths[bundles.app[index], f] * offer.served[index]
        if random is not None:
            worth = worth * np.exp(NOISE * random.standard_normal((len(mixes), len(index))))
        own_ratios = tables.gib_per_core[own].tolist()
        ratios = {ratio: row for row, ratio in enumerate(sorted(set(own_ratios)))}
        memory = bundles.memory[index] / np.array(list(ratios))[:, None]
        judged = mixes[:, None] * bundles.cores[index] + (1 - mixes)[:, None] * memory[:, None, :]
        # The sort is stable and larger levels come first: of two equal bundles the larger is taken.
        order = np.argsort(-worth / np.maximum(judged, 1e-12), axis=2, kind="stable")
        padded = np.full((len(ratios), len(mixes), width), -1, dtype=np.int64)
        padded[:, :, : len(index)] = index[order]
        rows.append(padded[[ratios[ratio] for ratio in own_ratios]].reshape(-1, width))
        classes.append(np.repeat(own, len(mixes)))
    if not rows:
        return np.zeros((0, width), dtype=np.int64), np.zeros(0, dtype=np.int64)
    return np.concatenate(rows), np.concatenate(classes)


def _take_in_order(offer: _Offer, orders: Ints, members: Ints) -> tuple[Ints, Floats]:
    tables, bundles = offer.tables, offer.bundles
    family = tables.class_family[members]
    full = offer.limit.T[family].astype(float)
    left = full.ravel().copy()
    surplus = np.zeros(len(left)) if offer.has_surplus else None
    rows = np.arange(len(members))  # rows that still have room
    cores, memory, slots = (tables.room[members, column].copy() for column in range(3))
    items = offer.items
    least_cores, least_memory = bundles.cores.min(), bundles.memory.min()
    for start in range(0, orders.shape[1], STEPS):
        block = orders[rows, start : start + STEPS].T
        where = rows * full.shape[1] + items.app[block]
        for c, m, n, bundle, at in zip(
            items.cores[block], items.memory[block], items.serves[block], block, where, strict=True
        ):
            has = left[at]
            take = np.floor(np.minimum(np.minimum(cores / c, memory / m), np.minimum(slots, has / n)))
            if surplus is not None:
                take = np.minimum(take, items.times[bundle])
                surplus[at] += take * items.over[bundle]
            cores -= take * c
            memory -= take * m
            slots -= take
            left[at] = has - take * n
        open_rows = (cores >= least_cores) & (memory >= least_memory) & (slots >= 1) & (block[-1] >= 0)
        if not open_rows.all():
            rows, cores, memory, slots = (v[open_rows] for v in (rows, cores, memory, slots))
            if not len(rows):
                break
    served = full - left.reshape(full.shape)
    counts = served if surplus is None else served + surplus.reshape(full.shape)
    return counts.astype(np.int64), (served * offer.worths.T[family]).sum(axis=1)


def fill_room(
    tables: Tables, class_index: int, counts: dict[int, int], worths: Floats, needed: Ints
) -> dict[int, int]:
    """Add containers to a node that has some, up to `needed` (per app and family); return the additions.

    Old and new containers of an app are aggregated together, so each step computes the memory of all."""
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
        needs, present = container.aggregation, content.get(int(a), 0)
        limit = int(tables.per_node[a, family]) - present
        if container.cores > 0:
            limit = int(min(limit, (room[0] - cores) / container.cores))
        before, ran = needs.memory_of(present), needs.running(present)
        for count in _counts(int(needed[a, family]), limit, container.levels[-1]):
            more = needs.memory_of(present + count) - before
            slots = needs.running(present + count) - ran
            if memory + more <= room[1] and running + slots <= room[2]:
                content[int(a)] = present + count
                added[int(a)] = count
                cores += count * container.cores
                memory += more
                running += slots
                break
    return added


def _counts(needed: int, limit: int, level: int) -> Iterator[int]:
    """The counts to try, best first: the need, a few more (which can take less memory), then fewer."""
    yield from range(needed, min(limit, needed + min(level, TRIED) - 1) + 1)
    fewer = min(needed - 1, limit)
    yield from range(fewer, max(fewer - TRIED, 0), -1)
