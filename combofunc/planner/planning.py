"""Our planner: close to the best plan, and never worse than Algorithm 1.

Nodes share only the target. So find the combinations of sizes worth having (fillings), the cost of each
amount of concurrency on each node (node_options), and the best amount for each node (combining). Algorithm 1
runs first. It tells how many containers to try on a node, which nodes matter in a large cluster, and what a
unit of concurrency is worth. If this takes more work than allowed, a smaller search follows; if that is too
much as well, Algorithm 1's plan is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from combofunc.planner import greedy
from combofunc.planner.choice import Choice, plan_of
from combofunc.planner.combining import combine
from combofunc.planner.fillings import Limits, fillings, undominated
from combofunc.planner.kept_rows import kept_rows
from combofunc.planner.model import CUT_SHORT, Plan, PlanRequest
from combofunc.planner.node_options import NodeOptions, node_options
from combofunc.planner.problem import Floats, Problem, Whole, prepare
from combofunc.planner.work import CutShort, Work

__all__ = ["plan"]

# New containers to try on a node beyond the number that Algorithm 1 puts there.
_DEEPER = 2
# Upper bound for the worth of a unit of concurrency, in costs of Algorithm 1's last step.
_DEARER = 2.0
# Limit for one search: about half a second. The hardest of 2,000 ordinary problems takes a tenth of it.
_MOST_WORK = 50_000_000


@dataclass(frozen=True, slots=True)
class _Effort:
    """Limits of one search: sets of kept containers on a node, and new containers on a node.

    A node has more sets only with many containers of several sizes; then the plan may miss the best. In a
    shortage any set may give the last unit of concurrency, so the limit is higher.
    """

    sets_kept: int
    sets_kept_short: int
    depth: int


_EFFORTS = (_Effort(32, 256, 1_000_000), _Effort(4, 4, 4))
# Nodes to try although Algorithm 1 did not use them: the next best ones, and for each size the cheapest ones,
# to cover the rest of a target.
_NEXT_BEST = 16
_NEXT_BEST_OF_A_SIZE = 4


def plan(request: PlanRequest) -> Plan:
    problem = prepare(request)
    first = greedy.choose(problem)
    choices, cut_short = _better_ones(problem, first)
    plans = [plan_of(problem, choice) for choice in (*choices, first.choice)]
    best = min(plans, key=lambda p: (p.shortage, p.scaling_s + problem.price_weight * p.resource_price))
    return replace(best, reasons=(*best.reasons, CUT_SHORT)) if cut_short else best


def _better_ones(problem: Problem, first: greedy.Outcome) -> tuple[list[Choice], bool]:
    """The choice of the largest search within the limit, if any; and whether it is not the full search."""
    if first.cut_short:
        return [], True
    for effort in _EFFORTS:
        try:
            return [_better(problem, first, effort, Work(_MOST_WORK))], effort is not _EFFORTS[0]
        except CutShort:
            continue
    return [], True


def _better(problem: Problem, first: greedy.Outcome, effort: _Effort, work: Work) -> Choice:
    nodes = _nodes_that_matter(problem, first)
    if not nodes:
        return first.choice
    sets_kept = effort.sets_kept_short if first.short else effort.sets_kept
    rows = kept_rows(problem, nodes, first.last_cost, sets_kept, work)
    limits = Limits(
        min(_depth(problem, first, nodes), effort.depth),
        problem.target,
        int(rows.cpu_left.max(initial=0)),
        int(rows.memory_left.max(initial=0)),
    )
    options = node_options(problem, fillings(problem.sizes, limits, work), nodes, rows, work)
    return _choice(problem, options, combine(options.cost, problem.target, work))


def _nodes_that_matter(problem: Problem, first: greedy.Outcome) -> list[int]:
    """Algorithm 1 takes the cheapest first, so a node it did not use is no cheaper than its last step."""
    used = {*problem.own, *(node for node, _ in first.choice.created)}
    if len(problem.names) - len(used) > _NEXT_BEST:
        costs = first.first_costs.copy()
        costs[list(used)] = np.inf
        concurrency = np.array([size.concurrency for size in problem.sizes])
        used.update(_lowest((costs / concurrency).min(axis=1), _NEXT_BEST))
        for size in undominated(problem.sizes):
            used.update(_lowest(costs[:, size], _NEXT_BEST_OF_A_SIZE))
        return sorted(used)
    return list(range(len(problem.names)))


def _lowest(costs: Floats, count: int) -> list[int]:
    low = np.flatnonzero(costs <= np.partition(costs, count)[count])
    found = low[np.argsort(costs[low], kind="stable")][:count]
    return [int(i) for i in found if np.isfinite(costs[i])]


def _depth(problem: Problem, first: greedy.Outcome, nodes: Sequence[int]) -> int:
    """How many new containers to try on a node."""
    slots = max(max(int(problem.pods_free[at]), 0) + len(problem.own.get(at, ())) for at in nodes)
    if first.short:
        return slots
    new = Counter(node for node, _ in first.choice.created)
    worth = _DEARER * first.last_cost
    # Containers worth more with another size count as new.
    values = worth * np.array([size.concurrency for size in problem.sizes]) - problem.prices(nodes)
    resized = (values.max(axis=1) - problem.tau_resize_s[nodes]).tolist()
    for at, best, value in zip(nodes, resized, values.tolist(), strict=True):
        for c in problem.own.get(at, ()):
            as_it_is = max(value[problem.size_of[c]], 0.0) if problem.keepable[c] else 0.0
            new[at] += problem.resizable[c] and best > as_it_is
    return min(max(new.values(), default=0) + _DEEPER, slots)


def _choice(problem: Problem, options: NodeOptions, shares: Whole) -> Choice:
    kept: list[int] = []
    resized: list[tuple[int, int]] = []
    created: list[tuple[int, int]] = []
    for at, stay, sizes, new in options.pick(shares):
        kept += stay
        stays = set(stay)
        spare = [c for c in problem.own.get(at, ()) if c not in stays and problem.resizable[c]]
        added = list(sizes)
        # Keep a container that has a wanted size, rather than resize another to that size.
        for container in list(spare):
            size = problem.size_of[container]
            if problem.keepable[container] and size in added:
                added.remove(size)
                spare.remove(container)
                kept.append(container)
        # Resize the largest containers to the largest sizes: ready soonest, least to drain.
        resizes = max(len(added) - new, 0)
        resized += zip(spare[len(spare) - resizes :], added[len(added) - resizes :], strict=True)
        created += [(at, size) for size in added[: len(added) - resizes]]
    return Choice(kept, resized, created)
