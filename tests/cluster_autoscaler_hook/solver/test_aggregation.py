"""Which containers run, for any levels: against a brute force that shares nothing with it."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.solver.aggregation import Aggregation

levels = st.sets(st.integers(2, 16), max_size=4).map(lambda more: (1, *sorted(more)))


@st.composite
def sizes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Levels, and memory that grows with them in quarters, which floating point adds exactly."""
    of = draw(levels)
    memory = sorted(draw(st.lists(st.integers(0, 40), min_size=len(of), max_size=len(of))))
    return of, tuple(quarters / 4 for quarters in memory)


def least(of: tuple[int, ...], memory: tuple[float, ...], count: int) -> tuple[Fraction, int]:
    """Least memory and, of that, the fewest containers, by trying every last container."""

    @cache
    def best(left: int) -> tuple[Fraction, int]:
        if left == 0:
            return Fraction(0), 0
        tried = []
        for level, size in zip(of, memory, strict=True):
            if level <= left:
                gib, running = best(left - level)
                tried.append((gib + Fraction(size), running + 1))
        return min(tried)

    for smaller in range(count):
        best(smaller)
    return best(count)


@given(of=sizes(), count=st.integers(0, 300))
def test_nothing_needs_less_memory_and_of_equal_memory_nothing_is_fewer(
    of: tuple[tuple[int, ...], tuple[float, ...]], count: int
) -> None:
    aggregation = Aggregation(*of)
    memory, running = least(*of, count)
    assert aggregation.memory_of(count) == pytest.approx(float(memory), rel=1e-9)
    assert aggregation.running(count) == running


@given(of=sizes(), count=st.integers(0, 5000))
def test_the_containers_are_of_the_levels_and_add_up(
    of: tuple[tuple[int, ...], tuple[float, ...]], count: int
) -> None:
    aggregation = Aggregation(*of)
    containers = aggregation.containers(count)
    assert sum(level * number for level, number in containers.items()) == count
    assert containers.keys() <= set(of[0])
    size = dict(zip(*of, strict=True))
    assert aggregation.running(count) == sum(containers.values())
    memory = sum(number * size[level] for level, number in containers.items())
    assert aggregation.memory_of(count) == pytest.approx(memory)


@given(
    chain=st.lists(st.integers(2, 4), max_size=3),
    memory=st.integers(1, 40),
    growth=st.integers(0, 4),
    count=st.integers(0, 300),
)
def test_levels_that_divide_each_other_are_taken_largest_first_as_algorithm_2_does(
    chain: list[int], memory: int, growth: int, count: int
) -> None:
    of = [1]
    for factor in chain:
        of.append(of[-1] * factor)
    by_algorithm_2, left = {}, count
    for level in reversed(of):
        if left // level:
            by_algorithm_2[level] = left // level
        left %= level
    sizes = tuple(memory * (4 + growth * (level - 1)) / 4 for level in of)
    assert Aggregation(tuple(of), sizes).containers(count) == by_algorithm_2


@pytest.mark.parametrize(
    ("of", "memory", "count", "containers"),
    [
        ((1, 2, 6, 12), (1.0,) * 4, 50, {12: 4, 2: 1}),  # 'Phase 4. Container aggregation'
        ((1, 2, 4), (1.0,) * 3, 6, {4: 1, 2: 1}),  # fig. 4e, A1
        ((1, 2), (1.0,) * 2, 4, {2: 2}),  # A3
        ((1,), (1.0,), 4, {1: 4}),  # A2
        ((1, 8), (1.0,) * 2, 0, {}),
        ((1, 2, 3), (1.0,) * 3, 4, {3: 1, 1: 1}),
        ((1, 2, 3), (1.0, 1.5, 3.0), 4, {2: 2}),
        ((1, 4, 6), (1.0,) * 3, 8, {4: 2}),
        ((1, 2, 3), (0.1, 0.2, 0.3), 3, {3: 1}),  # equal but for rounding: the fewest
        ((1, 1000), (1.0, 2.0), 1_000_000, {1000: 1000}),
        ((1, 2), (0.0, 0.0), 3, {2: 1, 1: 1}),
    ],
)
def test_examples(
    of: tuple[int, ...], memory: tuple[float, ...], count: int, containers: dict[int, int]
) -> None:
    assert Aggregation(of, memory).containers(count) == containers


def test_eight_can_need_less_memory_than_seven() -> None:
    aggregation = Aggregation((1, 2, 4, 8), (1.0, 1.0, 1.0, 1.0))
    assert (aggregation.memory_of(7), aggregation.memory_of(8)) == (3.0, 1.0)
