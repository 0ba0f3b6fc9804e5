"""Solves FCMA's problem with node patterns: a greedy start, column generation, local search.

A step replaces the best allocation only by a cheaper one. Each step has its own limit of work, so that the
same problem gives the same answer. The deadline is checked between pieces of work.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cluster_autoscaler_hook.solver.best.columns import best_mix, best_whole, dive
from cluster_autoscaler_hook.solver.best.filling import CLOSER_CLASSES, CLOSER_MIXES, MIXES, fill_classes
from cluster_autoscaler_hook.solver.best.greedy import Rounds, cover
from cluster_autoscaler_hook.solver.best.joining import join, spread
from cluster_autoscaler_hook.solver.best.neighbourhood import improve
from cluster_autoscaler_hook.solver.best.packing import pack
from cluster_autoscaler_hook.solver.best.relaxation import lower_bound, worth_and_bound
from cluster_autoscaler_hook.solver.best.tables import Floats, Pattern, Tables
from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import Allocation, Problem, Solution
from cluster_autoscaler_hook.solver.paper import paper

__all__ = ["solve"]

# The first two linear programs take a tenth of a second for 500 apps.
RELAXATION_S = 5.0
# The work for the first answer, in bundles offered to rows of a filling (about 30 ns each); the overhead of a
# round in the same unit; and how often the greedy starts again, with how much noise on the worths.
FIRST_WORK, ROUND_WORK = 5_000_000, 30_000
STARTS, NOISES = 12, (0.1, 0.3, 0.6)
# With so few nodes whole nodes matter most, which the paper's first phase handles best. It takes up to a
# third of a second there, and is stopped after that.
FEW_NODES, PHASES_S = 15, 1.0
# Limits of work, so that most solves end by themselves within two seconds.
COLUMN_ROUNDS, EXACT_ROUNDS = (40, 0), (80, 300)  # and knapsacks
DIVE_ROUNDS = 3
SEARCH_ROUNDS, SEARCH_ROUNDS_PER_NODE = 300, 40
BOUND_NODES = 100
WHOLE_NODES = 100
# With more apps the integer programs take more time than they gain.
FEW_APPS = 30
# The share of the remaining time that a step may take.
BOUND_SHARE, COLUMNS_SHARE, DIVE_SHARE, WHOLE_SHARE = 0.1, 0.5, 0.5, 0.3


def solve(problem: Problem, deadline: Deadline) -> Solution:
    tables = Tables(problem)
    if not tables.apps:
        return Solution(Allocation(()), 0.0, 0.0, ("No app has a workload: nothing to rent.",))
    worth, bound = worth_and_bound(tables, max(deadline.left_s(), RELAXATION_S))
    search = _Search(tables, deadline, bound)
    random = np.random.default_rng(1)
    _first_answer(search, tables, worth, deadline, np.random.default_rng(2))
    if search.goes_on():
        seconds = deadline.part(BOUND_SHARE).left_s()
        search.bound = max(search.bound, lower_bound(tables, seconds, BOUND_NODES))
    if search.goes_on():
        # Every class filled as far as possible: problems of one or two apps consist of these.
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


def _first_answer(
    search: _Search, tables: Tables, worth: Floats, deadline: Deadline, random: np.random.Generator
) -> None:
    """The cheapest of several: packed, greedy, greedy with slightly different worths, and the paper's if
    there are few nodes. A fixed amount of work is done even after the deadline."""
    rows = len(tables.classes) * len(MIXES) + CLOSER_CLASSES * CLOSER_MIXES
    per_family = len(tables.bundles.app) // len(tables.families)
    rounds = Rounds(max(FIRST_WORK // (rows * per_family + ROUND_WORK), 1))
    search.found("packed", pack(tables, tables.workload))
    search.found("greedy", cover(tables, worth, tables.workload, random, deadline, rounds=rounds))
    for start in range(STARTS):
        if not rounds.left or search.at_bound():
            break
        noisy = worth * np.exp(NOISES[start % len(NOISES)] * random.standard_normal(len(worth)))
        dear = search.cost * (1 - 1e-9)
        search.found("greedy again", cover(tables, noisy, tables.workload, random, deadline, dear, rounds))
    if len(search.best) <= FEW_NODES and len(tables.apps) <= FEW_APPS and not search.at_bound():
        phases = paper.solve(tables.problem, Deadline.after(PHASES_S))
        search.found("the paper's phases", tables.patterns(phases.allocation.nodes))
        search.bound = max(search.bound, phases.lower_bound_per_hour)


class _Search:
    """The cheapest solution so far, and the steps that led to it."""

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

    def at_bound(self) -> bool:
        return self.cost <= self.bound * (1 + 1e-9)

    def goes_on(self) -> bool:
        """Whether there is time left, and anything to gain."""
        return not self._deadline.reached() and not self.at_bound()

    def pool(self) -> list[Pattern]:
        return list(self._pool)
