"""Bad input is named; good input is priced by eqs (7) and (8)."""

from __future__ import annotations

from typing import Any

import pytest

from combofunc.planner import planning
from combofunc.planner.model import PlanRequest, Size, Weights
from combofunc.planner.problem import prepare
from tests.combofunc.planner.builders import GIB, SIZES, SMALL, node, running

NAN = float("nan")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": ()}, "sizes: none offered"),
        ({"sizes": (Size("none", 100, 100, 0),)}, "size 'none': concurrency 0 is below 1"),
        ({"sizes": (Size("minus", -1, 100, 1),)}, "size 'minus': -1 millicores"),
        ({"sizes": (SMALL, SMALL)}, "size 'small': 2 times"),
        ({"nodes": [node("a"), node("a")]}, "node 'a': 2 times"),
        ({"nodes": [node("a", tau_create_s=NAN)]}, "node 'a': tau_create_s nan"),
        ({"nodes": [node("a", tau_resize_s=-1.0)]}, "tau_resize_s -1.0"),
        ({"containers": (*running(SMALL), *running(SMALL))}, "pod 'pod-a-0': 2 times"),
        ({"target": -1}, "target: -1 is below 0"),
        ({"weights": Weights(price_weight=NAN)}, "price_weight: nan"),
        ({"weights": Weights(price_swing=1.5)}, "price_swing: 1.5"),
    ],
)
def test_bad_input_is_named(changes: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "sizes": SIZES,
        "nodes": [node()],
        "containers": (),
        "target": 1,
        "weights": Weights(),
    }
    with pytest.raises(ValueError, match=message):
        planning.plan(PlanRequest(**(good | changes)))


@pytest.mark.parametrize(
    ("cpu_free", "swing", "beta"),
    [(8000, 0.5, 1.5), (4000, 0.5, 1.0), (0, 0.5, 0.5), (2000, 1.0, 0.5), (-500, 0.5, 0.5), (9000, 0.5, 1.5)],
)
def test_a_node_is_priced_by_what_is_free(cpu_free: int, swing: float, beta: float) -> None:
    problem = prepare(PlanRequest(SIZES, [node(cpu_free_millicores=cpu_free)], (), 1, Weights(2.0, swing)))
    assert problem.cpu_beta[0] == pytest.approx(beta)
    assert problem.cpu_price[0] == pytest.approx(2.0 * beta / 1000)
    assert problem.memory_price[0] == pytest.approx(2.0 * (1 + swing) / GIB)
