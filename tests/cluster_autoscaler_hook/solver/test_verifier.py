"""Each constraint, broken alone, is caught and named."""

from __future__ import annotations

import pytest

from cluster_autoscaler_hook.solver.model import Allocation, App, Container, InstanceClass, Node, Problem
from cluster_autoscaler_hook.solver.verifier import VerificationError, verify, violations

# Memory binds at L before cores do unless containers aggregate: 8 of web are one container of 2 GiB.
PROBLEM = Problem(
    (App("web", 8.0, max_per_node=8), App("job", 2.0)),
    (
        InstanceClass("L", "F", 4.0, 8.0, 0.4, max_containers=3),
        InstanceClass("G4", "G", 4.0, 8.0, 0.5),
    ),
    {
        ("web", "F"): Container(0.25, 1.0, (1, 2, 4, 8), (2.0, 2.0, 2.0, 2.0)),
        ("job", "F"): Container(1.0, 1.0, (1,), (3.0,)),
        ("job", "G"): Container(3.0, 2.0, (1,), (3.0,)),
    },
)
GOOD = Allocation((Node("L", {"web": 8, "job": 2}),))


def test_a_good_allocation_passes() -> None:
    assert violations(PROBLEM, GOOD) == []
    verify(PROBLEM, GOOD)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([Node("L", {"web": 8}), Node("G4", {"job": 2})], "node 1 .G4.: 6 cores used of 4"),
        ([Node("L", {"web": 7, "job": 1}), Node("L", {"web": 1, "job": 1})], "node 0 .L.: 9 GiB used of 8"),
        (
            [Node("L", {"web": 7, "job": 1}), Node("L", {"web": 1, "job": 1})],
            "4 containers, the class takes 3",
        ),
        ([Node("L", {"web": 9}), Node("L", {"job": 2})], "9 containers of 'web', at most 8"),
        ([Node("L", {"web": 7}), Node("L", {"job": 2})], "app 'web': 7 of 8 served"),
        ([Node("L", {"web": 8, "job": 1})], "app 'job': 1 of 2 served"),
        ([Node("L", {"job": 2}), Node("G4", {"web": 8})], "8 containers of 'web' cannot be here"),
        ([*GOOD.nodes, Node("L", {"nobody": 1})], "1 containers of 'nobody' cannot be here"),
        ([*GOOD.nodes, Node("L", {"web": 0})], "0 containers of 'web' cannot be here"),
        ([*GOOD.nodes, Node("XL", {})], "node 1 .XL.: no such class"),
        ([], "app 'web': 0 of 8 served"),
    ],
)
def test_a_broken_constraint_is_caught(nodes: list[Node], message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        verify(PROBLEM, Allocation(tuple(nodes)))


def test_another_family_serves_with_its_own_performance() -> None:
    assert violations(PROBLEM, Allocation((Node("L", {"web": 8}), Node("G4", {"job": 1})))) == []


def test_decimal_fractions_that_fit_exactly_fit() -> None:
    problem = Problem(
        (App("a", 3.0),),
        (InstanceClass("S", "F", 0.3, 0.3, 1.0),),
        {("a", "F"): Container(0.1, 1.0, (1,), (0.1,))},
    )
    assert violations(problem, Allocation((Node("S", {"a": 3}),))) == []
