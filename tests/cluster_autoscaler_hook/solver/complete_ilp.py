"""The oracle: the complete problem, solved exactly, in two formulations that check each other.

Patterns. A pattern is a class with a count of minimum-size containers per app that such a node can hold
(asked of the verifier, one node at a time). An allocation is a multiset of patterns, so with x_p nodes of
pattern p: minimise sum price_p x_p, subject to sum performance_p,a x_p >= w_a for each app. Counts beyond
what an app needs are enumerated up to the next aggregation level: 8 can fit where 7 do not.

Slots, as in Conlloovia (the paper's [7]). z_s,i = 1 if slot s is a node of class i; y_s,i,a,l containers
of level l of app a there. Minimise sum price_i z_s,i subject to
    sum_i z_s,i <= 1                                        a slot is one node at most
    sum_a,l l c_a y_s,i,a,l <= c_i z_s,i                    cores
    sum_a,l m_a,l y_s,i,a,l <= m_i z_s,i                    memory
    sum_a,l y_s,i,a,l <= max_containers_i z_s,i             pods
    sum_l l y_s,i,a,l <= max_per_node_a z_s,i               anti-affinity
    sum_s,i,l l r_a y_s,i,a,l >= w_a                        workload
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

from cluster_autoscaler_hook.solver.model import Allocation, InstanceClass, Node, Problem
from cluster_autoscaler_hook.solver.paper.integer_program import AtLeast, minimise
from cluster_autoscaler_hook.solver.verifier import violations

SLACK = 1e-9


def cheapest_by_patterns(problem: Problem) -> float:
    patterns = [pattern for c in problem.classes for pattern in _patterns(problem, c)]
    prices = [problem.class_by_name[node.instance_class].price_per_hour for node in patterns]
    constraints = []
    for app in problem.apps:
        served = {}
        for index, node in enumerate(patterns):
            if app.name in node.containers:
                family = problem.class_by_name[node.instance_class].family
                performance = problem.containers[app.name, family].performance
                served[index] = node.containers[app.name] * performance
        constraints.append(AtLeast(served, app.workload * (1 - SLACK)))
    return _objective(prices, [math.inf] * len(patterns), constraints)


def cheapest_by_slots(problem: Problem, slots: int) -> float:
    """`slots`: at least the nodes of an optimal allocation."""
    costs: list[float] = []
    upper: list[float] = []
    constraints: list[AtLeast] = []
    served: dict[str, dict[int, float]] = {app.name: {} for app in problem.apps}
    for _ in range(slots):
        chosen = {}
        for c in problem.classes:
            z = chosen[c.name] = len(costs)
            costs.append(c.price_per_hour)
            upper.append(1)
            cores, memory, pods = {z: c.cores}, {z: c.memory_gib}, {z: float(c.max_containers or 0)}
            for app in problem.apps:
                container = problem.containers.get((app.name, c.family))
                if container is None:
                    continue
                together = {z: float(app.max_per_node or 0)}
                for level, size in zip(container.levels, container.memory_gib, strict=True):
                    y = len(costs)
                    costs.append(0.0)
                    upper.append(math.inf)
                    cores[y], memory[y], pods[y] = -level * container.cores, -size, -1.0
                    together[y] = -float(level)
                    served[app.name][y] = level * container.performance
                if app.max_per_node is not None:
                    constraints.append(AtLeast(together, 0.0))
            constraints += [AtLeast(cores, -SLACK), AtLeast(memory, -SLACK)]
            if c.max_containers is not None:
                constraints.append(AtLeast(pods, 0.0))
        constraints.append(AtLeast(dict.fromkeys(chosen.values(), -1.0), -1.0))
    constraints += [AtLeast(served[app.name], app.workload * (1 - SLACK)) for app in problem.apps]
    return _objective(costs, upper, constraints)


def _patterns(problem: Problem, instance_class: InstanceClass) -> list[Node]:
    idle = replace(problem, apps=tuple(replace(app, workload=0.0) for app in problem.apps))
    most = []
    for app in problem.apps:
        container = problem.containers.get((app.name, instance_class.family))
        if container is None:
            most.append(0)
            continue
        needed = math.ceil(app.workload / container.performance) + container.levels[-1] - 1
        by_cores = math.floor(instance_class.cores / container.cores + SLACK) if container.cores else needed
        most.append(min(needed, by_cores))
    found = []
    for counts in product(*(range(n + 1) for n in most)):
        named = zip(problem.apps, counts, strict=True)
        node = Node(instance_class.name, {app.name: count for app, count in named if count})
        if node.containers and not violations(idle, Allocation((node,))):
            found.append(node)
    return found


def _objective(costs: list[float], upper: list[float], constraints: list[AtLeast]) -> float:
    outcome = minimise(costs, upper, constraints)
    assert outcome.values is not None
    return sum(cost * value for cost, value in zip(costs, outcome.values, strict=True))
