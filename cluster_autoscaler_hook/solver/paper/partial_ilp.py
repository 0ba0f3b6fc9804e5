"""Phase 1: the partial ILP (eqs 1-4). It ignores memory and pools the cores of a class, so its optimum is a
lower bound of every allocation's cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import TOLERANCE, App, Container, InstanceClass, Problem
from cluster_autoscaler_hook.solver.paper.integer_program import AtLeast, minimise
from cluster_autoscaler_hook.solver.validation import fits

__all__ = ["RELATIVE_GAP", "PartialSolution", "candidate_classes", "solve_partial"]

# 'Experimental setup': the solver stops within 2 % of its bound.
RELATIVE_GAP = 0.02


@dataclass(frozen=True, slots=True)
class PartialSolution:
    nodes: dict[str, int]  # X_i by class, none of them 0
    containers: dict[tuple[str, str], int]  # Y_0 summed over the classes of a family: (app, family)
    found: bool  # False: no solution was found before the deadline
    bound_per_hour: float
    deadline_reached: bool


def candidate_classes(problem: Problem) -> tuple[InstanceClass, ...]:
    """The classes that simplifications 1-3 keep: applied to each app, then united.

    The union is valid for all apps: a class that can be dropped for the largest container can be dropped for
    the others, since smaller containers also fit the small class.
    """
    slim = _without_extended_memory(problem.classes)
    kept = set()
    for (app_name, family), container in _pairs(problem).items():
        if problem.app_by_name[app_name].workload <= 0:
            continue
        large_enough = [c for c in slim if c.family == family and _has_cores(c, container)]
        kept |= {c.name for c in large_enough if not any(_is_multiple(c, of) for of in large_enough)}
    return tuple(c for c in slim if c.name in kept)


def solve_partial(problem: Problem, deadline: Deadline) -> PartialSolution:
    apps = [app for app in problem.apps if app.workload > 0]
    classes = candidate_classes(problem)
    if not apps:
        return PartialSolution({}, {}, True, 0.0, deadline_reached=False)
    pairs = _pairs(problem)
    # Simplification 4: only those Y whose container fits the class; eq. 4 then always holds.
    y = [
        (app, c)
        for app in apps
        for c in classes
        if (app.name, c.family) in pairs and _has_cores(c, pairs[app.name, c.family])
    ]
    column = {(app.name, c.name): len(classes) + index for index, (app, c) in enumerate(y)}
    cheapest = min(
        c.price_per_hour for c in classes
    )  # prices are multiples of it, so their unit does not matter
    costs = [c.price_per_hour / cheapest for c in classes] + [0.0] * len(y)
    upper = [math.inf] * len(classes)
    upper += [float(needed(app.workload, pairs[app.name, c.family])) for app, c in y]
    constraints = []
    for app in apps:  # eq. 2, in containers of the fastest family
        rates = {
            column[app.name, c.name]: pairs[app.name, c.family].performance
            for c in classes
            if (app.name, c.name) in column
        }
        unit = max(rates.values())
        constraints.append(AtLeast({j: r / unit for j, r in rates.items()}, app.workload / unit))
    for index, c in enumerate(classes):  # eq. 3, in nodes
        used = {
            column[app.name, c.name]: -pairs[app.name, c.family].cores / c.cores
            for app in apps
            if (app.name, c.name) in column
        }
        constraints.append(AtLeast({index: 1.0} | used, 0.0))
    outcome = minimise(costs, upper, constraints, relative_gap=RELATIVE_GAP, time_limit_s=deadline.left_s())
    bound = max(0.0, outcome.bound * cheapest) if math.isfinite(outcome.bound) else 0.0
    if outcome.values is None:
        return PartialSolution({}, {}, False, bound, deadline_reached=True)
    nodes = {c.name: n for c, n in zip(classes, outcome.values, strict=False) if n}
    containers: dict[tuple[str, str], int] = {}
    for (app, c), count in zip(y, outcome.values[len(classes) :], strict=True):
        if count:
            containers[app.name, c.family] = containers.get((app.name, c.family), 0) + count
    _complete(apps, pairs, containers)
    return PartialSolution(nodes, containers, True, bound, outcome.time_limit_reached)


def needed(workload: float, container: Container) -> int:
    """The number of minimum-size containers that serve a workload."""
    return math.ceil(workload / container.performance * (1 - TOLERANCE))


def _complete(
    apps: Iterable[App], pairs: dict[tuple[str, str], Container], containers: dict[tuple[str, str], int]
) -> None:
    """A MIP solver meets constraints within 1e-6, we within 1e-9. A workload that is zero for the solver gets
    the containers that need fewest cores."""
    for app in apps:
        mine = [pair for pair in containers if pair[0] == app.name]
        served = sum(containers[pair] * pairs[pair].performance for pair in mine)
        if served < app.workload * (1 - TOLERANCE):
            if mine:
                pair = max(mine, key=lambda pair: (containers[pair], pair))
            else:
                able = [pair for pair in pairs if pair[0] == app.name]
                pair = min(able, key=lambda p: (needed(app.workload, pairs[p]) * pairs[p].cores, p))
            missing = needed(app.workload - served, pairs[pair])
            containers[pair] = containers.get(pair, 0) + missing


def _pairs(problem: Problem) -> dict[tuple[str, str], Container]:
    """The containers that fit a class of their family, memory included; the paper assumes that they do."""
    return {
        (app, family): container
        for (app, family), container in problem.containers.items()
        if app in problem.app_by_name
        and any(c.family == family and fits(container, c) for c in problem.classes)
    }


def _without_extended_memory(classes: tuple[InstanceClass, ...]) -> list[InstanceClass]:
    """Simplification 1: keep the cheapest of the classes of a family with equal cores."""
    best: dict[tuple[str, float], InstanceClass] = {}
    for c in classes:
        rival = best.get((c.family, c.cores))
        if rival is None or _slim_key(c) < _slim_key(rival):
            best[c.family, c.cores] = c
    return [c for c in classes if best[c.family, c.cores] is c]


def _slim_key(c: InstanceClass) -> tuple[float, float, str]:
    return (c.price_per_hour, -c.memory_gib, c.name)


def _has_cores(instance_class: InstanceClass, container: Container) -> bool:
    """Simplification 2."""
    return container.cores <= instance_class.cores * (1 + TOLERANCE)


def _is_multiple(large: InstanceClass, small: InstanceClass) -> bool:
    """Simplification 3 (theorem 1): k times the cores at k times the price, or more, k > 1 natural."""
    k = round(large.cores / small.cores)
    return (
        k > 1
        and math.isclose(large.cores, k * small.cores, rel_tol=TOLERANCE)
        and large.price_per_hour >= k * small.price_per_hour * (1 - TOLERANCE)
    )
