"""The paper's four secondary metrics ('Experimental setup'): 0 is worst, 1 is best."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

from cluster_autoscaler_hook.solver.model import TOLERANCE, Allocation, Node, Problem

__all__ = ["containers_on", "fault_tolerance", "isolation", "load_balance", "node_recycling"]


def fault_tolerance(problem: Problem, allocation: Allocation) -> float:
    """The share of apps that lose at most their SFMPL of performance with any one node."""
    fulfilled = []
    for name, on_nodes in _performance_by_node(problem, allocation).items():
        wish = problem.app_by_name[name].sfmpl
        fulfilled.append(max(on_nodes) <= wish * sum(on_nodes) * (1 + TOLERANCE))
    return fmean(fulfilled) if fulfilled else 1.0


def load_balance(problem: Problem, allocation: Allocation) -> float:
    """The mean over the apps of 1 / number of nodes that run the app."""
    shares = [1 / len(on_nodes) for on_nodes in _performance_by_node(problem, allocation).values()]
    return fmean(shares) if shares else 1.0


def isolation(problem: Problem, allocation: Allocation) -> float:
    """The mean over the nodes of 1 / number of containers after aggregation."""
    shares = [1 / sum(containers_on(problem, node).values()) for node in allocation.nodes if node.containers]
    return fmean(shares) if shares else 1.0


def node_recycling(before: Allocation, after: Allocation, problem: Problem) -> float:
    """The share of the later allocation's cores that the earlier one already had, by class."""
    had = Counter(node.instance_class for node in before.nodes)
    has = Counter(node.instance_class for node in after.nodes)
    cores = {name: problem.class_by_name[name].cores for name in has}
    total = sum(cores[name] * count for name, count in has.items())
    kept = sum(cores[name] * min(count, had[name]) for name, count in has.items())
    return kept / total if total else 1.0


def containers_on(problem: Problem, node: Node) -> dict[tuple[str, int], int]:
    """(app, level) -> number of containers on the node."""
    family = problem.class_by_name[node.instance_class].family
    return {
        (name, level): number
        for name, count in node.containers.items()
        for level, number in problem.containers[name, family].aggregation.containers(count).items()
    }


def _performance_by_node(problem: Problem, allocation: Allocation) -> dict[str, list[float]]:
    """app -> its performance on each node that runs it."""
    on_nodes: dict[str, list[float]] = {}
    for node in allocation.nodes:
        family = problem.class_by_name[node.instance_class].family
        for name, count in node.containers.items():
            on_nodes.setdefault(name, []).append(count * problem.containers[name, family].performance)
    return on_nodes
