"""The bench of sizes and nodes chosen together: its draws, its section, and its oracle."""

from __future__ import annotations

import pytest

from cluster_autoscaler_hook.karpenter.model import Kind, Offer
from cluster_autoscaler_hook.karpenter.size_choice import Demand
from experiments.nodes.exact_choice import TooLarge, exact_cost
from experiments.nodes.joint_problems import draw
from experiments.results.sections import section

GIB = 1 << 30
OFFERS = (Offer("a", 2000, 4 * GIB, 10, 0.1, {}), Offer("b", 4000, 8 * GIB, 10, 0.15, {}))


def test_a_seed_draws_the_same_shortage_and_another_seed_another() -> None:
    assert draw(3, 4) == draw(3, 4) != draw(4, 4)
    shortage = draw(3, 4)
    assert len(shortage.functions) == 4
    for function in shortage.functions:
        concurrency = [size.concurrency for size in function.sizes]
        assert concurrency == sorted(set(concurrency))
        assert [size.cpu_millicores for size in function.sizes] == sorted(
            size.cpu_millicores for size in function.sizes
        )


def test_the_oracle_by_hand() -> None:
    """Five of concurrency 1 take three of class a, or a and b; one of 4 and one of 1 fill class b."""
    video = Demand("v", 5, {}, {"s": Kind(1000, GIB), "l": Kind(2500, GIB)}, {"s": 1, "l": 4})
    assert exact_cost({}, [video], OFFERS) == pytest.approx(0.15)
    assert exact_cost({Kind(1500, 3 * GIB): 2}, [video], OFFERS) == pytest.approx(0.30)
    with pytest.raises(TooLarge):
        exact_cost({Kind(10, GIB // 100): 9}, [video], OFFERS, most_patterns=3)


def test_the_section_shows_each_baseline() -> None:
    ratio = {"geomean": 0.9, "low": 0.8, "high": 0.95, "worst": 1.0}
    about = {"command": "surgekit bench nodes --joint", "date": "2026-11-19", "cores": 2, "memory_gib": 8}
    figures = {"about": about, "seeds": "2001-2020", "joint / FCMA alone, 4 functions": ratio}
    ((name, cost, worst),) = section(figures).rows
    assert (name, str(cost), worst) == ("FCMA alone, 4 functions", "0.900 (0.800 to 0.950)", "1.00")
