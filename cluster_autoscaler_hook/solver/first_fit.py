"""The paper's baselines: First Fit by Core (FFC) and by Price (FFP), 'Experimental results'.

For each app both put the largest container class that is still needed on the first node with room. If no node
has room, they rent one of the first class that fits. Classes are ordered by descending cores or by ascending
price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import (
    TOLERANCE,
    Allocation,
    App,
    Container,
    InstanceClass,
    Problem,
    Solution,
)
from cluster_autoscaler_hook.solver.node_filling import FillingNode
from cluster_autoscaler_hook.solver.validation import fits

__all__ = ["by_core", "by_price", "lower_bound"]


def by_core(problem: Problem, deadline: Deadline) -> Solution:  # noqa: ARG001  # variants are called alike
    """Ignores the deadline: it takes little time."""
    order = sorted(problem.classes, key=lambda c: (-c.cores, c.price_per_hour, c.name))
    return _first_fit(problem, order, "descending cores")


def by_price(problem: Problem, deadline: Deadline) -> Solution:  # noqa: ARG001  # variants are called alike
    """Ignores the deadline: it takes little time."""
    order = sorted(problem.classes, key=lambda c: (c.price_per_hour, -c.cores, c.name))
    return _first_fit(problem, order, "ascending price")


def lower_bound(problem: Problem) -> float:
    """The LP relaxation of eqs 1-3: each app pays for its share of the cores of its cheapest class. Or the
    same with memory, where a container needs at least the memory of its thriftiest level."""
    pairs = [
        (app, container, c)
        for app in problem.apps
        if app.workload > 0
        for c in problem.classes
        if (container := problem.containers.get((app.name, c.family))) and fits(container, c)
    ]
    cores: dict[str, float] = {}
    memory: dict[str, float] = {}
    for app, container, c in pairs:
        per_price = c.price_per_hour * app.workload / container.performance
        core_share = container.cores / c.cores * per_price
        memory_share = container.least_memory_gib / c.memory_gib * per_price
        cores[app.name] = min(core_share, cores.get(app.name, math.inf))
        memory[app.name] = min(memory_share, memory.get(app.name, math.inf))
    return max(sum(cores.values()), sum(memory.values())) * (1 - TOLERANCE)


def _first_fit(problem: Problem, order: Sequence[InstanceClass], priority: str) -> Solution:
    nodes: list[FillingNode] = []
    for app in problem.apps:
        left = app.workload
        for node in nodes:
            if left <= app.workload * TOLERANCE / 2:
                break
            left -= _fill(problem, app, node, left)
        while left > app.workload * TOLERANCE / 2:
            node = FillingNode(_first_class(problem, app, order, left))
            left -= _fill(problem, app, node, left)
            nodes.append(node)
    allocation = Allocation(tuple(node.frozen() for node in nodes))
    cost = allocation.cost_per_hour(problem)
    return Solution(
        allocation,
        cost,
        min(lower_bound(problem), cost),
        (f"First fit, classes by {priority}: {len(nodes)} nodes.",),
    )


def _fill(problem: Problem, app: App, node: FillingNode, left: float) -> float:
    """The workload that the containers serve which fit the node, largest container classes first."""
    container = problem.containers.get((app.name, node.instance_class.family))
    if container is None:
        return 0.0
    return node.fill(app, container, _needed(left, container)) * container.performance


def _first_class(problem: Problem, app: App, order: Sequence[InstanceClass], left: float) -> InstanceClass:
    """The first class that fits the largest container class still needed, or else the next smaller one."""
    containers = [(c, problem.containers.get((app.name, c.family))) for c in order]
    candidates = [(c, container) for c, container in containers if container is not None]
    for level in sorted({level for _, container in candidates for level in container.levels}, reverse=True):
        for c, container in candidates:
            wanted = min(level, _needed(left, container))
            if level in container.levels and FillingNode(c).fitting(app, container, wanted) == wanted:
                return c
    raise AssertionError(f"app {app.name!r} fits no class: the problem was validated")


def _needed(workload: float, container: Container) -> int:
    return math.ceil(workload / container.performance * (1 - TOLERANCE))
