from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.model import Allocation, App, Container, InstanceClass, Node, Problem, aggregate

levels = st.sets(st.integers(2, 16), max_size=4).map(lambda more: (1, *sorted(more)))


@pytest.mark.parametrize(
    ("of", "count", "containers"),
    [
        ((1, 2, 6, 12), 50, {12: 4, 2: 1}),  # 'Phase 4. Container aggregation'
        ((1, 2, 4), 6, {4: 1, 2: 1}),  # fig. 4e, A1
        ((1, 2), 4, {2: 2}),  # A3
        ((1,), 4, {1: 4}),  # A2
        ((1, 2, 3), 4, {3: 1, 1: 1}),
        ((1, 8), 0, {}),
    ],
)
def test_aggregation_takes_the_largest_level_first(
    of: tuple[int, ...], count: int, containers: dict[int, int]
) -> None:
    assert aggregate(of, count) == containers


@given(of=levels, count=st.integers(0, 200))
def test_aggregation_keeps_the_number_of_minimum_size_containers(of: tuple[int, ...], count: int) -> None:
    assert sum(level * number for level, number in aggregate(of, count).items()) == count


@given(of=levels, count=st.integers(0, 200))
def test_memory_is_that_of_the_aggregated_containers(of: tuple[int, ...], count: int) -> None:
    sizes = tuple(float(level + 3) for level in of)
    memory = sum(
        number * dict(zip(of, sizes, strict=True))[level] for level, number in aggregate(of, count).items()
    )
    assert Container(1.0, 1.0, of, sizes).memory_of(count) == pytest.approx(memory)


def test_eight_can_need_less_memory_than_seven() -> None:
    container = Container(0.12, 1.0, (1, 2, 4, 8), (1.0, 1.0, 1.0, 1.0))
    assert (container.memory_of(7), container.memory_of(8)) == (3.0, 1.0)


def test_an_allocation_costs_the_sum_of_its_nodes() -> None:
    problem = Problem(
        (App("a", 2.0),),
        (InstanceClass("S", "F", 1, 4, 0.1), InstanceClass("L", "F", 2, 8, 0.3)),
        {("a", "F"): Container(1.0, 1.0, (1,), (1.0,))},
    )
    nodes = (Node("S", {"a": 1}), Node("L", {"a": 1}), Node("S", {"a": 1}))
    assert Allocation(nodes).cost_per_hour(problem) == pytest.approx(0.5)
