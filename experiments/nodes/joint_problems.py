"""Draws shortages: functions with sizes that need a concurrency, beside pods of given sizes.

What nobody measured is drawn widely: how a size's cpu grows with its concurrency (exponent 0.75 to 1.1: large
containers save up to a quarter each doubling, or lose a little), and its memory (a fixed part and one a
request). The number of functions that are short at once is an axis of the figures.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from random import Random

from cluster_autoscaler_hook.karpenter.model import MIB, Kind
from combofunc.planner.model import Size
from experiments.nodes.mixes import read_trace

__all__ = ["Function", "Shortage", "draw"]

_CONCURRENCY = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Function:
    sizes: tuple[Size, ...]
    need: int

    @property
    def kinds(self) -> dict[str, Kind]:
        return {size.name: Kind(size.cpu_millicores, size.memory_bytes) for size in self.sizes}


@dataclass(frozen=True)
class Shortage:
    functions: tuple[Function, ...]
    others: Counter[Kind]  # pods of the Azure trace's functions, whose size is given


def draw(seed: int, functions: int) -> Shortage:
    random = Random(f"joint-{functions}-{seed}")
    others: Counter[Kind] = Counter()
    for one in random.sample(read_trace(None), functions):
        size = one.size()
        others[Kind(size.cpu_millicores, size.memory_mib * MIB)] += size.count
    return Shortage(tuple(_function(random) for _ in range(functions)), others)


def _function(random: Random) -> Function:
    first = random.randrange(len(_CONCURRENCY) - 1)
    offered = _CONCURRENCY[first : first + random.randint(2, 4)]
    exponent, cpu = random.uniform(0.75, 1.1), random.uniform(100, 800)
    fixed_mib, each_mib = random.uniform(64, 1024), random.uniform(32, 512)
    sizes = tuple(
        Size(
            f"x{q}",
            math.ceil(cpu * q**exponent / 50) * 50,
            math.ceil((fixed_mib + each_mib * q) / 64) * 64 * MIB,
            q,
        )
        for q in offered
    )
    return Function(sizes, random.randint(4, 80))
