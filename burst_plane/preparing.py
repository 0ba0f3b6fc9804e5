"""How many instances to have ready, and on which nodes. Pure.

The pool is sized from the excess traffic itself. A node needs `refill` seconds to make a container again, so
of n starts within that time a pool of k serves min(n, k) from prepared ones. Over the bursts of the last hour
the smallest k that serves `hit_share` of all starts is chosen; a paper's Poisson model with the same mean
would be far too small for traffic that comes in bursts.

A function is prepared on several nodes, so that one node's loss or lack of room does not matter, and bursts
spread; on few, because each holds its image and containers. Which ones is decided by rendezvous hashing: when
a node comes or goes, only the functions that were there move.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burst_plane.model import Function, InstanceSpec, Preparation
from burst_plane.wire.messages import LARGEST_BYTES

__all__ = ["Bursts", "Pool", "Sizing", "Wanted", "pool_size", "prepare"]

_SLOT_S = 60.0
_HOUR_S = 3600.0
_MOST_BYTES = LARGEST_BYTES - (64 << 10)  # of the specs in one message
_MORE_BYTES = 512  # of a preparation beside its spec
# `surgekit bench pulsenet --starts`: 45 ms with the image alone, 7 ms from a created container.
_SAVED_S = 0.038
_LEAST_GAIN = 0.05  # of a request's time, for which a container is worth its memory


@dataclass(frozen=True, slots=True)
class Sizing:
    hit_share: float = 0.95  # of starts that should find a prepared instance
    refill_s: float = 2.0  # to make containers for those that were used
    least: int = 1  # for a function without excess traffic
    most: int = 64
    least_nodes: int = 8
    a_node: int = 4  # of one function, before another node is used
    frozen_starts: int = 60  # in ten minutes; from then on one instance on each node is kept frozen


@dataclass(frozen=True, slots=True)
class Pool:
    created: int
    frozen_a_node: int = 0


class Bursts:
    """How many starts came together, over the last hour, in bounded memory."""

    def __init__(self, refill_s: float = 2.0) -> None:
        self._refill_s = refill_s
        self._slots: deque[tuple[int, Counter[int]]] = deque()  # minute, starts of a burst: how often
        self._began_s, self._count = -math.inf, 0

    def note(self, starts: int, now_s: float) -> None:
        if starts <= 0:
            return
        if now_s - self._began_s >= self._refill_s:
            self._began_s, self._count = now_s, 0
        slot = self._slot(now_s)
        if self._count:
            slot[self._count] -= 1
        self._count += starts
        slot[self._count] += 1

    def sizes(self, now_s: float) -> Mapping[int, int]:
        """Starts of a burst: how many such bursts."""
        oldest = math.floor((now_s - _HOUR_S) / _SLOT_S)
        while self._slots and self._slots[0][0] < oldest:
            self._slots.popleft()
        total: Counter[int] = Counter()
        for _, slot in self._slots:
            total.update(slot)
        return +total

    def starts(self, now_s: float, within_s: float) -> int:
        oldest = math.floor((now_s - within_s) / _SLOT_S)
        return max(sum(n * of for minute, s in self._slots if minute >= oldest for n, of in s.items()), 0)

    def _slot(self, now_s: float) -> Counter[int]:
        minute = math.floor(now_s / _SLOT_S)
        if not self._slots or self._slots[-1][0] < minute:
            self._slots.append((minute, Counter()))
            self._count, self._began_s = 0, now_s  # a burst belongs to one minute
        return self._slots[-1][1]


def pool_size(sizes: Mapping[int, int], sizing: Sizing) -> int:
    """The smallest pool that serves `hit_share` of the starts, within bounds."""
    starts = sum(n * bursts for n, bursts in sizes.items())
    if not starts:
        return sizing.least
    for k in range(1, sizing.most):
        if sum(min(n, k) * bursts for n, bursts in sizes.items()) >= sizing.hit_share * starts:
            return max(k, sizing.least)
    return sizing.most


def pool(bursts: Bursts, sizing: Sizing, now_s: float, run_s: float = 0.0) -> Pool:
    """`run_s`: how long a request runs in the mean; 0: not known. Where it runs for long, a prepared
    container would hardly shorten it, unless starts are frequent."""
    often = bursts.starts(now_s, 600.0) >= sizing.frozen_starts
    if not often and run_s > _SAVED_S / _LEAST_GAIN:
        return Pool(0)
    return Pool(pool_size(bursts.sizes(now_s), sizing), 1 if often else 0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A function that may overflow."""

    function: Function
    spec: InstanceSpec
    pool: Pool
    size: int = 0  # bytes of its spec in a message


def prepare(
    wanted: Sequence[Wanted], nodes: Sequence[str], sizing: Sizing
) -> dict[str, tuple[Preparation, ...]]:
    """What each node should be ready for. Every node is in it: what is not listed is given up."""
    result: dict[str, list[Preparation]] = {node: [] for node in nodes}
    sizes = {one.function: one.size + _MORE_BYTES for one in wanted}
    for one in sorted(wanted, key=lambda w: w.function):
        count = min(max(sizing.least_nodes, math.ceil(one.pool.created / sizing.a_node)), len(result))
        chosen = sorted(result, key=lambda node: _rank(one.function, node))[:count]
        for i, node in enumerate(chosen):
            total = one.pool.created // count + (i < one.pool.created % count)
            frozen = min(one.pool.frozen_a_node, total)
            result[node].append(
                Preparation(function=one.function, spec=one.spec, created=total - frozen, frozen=frozen)
            )
    return {node: _fitting(of, sizes) for node, of in result.items()}


def _fitting(of: list[Preparation], sizes: Mapping[Function, int]) -> tuple[Preparation, ...]:
    """Those that one message can hold. Each namespace gets as many bytes as the others, its smallest
    functions first: large environments of one do not keep a node from being told of all others."""
    if sum(sizes[each.function] for each in of) <= _MOST_BYTES:
        return tuple(of)
    so_far: Counter[str] = Counter()
    turns: list[tuple[int, Function]] = []
    for each in sorted(of, key=lambda p: (sizes[p.function], p.function)):
        so_far[each.function.namespace] += sizes[each.function]
        turns.append((so_far[each.function.namespace], each.function))
    kept, left = set(), _MOST_BYTES
    for _, function in sorted(turns):
        if sizes[function] <= left:
            kept.add(function)
            left -= sizes[function]
    return tuple(each for each in of if each.function in kept)


@functools.lru_cache(1 << 16)
def _rank(function: Function, node: str) -> bytes:
    return hashlib.sha256(f"{function.namespace}/{function.name}/{node}".encode()).digest()
