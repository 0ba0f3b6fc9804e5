"""Solves FCMA's problem with node patterns: a greedy start, column generation, local search.

A step replaces the best allocation only by a cheaper one. Each step has its own limit of work, so that the
same problem gives the same answer. It also has a limit of time, which it reaches only on a slow machine or
with a large problem; then the answer depends on the clock, and the solution says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from cluster_autoscaler_hook.solver.best.columns import best_mix, best_whole, dive
from cluster_autoscaler_hook.solver.best.filling import CLOSER_CLASSES, CLOSER_MIXES, MIXES, fill_classes
from cluster_autoscaler_hook.solver.best.greedy import Rounds, cover
from cluster_autoscaler_hook.solver.best.joining import join, spread
from cluster_autoscaler_hook.solver.best.neighbourhood import improve
from cluster_autoscaler_hook.solver.best.packing import pack
from cluster_autoscaler_hook.solver.best.relaxation import lower_bound, worth_and_bound
from cluster_autoscaler_hook.solver.best.rent_task import RentTask
from cluster_autoscaler_hook.solver.best.tables import Pattern, Tables
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
    search, task = _Search(tables, deadline, bound), RentTask(tables, tables.workload, worth, deadline)
    random = np.random.default_rng(1)
    _first_answer(search, task, np.random.default_rng(2))
    if search.should_continue():
        with search.part(BOUND_SHARE) as part:
            search.bound = max(search.bound, lower_bound(tables, part.left_s(), BOUND_NODES))
    if search.should_continue():
        # Every class filled as far as possible: problems of one or two apps consist of these.
        needed = tables.needed(tables.workload)
        filled = fill_classes(tables, worth[:, None] * tables.performance, needed, random)
        search.seen([filled.pattern(int(i)) for i in np.flatnonzero(filled.worth)])
        rounds, knapsacks = COLUMN_ROUNDS if len(tables.apps) > FEW_APPS else EXACT_ROUNDS
        with search.part(COLUMNS_SHARE) as part:
            mix = best_mix(replace(task, deadline=part), search.pool(), rounds, knapsacks)
        if mix is not None and search.should_continue():
            with search.part(DIVE_SHARE) as part:
                search.found("columns", dive(replace(task, deadline=part), mix, DIVE_ROUNDS))
            search.seen(mix.patterns)
    if search.should_continue():
        search.found("joined", join(tables, search.best))
    if search.should_continue() and len(tables.apps) <= FEW_APPS:
        with search.part(WHOLE_SHARE) as part:
            whole = best_whole(tables, search.pool(), search.best, part.left_s(), WHOLE_NODES)
        search.found("whole patterns", whole)
    if search.should_continue():
        rounds = min(SEARCH_ROUNDS, SEARCH_ROUNDS_PER_NODE * len(search.best))
        search.found("local search", improve(task, search.best, search.bound, rounds))
    patterns = spread(tables, join(tables, search.best))
    cost = tables.cost(patterns)
    time_ran_out = search.time_ran_out or deadline.reached()
    return Solution(
        tables.allocation(patterns), cost, min(search.bound, cost), tuple(search.steps), time_ran_out
    )


def _first_answer(search: _Search, task: RentTask, random: np.random.Generator) -> None:
    """The cheapest of several: packed, greedy, greedy with slightly different worths, and the paper's if
    there are few nodes. A fixed amount of work is done even after the deadline."""
    tables, worth = task.tables, task.worth
    rows = len(tables.classes) * len(MIXES) + CLOSER_CLASSES * CLOSER_MIXES
    per_family = len(tables.bundles.app) // len(tables.families)
    rounds = Rounds(max(FIRST_WORK // (rows * per_family + ROUND_WORK), 1))
    search.found("packed", pack(tables, tables.workload))
    search.found("greedy", cover(task, random, rounds=rounds))
    for start in range(STARTS):
        if not rounds.left or search.at_bound():
            break
        noisy = worth * np.exp(NOISES[start % len(NOISES)] * random.standard_normal(len(worth)))
        cost_limit = search.cost * (1 - 1e-9)
        search.found("greedy again", cover(replace(task, worth=noisy), random, cost_limit, rounds))
    if len(search.best) <= FEW_NODES and len(tables.apps) <= FEW_APPS and not search.at_bound():
        phases = paper.solve(tables.problem, Deadline.after(PHASES_S))
        search.time_ran_out |= phases.deadline_reached
        search.found("the paper's phases", tables.patterns(phases.allocation.nodes))
        search.bound = max(search.bound, phases.lower_bound_per_hour)


class _Search:
    """The cheapest solution so far, and the steps that led to it."""

    def __init__(self, tables: Tables, deadline: Deadline, bound: float) -> None:
        self._tables, self._deadline, self.bound = tables, deadline, bound
        self.best: list[Pattern] = []
        self.cost = np.inf
        self.steps: list[str] = []
        self.time_ran_out = False  # whether a step reached its limit of time
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

    def should_continue(self) -> bool:
        """Whether there is time left, and anything to gain."""
        return not self._deadline.reached() and not self.at_bound()

    @contextmanager
    def part(self, share: float) -> Iterator[Deadline]:
        """The deadline of one step: after this share of the time left."""
        part = self._deadline.part(share)
        yield part
        self.time_ran_out |= part.reached()

    def pool(self) -> list[Pattern]:
        return list(self._pool)
