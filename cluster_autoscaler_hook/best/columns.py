"""Column generation: the cheapest mix of node patterns, patterns found as they are needed.

    minimise   sum_k p_k x_k   such that   sum_k r_ak x_k >= need_a,  x_k >= 0

over all patterns k (a class and its containers). Only patterns that lower the optimum are ever made:
with the duals of the rows as worths, such a pattern is a filling worth more than its class costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from cluster_autoscaler_hook.best.filling import Filled, even_performance, fill_classes
from cluster_autoscaler_hook.best.greedy import cover, still_needed
from cluster_autoscaler_hook.best.knapsack import Knapsack
from cluster_autoscaler_hook.best.tables import Floats, Pattern, Tables
from cluster_autoscaler_hook.deadline import Deadline
from cluster_autoscaler_hook.linear_program import LinearProgram

__all__ = ["Mix", "best_mix", "best_whole", "dive"]

# A pattern must promise this much over its price to be worth a column.
PROMISE = 1e-6
# How exact the exact knapsack is, and how long it may search.
KNAPSACK_GAP = 1e-3
KNAPSACK_NODES = 50
# A dive takes a pattern that the mix has this much of.
ROUND_UP = 0.75
# And goes on with this many patterns, those that cost least more than they are worth.
KEPT = 120


class Mix:
    """Patterns in fractional numbers, and what performance is worth at them."""

    def __init__(self, patterns: list[Pattern], amounts: Floats, worth: Floats) -> None:
        self.patterns, self.amounts, self.worth = patterns, amounts, worth


def best_mix(
    tables: Tables, need: Floats, pool: Iterable[Pattern], rounds: int, deadline: Deadline, exact: int = 0
) -> Mix | None:
    """None when the deadline comes before the first optimum. `exact` times the knapsack is asked
    as well, about classes where the quick filling comes near."""
    needed = tables.needed(need)
    performance = even_performance(tables, need, needed)
    wanted = np.flatnonzero(need > 0)
    row_of = {int(a): row for row, a in enumerate(wanted)}
    master = LinearProgram(list(need[wanted]), [math.inf] * len(wanted))
    patterns: dict[Pattern, None] = {}

    def add(pattern: Pattern) -> None:
        if pattern in patterns:
            return
        patterns[pattern] = None
        family = tables.class_family[pattern.class_index]
        inside = [(a, n) for a, n in pattern.counts if a in row_of]
        served = [n * float(performance[a, family]) for a, n in inside]
        master.add(float(tables.price[pattern.class_index]), [row_of[a] for a, _ in inside], served)

    # Until there are patterns that meet the need, it can be met at a price nobody would pay.
    for row, a in enumerate(wanted):
        master.add(10 * len(wanted) * float(tables.price.max()), [row], [float(need[a])])
    for pattern in pool:
        if any(a in row_of for a, _ in pattern.counts):
            add(pattern)
    random = np.random.default_rng(1)
    knapsacks: dict[int, Knapsack] = {}
    mix: Mix | None = None
    for turn in range(rounds + 1):
        outcome = master.solve(deadline.left_s())
        if outcome.duals is None or outcome.values is None:
            return mix
        worth = np.zeros(len(tables.apps))
        worth[wanted] = np.maximum(outcome.duals, 0.0)
        mix = Mix(list(patterns), outcome.values[len(wanted) :], worth)
        if turn == rounds or deadline.reached():
            return mix
        filled = fill_classes(tables, worth[:, None] * performance, needed, random)
        before = len(patterns)
        for promising in np.flatnonzero(filled.worth > tables.price * (1 + PROMISE)):
            add(filled.pattern(int(promising)))
        for i in _worth_a_look(tables, filled)[:exact]:
            if deadline.reached():
                break
            exact -= 1
            if i not in knapsacks:
                knapsacks[i] = Knapsack(tables, i, needed)
            worths = worth[:, None] * performance
            found, _ = knapsacks[i].solve(worths, deadline.left_s(), KNAPSACK_GAP, KNAPSACK_NODES)
            if found is not None and _worth_of(tables, found, worths) > tables.price[i] * (1 + KNAPSACK_GAP):
                add(found)
        if len(patterns) == before:
            return mix
    return mix


def _worth_of(tables: Tables, pattern: Pattern, worths: Floats) -> float:
    family = tables.class_family[pattern.class_index]
    return float(sum(worths[a, family] * n for a, n in pattern.counts))


def _worth_a_look(tables: Tables, filled: Filled) -> list[int]:
    """Per family and memory per core, the class that the quick filling likes best, if it comes near."""
    gain = filled.worth / tables.price
    group: dict[tuple[int, float], int] = {}
    for i in np.argsort(-gain, kind="stable"):
        ratio = round(float(tables.capacity[i, 1] / tables.capacity[i, 0]), 3)
        if gain[i] > 0.85:
            group.setdefault((int(tables.class_family[i]), ratio), int(i))
    return list(group.values())[:6]


def dive(tables: Tables, need: Floats, mix: Mix, rounds: int, deadline: Deadline) -> list[Pattern] | None:
    """Whole nodes from a fractional mix: take what it has whole, or nearly, or most of, and mix again for
    what is still needed. None when the deadline comes first."""
    need, chosen = need.copy(), list[Pattern]()
    while True:
        before = len(chosen)
        for k in _nearly_whole(mix):
            taken = _as_needed(tables, mix.patterns[k], max(int(mix.amounts[k] + 1e-6), 1), need)
            chosen += taken
            need = still_needed(tables, need - tables.served(taken))
        if not need.any():
            return chosen
        if len(chosen) == before:  # what is left of a pattern can need more memory than the whole
            rest = cover(tables, mix.worth, need, np.random.default_rng(1))
            return None if rest is None else chosen + rest
        kept = _clip(tables, _cheapest_for_their_worth(tables, mix), need)
        following = best_mix(tables, need, kept, rounds, deadline)
        if following is None:
            return None
        mix = following


def _nearly_whole(mix: Mix) -> list[int]:
    """Patterns the mix has whole; else those it has nearly whole; else the one it has most of."""
    for enough in (1 - 1e-6, ROUND_UP):
        found = np.flatnonzero(mix.amounts >= enough)
        if len(found):
            return [int(k) for k in found]
    return [int(np.argmax(mix.amounts))] if mix.patterns else []


def _as_needed(tables: Tables, pattern: Pattern, times: int, need: Floats) -> list[Pattern]:
    """The pattern as often as it is needed whole, at most `times`; else once, what is needed of it."""
    needed = tables.needed(need)[:, tables.class_family[pattern.class_index]]
    often = min([times, *(int(needed[a]) // n for a, n in pattern.counts)])
    if often:
        return [pattern] * often
    return _clip(tables, [pattern], need)


def _cheapest_for_their_worth(tables: Tables, mix: Mix) -> list[Pattern]:
    worths = mix.worth[:, None] * tables.performance
    excess = [tables.price[p.class_index] - _worth_of(tables, p, worths) for p in mix.patterns]
    return [mix.patterns[k] for k in np.lexsort((excess, -mix.amounts))[:KEPT]]


def best_whole(tables: Tables, pool: Iterable[Pattern], seconds: float, nodes: int) -> list[Pattern] | None:
    """The cheapest whole numbers of the pool's patterns, as far as a limited search goes."""
    patterns = list(pool)
    program = LinearProgram(list(tables.workload), [math.inf] * len(tables.apps))
    for pattern in patterns:
        family = tables.class_family[pattern.class_index]
        apps = [a for a, _ in pattern.counts]
        served = [n * tables.performance[a, family] for a, n in pattern.counts]
        program.add(float(tables.price[pattern.class_index]), apps, served, integer=True)
    outcome = program.solve(seconds, 1e-4, nodes)
    if outcome.values is None:
        return None
    chosen = [p for p, n in zip(patterns, np.rint(outcome.values).astype(int), strict=True) for _ in range(n)]
    return chosen if not still_needed(tables, tables.workload - tables.served(chosen)).any() else None


def _clip(tables: Tables, pool: list[Pattern], need: Floats) -> list[Pattern]:
    """The pool without containers that nobody needs any more."""
    needed = tables.needed(need)
    clipped: dict[Pattern, None] = {}
    for pattern in pool:
        family = tables.class_family[pattern.class_index]
        counts = tuple((a, min(n, int(needed[a, family]))) for a, n in pattern.counts if needed[a, family])
        if counts and tables.holds(pattern.class_index, dict(counts)):
            clipped[Pattern(pattern.class_index, counts)] = None
    return list(clipped)
