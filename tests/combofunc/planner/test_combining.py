"""Who gives how much, against every way to share a target."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from combofunc.planner import combining
from combofunc.planner.work import Work

costs = st.lists(
    st.lists(st.one_of(st.floats(0, 9), st.just(np.inf)), min_size=4, max_size=4).map(
        lambda row: [0.0, *row]
    ),
    min_size=1,
    max_size=4,
)


def best(cost: list[list[float]], target: int) -> tuple[int, float]:
    """The most that is reached, and the least cost of it."""
    shares = product(*(range(len(row)) for row in cost))
    found = [(sum(share), sum(row[q] for row, q in zip(cost, share, strict=True))) for share in shares]
    possible = [(min(given, target), c) for given, c in found if np.isfinite(c)]
    most = max(reached for reached, _ in possible)
    return most, min(c for reached, c in possible if reached == most)


@settings(max_examples=200)
@given(costs, st.integers(0, 18))
def test_few_nodes_are_combined_exactly(cost: list[list[float]], target: int) -> None:
    shares = combining.combine(np.array(cost), target, Work(np.inf))
    reached, least = best(cost, target)
    assert min(int(shares.sum()), target) == reached
    assert sum(row[q] for row, q in zip(cost, shares, strict=True)) == pytest.approx(least)


@settings(max_examples=200)
@given(costs, st.integers(0, 18))
def test_around_a_price_too(cost: list[list[float]], target: int) -> None:
    """All nodes fit into the part that is combined exactly: leaving out what loses too much loses nothing."""
    array = np.array(cost)
    most = sum(max(q for q, c in enumerate(row) if np.isfinite(c)) for row in cost)
    if not array.argmin(axis=1).sum() < target < most:
        return
    shares = combining.around_a_price(array, target, Work(np.inf))
    assert shares.sum() >= target
    assert sum(row[q] for row, q in zip(cost, shares, strict=True)) == pytest.approx(best(cost, target)[1])
