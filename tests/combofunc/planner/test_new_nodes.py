"""The cheapest sizes for nodes that do not exist yet, against trying every set."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_model.cover import cheapest_cover
from combofunc.planner.model import Size, Weights
from combofunc.planner.new_nodes import sizes_for_new_nodes

GIB = 2**30
SMALL, MEDIUM, LARGE = Size("s", 500, GIB // 2, 1), Size("m", 1000, GIB, 3), Size("l", 2000, 2 * GIB, 8)


def by_trying_all(sizes: dict[str, tuple[int, float]], need: int) -> float:
    """The least cost of a set that reaches the need."""
    counts = [range(math.ceil(need / concurrency) + 1) for concurrency, _ in sizes.values()]
    return min(
        sum(cost * n for (_, cost), n in zip(sizes.values(), numbers, strict=True))
        for numbers in itertools.product(*counts)
        if sum(q * n for (q, _), n in zip(sizes.values(), numbers, strict=True)) >= need
    )


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50)), min_size=1, max_size=3),
    st.integers(0, 24),
)
def test_as_cheap_as_the_best_of_all_sets(given: list[tuple[int, int]], need: int) -> None:
    sizes = {f"size-{i}": (q, float(cost)) for i, (q, cost) in enumerate(given)}
    chosen = cheapest_cover(sizes, need)
    assert sum(sizes[name][0] * n for name, n in chosen.items()) >= need
    cost = sum(sizes[name][1] * n for name, n in chosen.items())
    assert cost == pytest.approx(by_trying_all(sizes, need))


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=5), st.integers(4097, 100_000))
def test_a_large_need_is_reached_with_little_more(concurrency: list[int], need: int) -> None:
    sizes = {f"size-{i}": (q, float(q)) for i, q in enumerate(concurrency)}
    reached = sum(sizes[name][0] * n for name, n in cheapest_cover(sizes, need).items())
    assert need <= reached <= 1.5 * need + 3 * max(concurrency)


def test_creations_that_take_long_make_for_few_large_pods() -> None:
    assert sizes_for_new_nodes([SMALL, LARGE], 4, 2.0, Weights(price_weight=0.25)) == [LARGE]


def test_with_dear_room_the_tail_is_small() -> None:
    chosen = sizes_for_new_nodes([SMALL, MEDIUM, LARGE], 9, 1.0, Weights(price_weight=10.0))
    assert chosen == [LARGE, SMALL]
