"""The joint choice of sizes and nodes, exactly: an integer program over all node patterns of a small problem.

The oracle of cluster_autoscaler_hook/karpenter/size_choice.py. They share the problem's statement, and the
interface to HiGHS.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from cluster_autoscaler_hook.karpenter.model import Kind, Offer
from cluster_autoscaler_hook.karpenter.size_choice import Demand
from cluster_autoscaler_hook.solver.linear_program import LinearProgram

__all__ = ["TooLarge", "exact_cost"]


class TooLarge(Exception):
    """There are more patterns than the limit."""


def exact_cost(
    fixed: Mapping[Kind, int],
    demands: Sequence[Demand],
    offered: Collection[Offer],
    most_patterns: int = 20_000,
    seconds: float = 30.0,
) -> float:
    """The least price of nodes for the fixed pods and all demands, in any sizes."""
    rows: list[tuple[Kind, int, float]] = [(kind, row, 1.0) for row, kind in enumerate(fixed)]
    for row, demand in enumerate(demands, len(fixed)):
        rows += [(kind, row, float(demand.concurrency[name])) for name, kind in demand.kinds.items()]
    needs = [*(float(n) for n in fixed.values()), *(float(d.need) for d in demands)]
    # No pattern has more of a kind than all that is needed.
    most = [math.ceil(needs[row] / worth) for _, row, worth in rows]
    patterns: dict[tuple[float, ...], float] = {}
    for offer in offered:
        kinds = [kind if kind.allows(offer.labels) else None for kind, _, _ in rows]
        for counts in _full(kinds, most, offer):
            served = [0.0] * len(needs)
            for (_, row, worth), count in zip(rows, counts, strict=True):
                served[row] += worth * count
            key = tuple(min(s, n) for s, n in zip(served, needs, strict=True))
            patterns[key] = min(patterns.get(key, math.inf), offer.price_per_hour)
            if len(patterns) > most_patterns:
                raise TooLarge
    program = LinearProgram(needs, [math.inf] * len(needs))
    for counts_served, price in patterns.items():
        inside = [(row, share) for row, share in enumerate(counts_served) if share]
        program.add(price, [row for row, _ in inside], [share for _, share in inside], integer=True)
    outcome = program.solve(seconds, gap=0.0)
    if outcome.time_limit_reached:
        raise TooLarge
    return outcome.objective


def _full(kinds: Sequence[Kind | None], most: Sequence[int], offer: Offer) -> Iterator[tuple[int, ...]]:
    """All ways to fill a node; of the last kind as many as fit, since more never serve less."""

    def fill(at: int, cpu: int, memory: int, pods: int) -> Iterator[tuple[int, ...]]:
        if at == len(kinds):
            yield ()
            return
        kind = kinds[at]
        here = 0
        if kind is not None:
            here = min(
                most[at],
                pods,
                cpu // kind.cpu_millicores if kind.cpu_millicores else pods,
                memory // kind.memory_bytes if kind.memory_bytes else pods,
                *([1] if kind.exclusive else []),
            )
        for count in range(here if at == len(kinds) - 1 else 0, here + 1):
            used = (count * kind.cpu_millicores, count * kind.memory_bytes) if kind else (0, 0)
            for rest in fill(at + 1, cpu - used[0], memory - used[1], pods - count):
                yield (count, *rest)

    yield from fill(0, offer.cpu_millicores, offer.memory_bytes, offer.pods)
