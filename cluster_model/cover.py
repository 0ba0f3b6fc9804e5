"""The cheapest set of sizes that reaches a concurrency, if a container costs the same wherever it goes. Pure.

An unbounded covering knapsack: minimise sum_p c_p n_p such that sum_p Q_p n_p >= Q'.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

__all__ = ["cheapest_cover"]

# Above this need the table counts in larger units, rounded so that the need is still reached. It bounds the
# work to 64 sizes times as many steps: less than 0.1 s.
_MOST_STEPS = 4096


def cheapest_cover(sizes: Mapping[str, tuple[int, float]], need: int) -> Counter[str]:
    """How many of each size. `sizes`: (concurrency, cost) by name. Exact for a need of up to 4096."""
    unit = max(math.ceil(need / _MOST_STEPS), 1)
    bundles = []
    for name, (concurrency, cost) in sorted(sizes.items(), key=lambda item: (item[1][0], item[0])):
        together = math.ceil(unit / concurrency)  # as many as make up a unit
        bundles.append((together * concurrency // unit, together * cost, name, together))
    best, last = [0.0], list[int]()
    for step in range(1, math.ceil(need / unit) + 1):
        options = [best[max(step - units, 0)] + cost for units, cost, _, _ in bundles]
        last.append(min(range(len(options)), key=options.__getitem__))
        best.append(options[last[-1]])
    chosen: Counter[str] = Counter()
    step = len(last)
    while step > 0:
        units, _, name, together = bundles[last[step - 1]]
        chosen[name] += together
        step -= units
    return chosen
