"""Phase 2: joins small nodes into few large ones with the same cores, memory and price (eqs 5-8)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import TOLERANCE, InstanceClass, Problem
from cluster_autoscaler_hook.solver.paper.integer_program import AtLeast, minimise

__all__ = ["AggregationSet", "aggregate_nodes", "aggregation_sets"]

# Cores that are not multiples of each other can have thousands of sums. The first of them are enough to join
# nodes, and phase 3 does not depend on it.
_MAX_SETS_PER_CLASS = 200


@dataclass(frozen=True, slots=True)
class AggregationSet:
    """v_j,k: `multipliers[i]` nodes of the i-th class become one node of the `target`-th."""

    target: int
    multipliers: tuple[int, ...]  # for the classes smaller than the target

    def change(self, i: int) -> int:
        """The change in the number of nodes of the i-th class when the set is applied once (eq. 5)."""
        if i < self.target:
            return -self.multipliers[i]
        return int(i == self.target)


def aggregation_sets(cores: Sequence[float]) -> list[AggregationSet]:
    """All sums of smaller classes that equal a class; `cores` ascend ('Aggregation sets', fig. 6)."""
    return [
        AggregationSet(target, multipliers)
        for target in range(1, len(cores))
        for multipliers in _sums(cores[:target], cores[target])
    ]


def aggregate_nodes(problem: Problem, nodes: Mapping[str, int], deadline: Deadline) -> dict[str, int]:
    """The smallest number of nodes with the same cores, memory and price, by class; no number is 0."""
    after: dict[str, int] = {}
    for group in _groups(problem):
        before = [nodes.get(c.name, 0) for c in group]
        for c, count in zip(group, _fewest(group, before, deadline), strict=True):
            if count:
                after[c.name] = count
    return after


def _groups(problem: Problem) -> list[list[InstanceClass]]:
    """The classes of a family with equal memory and price per core, sorted by cores."""
    groups: dict[tuple[str, float, float], list[InstanceClass]] = {}
    for c in problem.classes:
        key = (c.family, _nine_digits(c.memory_gib / c.cores), _nine_digits(c.price_per_hour / c.cores))
        groups.setdefault(key, []).append(c)
    return [sorted(group, key=lambda c: (c.cores, c.name)) for group in groups.values()]


def _nine_digits(value: float) -> float:
    return float(f"{value:.8e}")


def _fewest(group: Sequence[InstanceClass], before: list[int], deadline: Deadline) -> list[int]:
    if sum(before) < 2:
        return before
    sets = aggregation_sets([c.cores for c in group])
    costs = [1.0 - sum(s.multipliers) for s in sets]  # eq. 7
    constraints = []
    for i, count in enumerate(before):  # eq. 8: X'_i of eq. 5 is at least 0
        row = {j: float(s.change(i)) for j, s in enumerate(sets) if s.change(i)}
        constraints.append(AtLeast(row, -float(count)))
    outcome = minimise(costs, [math.inf] * len(sets), constraints, time_limit_s=deadline.left_s())
    if outcome.values is None:
        return before
    return [
        count + sum(n * s.change(i) for n, s in zip(outcome.values, sets, strict=True))
        for i, count in enumerate(before)
    ]


def _sums(smaller: Sequence[float], total: float) -> list[tuple[int, ...]]:
    """All multipliers v with v * smaller = total, by brute force within their limits."""
    limits = [_limit(smaller, i, total) for i in range(len(smaller))]
    # The largest sum of the classes up to i: branches that cannot reach the total are pruned.
    reach = [0.0]
    for size, limit in zip(smaller, limits, strict=True):
        reach.append(reach[-1] + size * limit)
    found: list[tuple[int, ...]] = []
    room = total * TOLERANCE

    def extend(i: int, left: float, chosen: tuple[int, ...]) -> None:
        if len(found) >= _MAX_SETS_PER_CLASS or left > reach[i] + room:
            return
        if i == 0:
            found.append(chosen)
            return
        for v in range(min(limits[i - 1], math.floor((left + room) / smaller[i - 1])), -1, -1):
            extend(i - 1, left - v * smaller[i - 1], (v, *chosen))

    extend(len(smaller), total, ())
    return [v for v in found if sum(v) > 1]


def _limit(smaller: Sequence[float], i: int, total: float) -> int:
    """m - 1, if the next larger participant that is a multiple of the class has m times its size: m nodes are
    joined into that one first."""
    ratios = [size / smaller[i] for size in smaller[i + 1 :]]
    multiples = [round(r) for r in ratios if round(r) > 1 and math.isclose(r, round(r), rel_tol=TOLERANCE)]
    return min(multiples) - 1 if multiples else math.floor(total / smaller[i] * (1 + TOLERANCE))
