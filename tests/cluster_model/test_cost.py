"""The cost model against the paper's equations, written out by hand."""

from __future__ import annotations

import pytest

from cluster_model.cost import PodPrices, price


@pytest.mark.parametrize(
    ("free", "swing", "beta"),
    [
        (1.0, 0.5, 1.5),  # utilisation 0 %: the price is highest, 1 + x
        (0.0, 0.5, 0.5),  # utilisation 100 %: the price is lowest, 1 - x
        (0.5, 0.5, 1.0),
        (0.25, 1.0, 0.5),
        (0.7, 0.0, 1.0),  # x = 0: no fragment pricing
    ],
)
def test_price_is_eq_7(free: float, swing: float, beta: float) -> None:
    assert price(free, swing) == pytest.approx(beta)
    assert price(free, swing) == pytest.approx(free * (1 + swing) + (1 - free) * (1 - swing))


def test_cost_is_eq_11_term_by_term() -> None:
    prices = PodPrices(
        cpu_cores=2.0, memory_gib=4.0, work=1.0, concurrency=4.0, price_weight=3.0, price_swing=0.5
    )
    # tau = 0.8 s, two being created and this one: S = 0.8 * 3 + 1.5; B = 1.25 * 2 + 0.75 * 4
    cost = prices.cost(turn_s=0.8 * 3, image_pull_s=1.5, cpu_free=0.75, memory_free=0.25)
    assert cost == pytest.approx((0.8 * 3 + 1.5 + 3.0 * (1.25 * 2 + 0.75 * 4)) / 4.0)
