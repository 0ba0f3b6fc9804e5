"""FCMA's question answered with node patterns: a greedy start, column generation, local search.

Each step only ever replaces the best allocation by a cheaper one, and each has its own limit of work,
so that the same problem gives the same answer; the deadline is looked at between pieces of work.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cluster_autoscaler_hook.best.columns import best_mix, best_whole, dive
from cluster_autoscaler_hook.best.filling import fill_classes
from cluster_autoscaler_hook.best.greedy import cover
from cluster_autoscaler_hook.best.joining import join, spread
from cluster_autoscaler_hook.best.neighbourhood import improve
from cluster_autoscaler_hook.best.relaxation import lower_bound, worth_and_bound
from cluster_autoscaler_hook.best.tables import Pattern, Tables
from cluster_autoscaler_hook.deadline import Deadline
from cluster_autoscaler_hook.model import Allocation, Problem, Solution

__all__ = ["solve"]

# Limits of work, so that a solve ends by itself: in a second or two for most problems.
COLUMN_ROUNDS, EXACT_ROUNDS = (40, 0), (80, 300)  # and knapsacks
DIVE_ROUNDS = 3
SEARCH_ROUNDS, SEARCH_ROUNDS_PER_NODE = 300, 40
BOUND_NODES = 100
WHOLE_NODES = 100
# With more apps the integer programs take more time than they are worth.
FEW_APPS = 30
# What a step may take of the time that is left.
BOUND_SHARE, COLUMNS_SHARE, DIVE_SHARE, WHOLE_SHARE = 0.1, 0.5, 0.5, 0.3


def solve(problem: Problem, deadline: Deadline) -> Solution:
    tables = Tables(problem)
    if not tables.apps:
        return Solution(Allocation(()), 0.0, 0.0, ("No app has a workload: nothing to rent.",))
    worth, bound = worth_and_bound(tables, 60.0)
    search = _Search(tables, deadline, bound)
    random = np.random.default_rng(1)
    search.found("greedy", cover(tables, worth, tables.workload, random))
    if search.goes_on():
        seconds = deadline.part(BOUND_SHARE).left_s()
        search.bound = max(bound, lower_bound(tables, seconds, BOUND_NODES))
    if search.goes_on():
        # Every class at its fullest: what a problem of one or two apps is made of.
        needed = tables.needed(tables.workload)
        filled = fill_classes(tables, worth[:, None] * tables.performance, needed, random)
        search.seen([filled.pattern(int(i)) for i in np.flatnonzero(filled.worth)])
        columns = deadline.part(COLUMNS_SHARE)
        rounds, knapsacks = COLUMN_ROUNDS if len(tables.apps) > FEW_APPS else EXACT_ROUNDS
        mix = best_mix(tables, tables.workload, search.pool(), worth, rounds, columns, knapsacks)
        if mix is not None and search.goes_on():
            diving = deadline.part(DIVE_SHARE)
            search.found("columns", dive(tables, tables.workload, mix, worth, DIVE_ROUNDS, diving))
            search.seen(mix.patterns)
    if search.goes_on():
        search.found("joined", join(tables, search.best))
    if search.goes_on() and len(tables.apps) <= FEW_APPS:
        seconds = deadline.part(WHOLE_SHARE).left_s()
        search.found("whole patterns", best_whole(tables, search.pool(), search.best, seconds, WHOLE_NODES))
    if search.goes_on():
        rounds = min(SEARCH_ROUNDS, SEARCH_ROUNDS_PER_NODE * len(search.best))
        improved = improve(tables, search.best, worth, search.bound, rounds, deadline)
        search.found("local search", improved)
    patterns = spread(tables, join(tables, search.best))
    cost = tables.cost(patterns)
    return Solution(
        tables.allocation(patterns), cost, min(search.bound, cost), tuple(search.steps), deadline.reached()
    )


class _Search:
    """The cheapest solution so far and how it came about."""

    def __init__(self, tables: Tables, deadline: Deadline, bound: float) -> None:
        self._tables, self._deadline, self.bound = tables, deadline, bound
        self.best: list[Pattern] = []
        self.cost = np.inf
        self.steps: list[str] = []
        self._pool: dict[Pattern, None] = {}

    def seen(self, patterns: Iterable[Pattern]) -> None:
        self._pool.update(dict.fromkeys(patterns))

    def found(self, step: str, patterns: list[Pattern] | None) -> None:
        if patterns is None:
            return
        self.seen(patterns)
        cost = self._tables.cost(patterns)
        if cost <= self.cost * (1 + 1e-12):
            self.steps.append(f"{step}: {cost:.5g}, {len(patterns)} nodes")
            self.best, self.cost = patterns, cost

    def goes_on(self) -> bool:
        """Whether there is time, and anything to gain."""
        return not self._deadline.reached() and self.cost > self.bound * (1 + 1e-9)

    def pool(self) -> list[Pattern]:
        return list(self._pool)
