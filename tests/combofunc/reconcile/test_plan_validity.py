"""When pods that no node takes are planned anew."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from combofunc.pods.pod import FunctionPod
from combofunc.reconcile.function_state import FunctionState, Observation
from combofunc.reconcile.plan_validity import stuck_pods
from combofunc.reconcile.spec import ComboFunc
from combofunc.settings import Settings
from tests.combofunc.function_in_world import FunctionInWorld
from tests.combofunc.pods.world import World, node


def unschedulable(since_s: float) -> FunctionPod:
    """A pod of a real shape that the scheduler tried to place in vain since then."""
    function = FunctionInWorld(World([node("node-0")]))
    function.wants(1)
    function.reconcile()
    (pod,) = function.pods
    return replace(pod, node="", gated=False, unschedulable_since_s=since_s)


@pytest.mark.parametrize(
    ("stuck_plans", "wait_s"), [(0, 10.0), (1, 20.0), (2, 40.0), (6, 640.0), (7, 640.0), (100, 640.0)]
)
def test_the_wait_doubles_with_each_plan_made_in_vain(stuck_plans: int, wait_s: float) -> None:
    settings, state = Settings(unschedulable_s=10.0), FunctionState(stuck_plans=stuck_plans)
    pod = unschedulable(since_s=1000.0)
    for early_s, stuck in ((0.1, set[str]()), (-0.1, {pod.uid})):
        seen = Observation(cast(ComboFunc, None), 1, [pod], 1000.0 + wait_s - early_s)
        assert stuck_pods(seen, state, settings) == stuck
