"""FCMA as printed: partial ILP, node aggregation, container allocation. `Container.aggregation` does phase 4,
container aggregation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cluster_autoscaler_hook.solver import first_fit
from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import TOLERANCE, Allocation, Problem, Solution
from cluster_autoscaler_hook.solver.node_filling import FillingNode
from cluster_autoscaler_hook.solver.paper.container_allocation import PlacedNode, allocate
from cluster_autoscaler_hook.solver.paper.node_aggregation import aggregate_nodes
from cluster_autoscaler_hook.solver.paper.partial_ilp import PartialSolution, solve_partial

__all__ = ["solve"]


def solve(problem: Problem, deadline: Deadline) -> Solution:
    """The ILPs stop at the deadline. Their result is allocated after it."""
    partial = solve_partial(problem, deadline)
    bound = max(partial.bound_per_hour, first_fit.lower_bound(problem))
    if not partial.found:
        return _without_partial(problem, deadline, bound)
    placed, steps = _allocated(problem, partial, deadline)
    nodes = _used(node.filling for node in placed)
    if any(node.before_promotion for node in placed) and not deadline.reached():
        reverted = _promotions_reverted(problem, placed, deadline)
        if _cost(reverted) < _cost(nodes):
            steps.append(
                f"Last promotions undone, nodes added: {_cost(nodes):g} becomes {_cost(reverted):g}."
            )
            nodes = reverted
    cost = _cost(nodes)
    steps.append("Phase 4: containers of an app on one node aggregated, the largest level first.")
    return Solution(
        Allocation(tuple(node.frozen() for node in nodes)),
        cost,
        min(bound, cost),
        tuple(steps),
        partial.deadline_reached or deadline.reached(),
    )


def _allocated(
    problem: Problem, partial: PartialSolution, deadline: Deadline
) -> tuple[list[PlacedNode], list[str]]:
    """Phases 2 and 3."""
    aggregated = aggregate_nodes(problem, partial.nodes, deadline)
    placed = allocate(problem, aggregated, partial.containers)
    containers, before, after = (
        sum(counts.values()) for counts in (partial.containers, partial.nodes, aggregated)
    )
    promoted = sum(node.before_promotion is not None for node in placed)
    return placed, [
        f"Phase 1: {before} nodes for {containers} minimum-size containers; "
        f"the partial ILP's bound is {partial.bound_per_hour:g}.",
        f"Phase 2: {before} nodes aggregated into {after}.",
        f"Phase 3: {promoted} nodes promoted and {len(placed) - after} added to allocate all containers.",
    ]


def _promotions_reverted(problem: Problem, placed: list[PlacedNode], deadline: Deadline) -> list[FillingNode]:
    """'Node promotion and addition', the final optimisation: revert the last promotion of each node, and run
    phases 1-3 again for the containers that no longer fit."""
    kept = _used(node.before_promotion or node.filling for node in placed)
    served = {app.name: 0.0 for app in problem.apps}
    for node in kept:
        for name, count in node.counts.items():
            served[name] += count * problem.containers[name, node.instance_class.family].performance
    rest = [replace(app, workload=_left(app.workload, served[app.name])) for app in problem.apps]
    remaining = replace(problem, apps=tuple(rest))
    partial = solve_partial(remaining, deadline)
    if not partial.found:
        return _used(node.filling for node in placed)
    added, _ = _allocated(remaining, partial, deadline)
    return kept + _used(node.filling for node in added)


def _left(workload: float, served: float) -> float:
    left = workload - served
    return left if left > workload * TOLERANCE / 2 else 0.0


def _without_partial(problem: Problem, deadline: Deadline, bound: float) -> Solution:
    """Not in the paper: an answer even if the ILP has none at the deadline."""
    solution = first_fit.by_core(problem, deadline)
    return replace(
        solution,
        lower_bound_per_hour=min(bound, solution.cost_per_hour),
        steps=("Phase 1: no solution of the partial ILP before the deadline; first fit by core instead.",),
        deadline_reached=True,
    )


def _used(nodes: Iterable[FillingNode]) -> list[FillingNode]:
    """The nodes with containers: because of its gap, phase 1 can leave a node empty."""
    return [node for node in nodes if node.counts]


def _cost(nodes: Iterable[FillingNode]) -> float:
    return sum(node.instance_class.price_per_hour for node in nodes)
