"""The cost model against the paper's equations, written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_extender.cost import PodPrices, best_first, price

shares = st.floats(0, 1)
taus = st.floats(0.01, 100)


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
        cpu_cores=2.0, memory_gib=4.0, containers=1, concurrency=4.0, price_weight=3.0, price_swing=0.5
    )
    # tau = 0.8 s, two being created and this one: S = 0.8 * 3 + 1.5; B = 1.25 * 2 + 0.75 * 4
    cost = prices.cost(turn_s=0.8 * 3, image_pull_s=1.5, cpu_free=0.75, memory_free=0.25)
    assert cost == pytest.approx((0.8 * 3 + 1.5 + 3.0 * (1.25 * 2 + 0.75 * 4)) / 4.0)


@given(
    rows=st.lists(
        st.tuples(taus, st.integers(0, 50), shares, shares, st.floats(0, 60)), min_size=1, max_size=40
    ),
    cpu=st.floats(0, 64),
    memory=st.floats(0, 512),
    containers=st.integers(1, 5),
    concurrency=st.floats(0.1, 100),
    weight=st.floats(0, 100),
    swing=shares,
)
def test_vectorised_costs_differ_from_eq_11_by_a_constant(
    rows: list[tuple[float, int, float, float, float]],
    cpu: float,
    memory: float,
    containers: int,
    concurrency: float,
    weight: float,
    swing: float,
) -> None:
    prices = PodPrices(cpu, memory, containers, concurrency, weight, swing)
    table = np.array([(tau * (k + 1), c, m, 0.0, tau, k + 1) for tau, k, c, m, _ in rows])
    pulls_s = np.array([pull for *_, pull in rows])
    exact = np.array([prices.cost(tau * (k + 1), pull, c, m) for tau, k, c, m, pull in rows])
    difference = exact - prices.costs(table, pulls_s)
    constant = weight * (1 - swing) * (cpu + memory) / concurrency
    np.testing.assert_allclose(difference, constant, rtol=1e-9, atol=1e-9 * max(1.0, float(exact.max())))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.integers(1, 20))
def test_best_first_is_the_head_of_the_sorted_list(costs: list[float], count: int) -> None:
    order = best_first(np.array(costs), count)
    assert [costs[i] for i in order] == sorted(costs)[:count]
    assert len(set(order.tolist())) == min(count, len(costs))
