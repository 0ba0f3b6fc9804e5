"""The cheapest sizes for nodes that do not exist yet, against trying every set."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combofunc.planner.cover import cheapest_cover, costs_on_empty_nodes
from combofunc.planner.model import Size, Weights

GIB = 2**30
SMALL, MEDIUM, LARGE = Size("s", 500, GIB // 2, 1), Size("m", 1000, GIB, 3), Size("l", 2000, 2 * GIB, 8)


def by_trying_all(costs: dict[Size, float], need: int) -> float:
    """The least cost of a set that reaches the need."""
    sizes = list(costs)
    counts = [range(math.ceil(need / size.concurrency) + 1) for size in sizes]
    return min(
        sum(costs[size] * n for size, n in zip(sizes, numbers, strict=True))
        for numbers in itertools.product(*counts)
        if sum(size.concurrency * n for size, n in zip(sizes, numbers, strict=True)) >= need
    )


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50)), min_size=1, max_size=3),
    st.integers(0, 24),
)
def test_as_cheap_as_the_best_of_all_sets(given: list[tuple[int, int]], need: int) -> None:
    costs = {Size(f"size-{i}", cost, GIB, q): float(cost) for i, (q, cost) in enumerate(given)}
    chosen = cheapest_cover(costs, need)
    assert sum(size.concurrency for size in chosen) >= need
    assert sum(costs[size] for size in chosen) == pytest.approx(by_trying_all(costs, need))


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=5), st.integers(4097, 100_000))
def test_a_large_need_is_reached_with_little_more(concurrency: list[int], need: int) -> None:
    costs = {Size(f"size-{i}", 1000, GIB, q): float(q) for i, q in enumerate(concurrency)}
    reached = sum(size.concurrency for size in cheapest_cover(costs, need))
    assert need <= reached <= 1.5 * need + 3 * max(concurrency)


def test_a_container_costs_its_creation_and_its_room_on_an_empty_node() -> None:
    costs = costs_on_empty_nodes([SMALL, LARGE], 2.0, Weights(price_weight=0.25, price_swing=0.5))
    assert costs == {SMALL: 2 + 0.25 * 1.5 * 1.0, LARGE: 2 + 0.25 * 1.5 * 4.0}
    assert cheapest_cover(costs, 4) == [LARGE]


def test_with_dear_room_the_tail_is_small() -> None:
    costs = costs_on_empty_nodes([SMALL, MEDIUM, LARGE], 1.0, Weights(price_weight=10.0))
    assert cheapest_cover(costs, 9) == [LARGE, SMALL]
