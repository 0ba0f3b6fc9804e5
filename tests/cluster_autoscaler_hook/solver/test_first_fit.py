from __future__ import annotations

import time
from itertools import islice

import pytest

from cluster_autoscaler_hook.solver import first_fit, problem_file
from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import App, Container, InstanceClass, Problem
from cluster_autoscaler_hook.solver.verifier import violations
from experiments.fcma import random_problems
from tests.cluster_autoscaler_hook.solver.builders import EXAMPLES

TABLE_3 = problem_file.load(EXAMPLES / "table3.json")


def soon() -> Deadline:
    return Deadline.after(5)


def test_by_core_takes_the_largest_class() -> None:
    solution = first_fit.by_core(TABLE_3, soon())
    assert violations(TABLE_3, solution.allocation) == []
    # AC48 has the cores of BC48 and AM48, and of these BC48 costs least.
    assert {node.instance_class for node in solution.allocation.nodes} == {"BC48"}


def test_by_price_takes_the_cheapest_class_the_largest_container_fits() -> None:
    solution = first_fit.by_price(TABLE_3, soon())
    assert violations(TABLE_3, solution.allocation) == []
    # A level-4 container of A1 has 3.2 cores in family B (BC4), what is then left 1.8 in A (AC2); one of
    # A2 has 7.6 in B (BC8) and a level-2 one of A3 2.4 (BC4).
    assert {node.instance_class for node in solution.allocation.nodes} == {"AC2", "BC4", "BC8"}


def test_a_later_app_goes_to_the_first_node_with_room() -> None:
    problem = Problem(
        (App("a", 3.0), App("b", 2.0)),
        (InstanceClass("L", "F", 4, 16, 0.4),),
        {("a", "F"): Container(1.0, 1.0, (1,), (1.0,)), ("b", "F"): Container(1.0, 1.0, (1,), (1.0,))},
    )
    nodes = first_fit.by_core(problem, soon()).allocation.nodes
    assert [node.containers for node in nodes] == [{"a": 3, "b": 1}, {"b": 1}]


def test_a_smaller_container_class_where_the_largest_fits_nowhere() -> None:
    problem = Problem(
        (App("a", 4.0),),
        (InstanceClass("S", "F", 2, 4, 0.2),),
        {("a", "F"): Container(1.0, 1.0, (1, 4), (1.0, 2.0))},
    )
    nodes = first_fit.by_price(problem, soon()).allocation.nodes
    assert [node.containers for node in nodes] == [{"a": 2}, {"a": 2}]


def test_the_bound_is_each_apps_share_of_its_cheapest_class() -> None:
    # 3.6 cores at 0.10, 152 and 21.6 at 0.07; counts are not rounded: A1 needs 6, A2 20, A3 18 exactly.
    assert first_fit.lower_bound(TABLE_3) == pytest.approx(0.36 + 10.64 + 1.512)


def test_the_bound_counts_memory_where_it_is_scarce() -> None:
    problem = Problem(
        (App("a", 8.0),),
        (InstanceClass("S", "F", 4, 4, 1.0),),
        {("a", "F"): Container(0.1, 1.0, (1, 2), (3.0, 4.0))},
    )
    assert first_fit.lower_bound(problem) == pytest.approx(4.0)


def test_hundreds_of_nodes_take_seconds_at_most() -> None:
    largest = max(islice(random_problems.paper_grid(5), 80), key=first_fit.lower_bound)
    started_s = time.monotonic()
    for solve in (first_fit.by_core, first_fit.by_price):
        assert violations(largest, solve(largest, soon()).allocation) == []
    assert time.monotonic() - started_s < 20
