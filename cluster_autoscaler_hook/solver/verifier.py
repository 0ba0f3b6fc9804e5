"""Checks every answer against the problem's statement, with its own sums in exact fractions. The containers
that run on a node are part of the answer, and are checked too."""

from __future__ import annotations

from fractions import Fraction

from cluster_autoscaler_hook.solver.model import TOLERANCE, Allocation, Problem

__all__ = ["VerificationError", "verify", "violations"]


class VerificationError(AssertionError):
    """A solver returned an allocation that breaks a constraint. This is a bug; the allocation is not used."""


def verify(problem: Problem, allocation: Allocation) -> None:
    found = violations(problem, allocation)
    if found:
        raise VerificationError("; ".join(found[:5]))


def violations(problem: Problem, allocation: Allocation) -> list[str]:
    """Every constraint that the allocation breaks, in words."""
    found = []
    served = {app.name: Fraction(0) for app in problem.apps}
    for index, node in enumerate(allocation.nodes):
        where = f"node {index} ({node.instance_class})"
        instance_class = problem.class_by_name.get(node.instance_class)
        if instance_class is None:
            found.append(f"{where}: no such class")
            continue
        cores = memory = Fraction(0)
        running = 0
        for app_name, count in node.containers.items():
            container = problem.containers.get((app_name, instance_class.family))
            if app_name not in served or container is None or count < 1:
                found.append(f"{where}: {count} containers of {app_name!r} cannot be here")
                continue
            limit = problem.app_by_name[app_name].max_per_node
            if limit is not None and count > limit:
                found.append(f"{where}: {count} containers of {app_name!r}, at most {limit} may share a node")
            served[app_name] += count * Fraction(container.performance)
            cores += count * Fraction(container.cores)
            as_containers = container.aggregation.containers(count)
            if sum(level * number for level, number in as_containers.items()) != count:
                found.append(f"{where}: {count} containers of {app_name!r} do not run as {as_containers}")
            sizes = dict(zip(container.levels, container.memory_gib, strict=True))
            memory += sum(number * Fraction(sizes[level]) for level, number in as_containers.items())
            running += sum(as_containers.values())
        found += _over(where, "cores", cores, instance_class.cores)
        found += _over(where, "GiB", memory, instance_class.memory_gib)
        if instance_class.max_containers is not None and running > instance_class.max_containers:
            found.append(f"{where}: {running} containers, the class takes {instance_class.max_containers}")
    for app in problem.apps:
        if served[app.name] < Fraction(app.workload) * (1 - Fraction(TOLERANCE)):
            found.append(f"app {app.name!r}: {float(served[app.name]):g} of {app.workload:g} served")
    return found


def _over(where: str, unit: str, used: Fraction, capacity: float) -> list[str]:
    if used <= Fraction(capacity) * (1 + Fraction(TOLERANCE)):
        return []
    return [f"{where}: {float(used):g} {unit} used of {capacity:g}"]
