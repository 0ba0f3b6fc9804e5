from __future__ import annotations

import pytest

from cluster_autoscaler_hook.solver import secondary
from cluster_autoscaler_hook.solver.model import Allocation, App, Container, InstanceClass, Node, Problem

PROBLEM = Problem(
    (App("web", 8.0, sfmpl=0.5), App("job", 2.0, sfmpl=0.5)),
    (InstanceClass("S", "F", 2.0, 8.0, 0.2), InstanceClass("L", "F", 4.0, 16.0, 0.4)),
    {
        ("web", "F"): Container(0.25, 1.0, (1, 2, 4), (0.5, 0.5, 0.5)),
        ("job", "F"): Container(1.0, 1.0, (1,), (1.0,)),
    },
)
ALLOCATION = Allocation((Node("L", {"web": 4, "job": 2}), Node("S", {"web": 2}), Node("S", {"web": 3})))


def test_fault_tolerance_is_the_share_of_apps_within_their_sfmpl() -> None:
    assert secondary.fault_tolerance(PROBLEM, ALLOCATION) == 0.5  # web loses 4 of 9, job all


def test_exactly_the_sfmpl_is_within_it() -> None:
    halves = Allocation((Node("L", {"web": 4, "job": 1}), Node("L", {"web": 4, "job": 1})))
    assert secondary.fault_tolerance(PROBLEM, halves) == 1.0


def test_load_balance_is_the_inverse_of_an_apps_nodes() -> None:
    assert secondary.load_balance(PROBLEM, ALLOCATION) == pytest.approx((1 / 3 + 1) / 2)


def test_isolation_counts_aggregated_containers() -> None:
    # L: one level-4 web and two jobs; the first S: one level-2; the second: a level-2 and a level-1.
    assert secondary.isolation(PROBLEM, ALLOCATION) == pytest.approx((1 / 3 + 1 + 1 / 2) / 3)


def test_node_recycling_is_the_share_of_cores_that_stay() -> None:
    after = Allocation((Node("L", {"web": 4}), Node("L", {"job": 2}), Node("S", {"web": 4})))
    assert secondary.node_recycling(ALLOCATION, after, PROBLEM) == pytest.approx((4 + 2) / 10)
    assert secondary.node_recycling(ALLOCATION, ALLOCATION, PROBLEM) == 1.0
    assert secondary.node_recycling(Allocation(()), after, PROBLEM) == 0.0


def test_nothing_to_run_is_perfect() -> None:
    nothing = Allocation(())
    assert secondary.fault_tolerance(PROBLEM, nothing) == 1.0
    assert secondary.load_balance(PROBLEM, nothing) == 1.0
    assert secondary.isolation(PROBLEM, nothing) == 1.0
    assert secondary.node_recycling(nothing, nothing, PROBLEM) == 1.0
