"""Checks that a problem is well formed and has an answer. Errors name the field, the value and the reason."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from cluster_autoscaler_hook.solver.model import (
    TOLERANCE,
    App,
    Container,
    InfeasibleProblem,
    InstanceClass,
    InvalidProblem,
    Problem,
)

__all__ = ["MAX_CONTAINERS", "fits", "validate"]

# More containers than this are a mistake in a unit.
MAX_CONTAINERS = 1_000_000


def validate(problem: Problem) -> None:
    _unique("app", [app.name for app in problem.apps])
    _unique("instance class", [instance_class.name for instance_class in problem.classes])
    if not problem.classes:
        raise InvalidProblem("there is no instance class")
    for instance_class in problem.classes:
        _check_class(instance_class)
    for (app_name, family), container in problem.containers.items():
        _check_container(f"container of app {app_name!r} in family {family!r}", container)
    families: dict[str, list[tuple[str, Container]]] = defaultdict(list)
    for (app_name, family), container in problem.containers.items():
        families[app_name].append((family, container))
    classes: dict[str, list[InstanceClass]] = defaultdict(list)
    for instance_class in problem.classes:
        classes[instance_class.family].append(instance_class)
    for app in problem.apps:
        _check_app(app)
        if app.workload > 0:
            _check_feasible(app, families[app.name], classes)


def fits(container: Container, instance_class: InstanceClass) -> bool:
    """Whether one minimum-size container fits an empty node."""
    room = 1 + TOLERANCE / 2  # the same tolerance as in the solvers
    return (
        container.cores <= instance_class.cores * room
        and container.memory_gib[0] <= instance_class.memory_gib * room
        and instance_class.max_containers != 0
    )


def _unique(kind: str, names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidProblem(f"{kind} {twice[0]!r} is there {names.count(twice[0])} times")


def _check_class(instance_class: InstanceClass) -> None:
    where = f"instance class {instance_class.name!r}"
    _positive(where, "cores", instance_class.cores)
    _positive(where, "memory_gib", instance_class.memory_gib)
    _positive(where, "price_per_hour", instance_class.price_per_hour)
    if instance_class.max_containers is not None and instance_class.max_containers < 0:
        raise InvalidProblem(f"{where}: max_containers is {instance_class.max_containers}, below 0")


def _check_container(where: str, container: Container) -> None:
    _positive(where, "cores", container.cores, or_zero=True)
    _positive(where, "performance", container.performance)
    if not container.levels or container.levels[0] != 1:
        raise InvalidProblem(f"{where}: aggregation levels are {container.levels}, they must start with 1")
    if list(container.levels) != sorted(set(container.levels)):
        raise InvalidProblem(f"{where}: aggregation levels are {container.levels}, they must ascend")
    if container.levels[-1] > MAX_CONTAINERS:
        raise InvalidProblem(
            f"{where}: aggregation level {container.levels[-1]} is more than {MAX_CONTAINERS:,} containers"
        )
    if len(container.memory_gib) != len(container.levels):
        raise InvalidProblem(
            f"{where}: {len(container.memory_gib)} memory sizes, {len(container.levels)} aggregation levels"
        )
    for memory in container.memory_gib:
        _positive(where, "memory_gib", memory, or_zero=True)
    if list(container.memory_gib) != sorted(container.memory_gib):
        raise InvalidProblem(f"{where}: memory_gib {container.memory_gib} falls with the aggregation level")


def _check_app(app: App) -> None:
    where = f"app {app.name!r}"
    _positive(where, "workload", app.workload, or_zero=True)
    if not 0 < app.sfmpl <= 1:
        raise InvalidProblem(f"{where}: sfmpl is {app.sfmpl}, it must be above 0 and at most 1")
    if app.max_per_node is not None and app.max_per_node < 1:
        raise InvalidProblem(f"{where}: max_per_node is {app.max_per_node}, it must be at least 1")


def _check_feasible(
    app: App, families: list[tuple[str, Container]], classes: Mapping[str, list[InstanceClass]]
) -> None:
    if not any(classes[family] for family, _ in families):
        named = ", ".join(repr(family) for family, _ in families) or "none"
        raise InfeasibleProblem(
            f"app {app.name!r} fits nowhere: it runs in families {named}; no instance class is of these"
        )
    needed = math.inf
    refusals = []
    for family, container in families:
        if any(fits(container, instance_class) for instance_class in classes[family]):
            needed = min(needed, app.workload / container.performance)
        elif classes[family]:
            refusals.append(_why_not(family, container, classes[family]))
    if math.isinf(needed):
        raise InfeasibleProblem(f"app {app.name!r} fits nowhere: " + "; ".join(refusals))
    if needed > MAX_CONTAINERS:
        raise InvalidProblem(
            f"app {app.name!r}: a workload of {app.workload:g} needs {needed:,.0f} containers, "
            f"more than {MAX_CONTAINERS:,}; is a unit wrong?"
        )


def _why_not(family: str, container: Container, classes: list[InstanceClass]) -> str:
    cores, memory = max(c.cores for c in classes), max(c.memory_gib for c in classes)
    return (
        f"in family {family!r} its container needs {container.cores:g} cores and "
        f"{container.memory_gib[0]:g} GiB; the most one class has is {cores:g} cores, {memory:g} GiB"
    )


def _positive(where: str, name: str, value: float, *, or_zero: bool = False) -> None:
    if not math.isfinite(value) or value < 0 or (value == 0 and not or_zero):
        wanted = "at least 0" if or_zero else "above 0"
        raise InvalidProblem(f"{where}: {name} is {value}, it must be a number {wanted}")
