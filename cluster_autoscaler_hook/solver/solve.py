"""The entry point: solve(problem) -> Solution. Every answer is checked by the verifier."""

from __future__ import annotations

from collections.abc import Callable

from cluster_autoscaler_hook.solver import first_fit
from cluster_autoscaler_hook.solver.best import search
from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import Problem, Solution
from cluster_autoscaler_hook.solver.paper import paper
from cluster_autoscaler_hook.solver.variant import DEFAULT_DEADLINE_S, Variant
from cluster_autoscaler_hook.solver.verifier import verify

__all__ = ["DEFAULT_DEADLINE_S", "Variant", "solve"]

_SOLVERS: dict[Variant, Callable[[Problem, Deadline], Solution]] = {
    Variant.BEST: search.solve,
    Variant.PAPER: paper.solve,
    Variant.FFC: first_fit.by_core,
    Variant.FFP: first_fit.by_price,
}


def solve(
    problem: Problem, deadline_s: float = DEFAULT_DEADLINE_S, variant: Variant = Variant.BEST
) -> Solution:
    """The cheapest allocation found until the deadline, and a lower bound of every allocation's cost.

    The same problem gives the same answer, unless the deadline or the time of one step ran out. The solution
    says whether that happened.
    """
    solution = _SOLVERS[variant](problem, Deadline.after(deadline_s))
    verify(problem, solution.allocation)
    return solution
