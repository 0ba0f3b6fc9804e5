from __future__ import annotations

import pytest

from cluster_autoscaler_hook.solver.model import Allocation, App, Container, InstanceClass, Node, Problem


def test_an_allocation_costs_the_sum_of_its_nodes() -> None:
    problem = Problem(
        (App("a", 2.0),),
        (InstanceClass("S", "F", 1, 4, 0.1), InstanceClass("L", "F", 2, 8, 0.3)),
        {("a", "F"): Container(1.0, 1.0, (1,), (1.0,))},
    )
    nodes = (Node("S", {"a": 1}), Node("L", {"a": 1}), Node("S", {"a": 1}))
    assert Allocation(nodes).cost_per_hour(problem) == pytest.approx(0.5)
