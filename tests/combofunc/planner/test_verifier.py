"""The verifier finds each fault there can be in a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from combofunc.planner import planning
from combofunc.planner.model import Container, Creation, Plan, PlanRequest, Resize, Size
from combofunc.planner.verifier import violations
from tests.combofunc.planner.builders import LARGE, MIB, MIDDLE, SIZES, SMALL, node, running

NODES = [node("a", cpu_free_millicores=2000), node("closed", accepts=False)]
CONTAINERS = (*running(MIDDLE, SMALL, on="a"), *running(SMALL, on="closed", resizable=False))
PLAN = planning.plan(PlanRequest(SIZES, NODES, CONTAINERS, 14))
ODD = Size("odd", 10, MIB, 1)


def found(plan: Plan) -> str:
    return "; ".join(violations(plan, PlanRequest(SIZES, NODES, CONTAINERS, 14)))


def test_a_good_plan_has_no_fault() -> None:
    assert not found(PLAN)
    assert PLAN.resized


@pytest.mark.parametrize(
    ("plan", "fault"),
    [
        (replace(PLAN, target=15), "target 15 instead of 14"),
        (replace(PLAN, removed=()), "are not the containers of the request"),
        (
            replace(PLAN, removed=(*PLAN.removed, Container("x", "a", SMALL))),
            "are not the containers of the request",
        ),
        (replace(PLAN, kept=(*PLAN.kept, Container("x", "a", ODD))), "kept with odd: not offered"),
        (replace(PLAN, resized=(Resize(CONTAINERS[0], ODD),)), "resized to odd, which is not offered"),
        (replace(PLAN, resized=(Resize(CONTAINERS[0], MIDDLE),)), "resized to the size it has"),
        (replace(PLAN, resized=(Resize(CONTAINERS[2], LARGE),)), "cannot be resized"),
        (replace(PLAN, created=(Creation("nowhere", SMALL),)), "no such node"),
        (replace(PLAN, created=(Creation("closed", SMALL),)), "which accepts none"),
        (replace(PLAN, created=(Creation("a", ODD),)), "which is not offered"),
        (replace(PLAN, created=(Creation("a", LARGE),) * 3), "millicores of 2750"),
        (replace(PLAN, scaling_s=PLAN.scaling_s + 0.1), "scaling_s"),
        (replace(PLAN, resource_price=PLAN.resource_price + 0.1), "resource_price"),
        (replace(PLAN, cost=PLAN.cost + 0.1), "cost"),
    ],
)
def test_each_fault_is_found(plan: Plan, fault: str) -> None:
    assert fault in found(plan)


def test_memory_and_pods_run_out_too() -> None:
    plan = planning.plan(PlanRequest([SMALL], [node()], (), 1))
    for full, fault in ((node(memory_free_bytes=0), "bytes of 0"), (node(pods_free=0), "1 pods of 0")):
        assert fault in "; ".join(violations(plan, PlanRequest([SMALL], [full], (), 1)))
