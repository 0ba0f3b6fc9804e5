"""Every refusal names the field, the value and the reason."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from cluster_autoscaler_hook.solver.model import (
    App,
    Container,
    InfeasibleProblem,
    InstanceClass,
    InvalidProblem,
    Problem,
)

APP = App("web", 10.0)
CLASS = InstanceClass("L", "F", 4.0, 16.0, 0.4)
CONTAINER = Container(1.0, 2.0, (1, 2), (1.0, 1.5))


def problem(app: App = APP, c: InstanceClass = CLASS, container: Container = CONTAINER) -> Problem:
    return Problem((app,), (c,), {("web", "F"): container})


def test_a_good_problem_passes() -> None:
    problem()
    problem(app=replace(APP, workload=2_000_000.0))  # a million containers, the most there may be


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cores": 0.0}, "instance class 'L': cores is 0.0"),
        ({"memory_gib": -1.0}, "instance class 'L': memory_gib is -1.0"),
        ({"price_per_hour": math.nan}, "instance class 'L': price_per_hour is nan"),
        ({"price_per_hour": 0.0}, "price_per_hour is 0.0, it must be a number above 0"),
        ({"max_containers": -1}, "max_containers is -1"),
    ],
)
def test_a_class_that_means_nothing(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        problem(c=replace(CLASS, **change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workload": -1.0}, "app 'web': workload is -1.0"),
        ({"workload": math.inf}, "app 'web': workload is inf"),
        ({"sfmpl": 0.0}, "app 'web': sfmpl is 0.0"),
        ({"sfmpl": 1.1}, "app 'web': sfmpl is 1.1"),
        ({"max_per_node": 0}, "app 'web': max_per_node is 0"),
        ({"workload": 1e9}, "is a unit wrong"),
    ],
)
def test_an_app_that_means_nothing(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        problem(app=replace(APP, **change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cores": -1.0}, "cores is -1.0"),
        ({"performance": 0.0}, "performance is 0.0"),
        ({"levels": (2, 4)}, "they must start with 1"),
        ({"levels": ()}, "they must start with 1"),
        ({"levels": (1, 4, 2), "memory_gib": (1.0, 1.0, 1.0)}, "they must ascend"),
        ({"levels": (1, 2, 2), "memory_gib": (1.0, 1.0, 1.0)}, "they must ascend"),
        ({"levels": (1, 2, 2_000_000), "memory_gib": (1.0, 1.0, 1.0)}, "level 2000000 is more than"),
        ({"memory_gib": (1.0,)}, "1 memory sizes, 2 aggregation levels"),
        ({"memory_gib": (1.0, 0.5)}, "falls with the aggregation level"),
        ({"memory_gib": (math.nan, 1.0)}, "memory_gib is nan"),
    ],
)
def test_a_container_that_means_nothing(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message) as refused:
        problem(container=replace(CONTAINER, **change))
    assert "container of app 'web' in family 'F'" in str(refused.value)


def test_names_are_there_once() -> None:
    with pytest.raises(InvalidProblem, match="app 'web' is there 2 times"):
        Problem((APP, APP), (CLASS,), {("web", "F"): CONTAINER})
    with pytest.raises(InvalidProblem, match="instance class 'L' is there 2 times"):
        Problem((APP,), (CLASS, CLASS), {("web", "F"): CONTAINER})


def test_no_class_at_all() -> None:
    with pytest.raises(InvalidProblem, match="no instance class"):
        Problem((APP,), (), {("web", "F"): CONTAINER})


@pytest.mark.parametrize(
    ("container", "message"),
    [
        (
            replace(CONTAINER, cores=5.0),
            "app 'web' fits nowhere.*needs 5 cores.*most one class has is 4 cores",
        ),
        (replace(CONTAINER, memory_gib=(17.0, 17.0)), "needs 1 cores and 17 GiB"),
    ],
)
def test_an_app_that_fits_no_class(container: Container, message: str) -> None:
    with pytest.raises(InfeasibleProblem, match=message):
        problem(container=container)


def test_an_app_whose_families_have_no_class() -> None:
    with pytest.raises(InfeasibleProblem, match="runs in families 'G'; no instance class"):
        Problem((APP,), (CLASS,), {("web", "G"): CONTAINER})
    with pytest.raises(InfeasibleProblem, match="families none"):
        Problem((APP,), (CLASS,), {})


def test_a_class_without_pods_takes_nothing() -> None:
    with pytest.raises(InfeasibleProblem, match="app 'web' fits nowhere"):
        problem(c=replace(CLASS, max_containers=0))


def test_an_app_without_workload_may_fit_nowhere() -> None:
    problem(app=replace(APP, workload=0.0), container=replace(CONTAINER, cores=50.0))


def test_what_fits_exactly_fits() -> None:
    problem(container=replace(CONTAINER, cores=0.1 * 3, memory_gib=(16.0, 16.0)), c=replace(CLASS, cores=0.3))
