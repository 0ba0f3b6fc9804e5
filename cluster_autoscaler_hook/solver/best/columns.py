"""Column generation: finds the cheapest mix of node patterns, and creates patterns only when they are needed.

    minimise   sum_k p_k x_k   such that   sum_k r_ak x_k >= need_a,  x_k >= 0

over all patterns k (a class and its containers). Only patterns that lower the optimum are created: with the
duals of the rows as worths, these are fillings that are worth more than their class costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cluster_autoscaler_hook.solver.best.filling import Filled, even_performance, fill_classes
from cluster_autoscaler_hook.solver.best.greedy import cover, still_needed
from cluster_autoscaler_hook.solver.best.knapsack import Knapsack
from cluster_autoscaler_hook.solver.best.rent_task import RentTask
from cluster_autoscaler_hook.solver.best.tables import Floats, Ints, Pattern, Tables
from cluster_autoscaler_hook.solver.linear_program import LinearProgram

__all__ = ["Mix", "best_mix", "best_whole", "dive"]

# A pattern gets a column only if it is worth this much more than its price.
PROMISE = 1e-6
# The first penalty for leaving an app out, relative to its expected cost.
PENALTY = 1.3
# Gap and node limit of the exact knapsack.
KNAPSACK_GAP = 1e-3
KNAPSACK_NODES = 50
# The knapsack is solved for classes whose quick filling is worth this share of their price, until this
# many patterns are found.
NEAR = 0.85
FOUND = 3
# A dive takes a pattern whose share in the mix is at least this.
ROUND_UP = 0.75
# It continues with this many patterns, those with the lowest reduced cost.
KEPT = 120


class Mix:
    """Fractional numbers of patterns, the worth of performance (duals), and the cost."""

    def __init__(self, patterns: list[Pattern], amounts: Floats, worth: Floats, cost: float) -> None:
        self.patterns, self.amounts, self.worth, self.cost = patterns, amounts, worth, cost


def best_mix(task: RentTask, pool: Iterable[Pattern], rounds: int, exact: int = 0) -> Mix | None:
    """The cheapest mix; None if the deadline passes before the first optimum. When the quick filling finds no
    more patterns, the knapsack is solved, at most `exact` times."""
    tables, deadline = task.tables, task.deadline
    master = _Master(task, pool)
    knapsacks: dict[int, Knapsack] = {}
    mix: Mix | None = None
    priced = task.worth
    for turn in range(rounds + 1):
        following = master.mix(deadline.left_s())
        if following is None:
            return mix
        mix = following
        if turn == rounds or deadline.reached():
            return mix
        # Duals jump between extremes; a value half-way is the better guess (Wentges' smoothing).
        priced = (priced + mix.worth) / 2
        if master.fill(priced, mix.worth):
            continue
        priced = mix.worth
        if master.fill(priced, mix.worth) or master.raise_penalties():
            continue
        before = len(master.patterns)
        for i in master.near_worth(mix.worth)[:exact]:
            if deadline.reached() or len(master.patterns) == before + FOUND:
                break
            exact -= 1
            if i not in knapsacks:
                knapsacks[i] = Knapsack(tables, i, master.needed)
            worths = mix.worth[:, None] * master.performance
            found, _ = knapsacks[i].solve(worths, deadline.left_s(), KNAPSACK_GAP, KNAPSACK_NODES)
            needed = master.needed
            if found is not None and _worth_of(tables, found, worths, needed) > tables.price[i] * (
                1 + KNAPSACK_GAP
            ):
                master.add(found)
        if len(master.patterns) == before:
            return mix
    return mix


class _Master:
    """The program over the patterns created so far. Leaving an app out costs a little more than serving it.
    With a penalty far off, the first duals would be far off too, and lead to useless patterns."""

    def __init__(self, task: RentTask, pool: Iterable[Pattern]) -> None:
        tables, need = task.tables, task.need
        self._tables, self._random = tables, np.random.default_rng(1)
        self.needed = tables.needed(need)
        self.performance = even_performance(tables, need, self.needed)
        self._wanted = np.flatnonzero(need > 0)
        self._row_of = {int(a): row for row, a in enumerate(self._wanted)}
        # In shares of the need: HiGHS treats values far below 1 as zero.
        self._need = need
        self._program = LinearProgram([1.0] * len(self._wanted), [math.inf] * len(self._wanted))
        self._leaving_out = PENALTY * task.worth[self._wanted] * need[self._wanted]
        self._left_out = np.zeros(0, dtype=bool)
        for row in range(len(self._wanted)):
            self._program.add(float(self._leaving_out[row]), [row], [1.0])
        self.patterns: dict[Pattern, None] = {}
        for pattern in pool:
            self.add(pattern)

    def add(self, pattern: Pattern) -> None:
        inside = [(a, n) for a, n in pattern.counts if a in self._row_of]
        if pattern in self.patterns or not inside:
            return
        self.patterns[pattern] = None
        family = self._tables.class_family[pattern.class_index]
        served = [min(n * float(self.performance[a, family] / self._need[a]), 1.0) for a, n in inside]
        rows = [self._row_of[a] for a, _ in inside]
        self._program.add(float(self._tables.price[pattern.class_index]), rows, served)

    def mix(self, seconds: float) -> Mix | None:
        outcome = self._program.solve(seconds)
        if outcome.duals is None or outcome.values is None:
            return None
        worth = np.zeros(len(self._tables.apps))
        worth[self._wanted] = np.maximum(outcome.duals, 0.0) / self._need[self._wanted]
        self._left_out = outcome.values[: len(self._wanted)] > 1e-9
        return Mix(list(self.patterns), outcome.values[len(self._wanted) :], worth, outcome.objective)

    def fill(self, priced: Floats, worth: Floats) -> bool:
        """Add the best filling of each class at worths `priced`, if it gains at worths `worth`."""
        before = len(self.patterns)
        filled = self._filled(priced)
        worths = (worth[:, None] * self.performance).T[self._tables.class_family]
        gain = (filled.useful() * worths).sum(axis=1)
        for promising in np.flatnonzero(gain > self._tables.price * (1 + PROMISE)):
            self.add(filled.pattern(int(promising)))
        return len(self.patterns) > before

    def raise_penalties(self) -> bool:
        """Raise the penalty of apps that the last mix left out; return whether there were any."""
        self._leaving_out[self._left_out] *= 2
        prices = [self._tables.price[pattern.class_index] for pattern in self.patterns]
        self._program.set_costs(np.array([*self._leaving_out, *prices]))
        return bool(self._left_out.any())

    def near_worth(self, worth: Floats) -> list[int]:
        """Classes whose quick filling is nearly worth their price, best first."""
        gain = self._filled(worth).worth / self._tables.price
        return [int(i) for i in np.argsort(-gain, kind="stable") if gain[i] > NEAR]

    def _filled(self, worth: Floats) -> Filled:
        worths = worth[:, None] * self.performance
        return fill_classes(self._tables, worths, self.needed, self._random)


def _worth_of(tables: Tables, pattern: Pattern, worths: Floats, needed: Ints) -> float:
    family = tables.class_family[pattern.class_index]
    return float(sum(worths[a, family] * min(n, needed[a, family]) for a, n in pattern.counts))


def dive(task: RentTask, mix: Mix, rounds: int, cost_limit: float = np.inf) -> list[Pattern] | None:
    """Turn a fractional mix into whole nodes: take the patterns that it has whole, nearly whole, or most of,
    and mix again for the rest; greedily after the deadline. None if the result would cost `cost_limit` or
    more."""
    tables, chosen = task.tables, list[Pattern]()
    while True:
        if tables.cost(chosen) + mix.cost > cost_limit:
            return None
        before, need = len(chosen), task.need
        for k in _nearly_whole(mix):
            taken = _as_needed(tables, mix.patterns[k], max(int(mix.amounts[k] + 1e-6), 1), need)
            chosen += taken
            need = still_needed(tables, need - tables.served(taken))
        if not need.any():
            return chosen
        task = replace(task, need=need, worth=np.maximum(mix.worth, task.worth / 2))  # a dual can be 0
        following = None
        if len(chosen) > before:  # part of a pattern can need more memory than all of it
            kept = _clip(tables, _cheapest_for_their_worth(tables, mix, need), need)
            following = best_mix(task, kept, rounds)
        if following is None:
            rest = cover(task, np.random.default_rng(1), cost_limit - tables.cost(chosen))
            return None if rest is None else chosen + rest
        mix = following


def _nearly_whole(mix: Mix) -> list[int]:
    """The patterns that the mix has whole; else those nearly whole; else the one with the largest number."""
    for enough in (1 - 1e-6, ROUND_UP):
        found = np.flatnonzero(mix.amounts >= enough)
        if len(found):
            return [int(k) for k in found]
    return [int(np.argmax(mix.amounts))] if mix.patterns else []


def _as_needed(tables: Tables, pattern: Pattern, times: int, need: Floats) -> list[Pattern]:
    """The pattern as often as all of it is needed, at most `times`; else once, reduced to the need."""
    needed = tables.needed(need)[:, tables.class_family[pattern.class_index]]
    often = min([times, *(int(needed[a]) // n for a, n in pattern.counts)])
    if often:
        return [pattern] * often
    return _clip(tables, [pattern], need)


def _cheapest_for_their_worth(tables: Tables, mix: Mix, need: Floats) -> list[Pattern]:
    worths = mix.worth[:, None] * tables.performance
    needed = tables.needed(need)
    excess = [tables.price[p.class_index] - _worth_of(tables, p, worths, needed) for p in mix.patterns]
    return [mix.patterns[k] for k in np.lexsort((excess, -mix.amounts))[:KEPT]]


def best_whole(
    tables: Tables, pool: Iterable[Pattern], known: list[Pattern], seconds: float, nodes: int
) -> list[Pattern] | None:
    """The cheapest whole numbers of the pool's patterns, by a limited search from a known solution."""
    patterns = list(pool)
    program = LinearProgram(list(tables.workload), [math.inf] * len(tables.apps))
    for pattern in patterns:
        family = tables.class_family[pattern.class_index]
        apps = [a for a, _ in pattern.counts]
        served = [min(n * tables.performance[a, family], 1.0) for a, n in pattern.counts]
        program.add(float(tables.price[pattern.class_index]), apps, served, integer=True)
    program.start_from(np.array([known.count(pattern) for pattern in patterns], dtype=float))
    outcome = program.solve(seconds, 1e-4, nodes)
    if outcome.values is None:
        return None
    chosen = [p for p, n in zip(patterns, np.rint(outcome.values).astype(int), strict=True) for _ in range(n)]
    return chosen if not still_needed(tables, tables.workload - tables.served(chosen)).any() else None


def _clip(tables: Tables, pool: list[Pattern], need: Floats) -> list[Pattern]:
    """The pool without containers that are no longer needed, except those that save memory."""
    needed = tables.needed(need)
    clipped: dict[Pattern, None] = {}
    for pattern in pool:
        family = tables.class_family[pattern.class_index]
        counts = {a: n for a, n in pattern.counts if needed[a, family]}
        if counts and tables.holds(pattern.class_index, counts):
            less = {a: min(n, int(needed[a, family])) for a, n in counts.items()}
            if tables.holds(pattern.class_index, less):
                counts = less
            clipped[Pattern(pattern.class_index, tuple(counts.items()))] = None
    return list(clipped)
