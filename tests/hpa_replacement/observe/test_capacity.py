"""Eq. (4), node by node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement.observe.capacity import Resources, capacity, replicas_that_fit

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("free", "request_", "fit"),
    [
        (Resources(5700, 14 * 1024 * MIB, 110), Resources(200, 400 * MIB), 28),
        (Resources(600, 10**12, 110), Resources(200, 1), 3),  # exactly three
        (Resources(10**6, 1000 * MIB, 110), Resources(300, 1000 * MIB), 1),
        (Resources(10**6, 10**12, 7), Resources(300, 1000 * MIB), 7),
        (Resources(10**6, 10**12, 7), Resources(0, 0), 7),  # requests nothing: pods limit
        (Resources(-100, 10**12, 7), Resources(100, 0), 0),  # overcommitted nodes hold nothing more
    ],
)
def test_what_fits_on_a_node(free: Resources, request_: Resources, fit: int) -> None:
    assert replicas_that_fit(free, request_) == fit


def test_replicas_are_whole_on_each_node_and_those_running_count() -> None:
    nodes = [Resources(500, 10**12, 110)] * 4  # together 2000m: ten of 200m by eq. (4) as printed
    assert capacity(nodes, Resources(200, 0), running=3, addable=5) == 3 + 5 + 8
    assert capacity([], Resources(200, 0)) == 0


def test_senseless_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="request"):
        replicas_that_fit(Resources(1, 1), Resources(-1, 0))
    with pytest.raises(ValueError, match="running"):
        capacity([], Resources(1, 1), running=-1)


@given(st.lists(st.tuples(st.integers(0, 10**5), st.integers(0, 10**11)), max_size=8), st.integers(1, 5000))
def test_never_more_than_the_paper_says(nodes: list[tuple[int, int]], cpu: int) -> None:
    free = [Resources(c, m, 10**6) for c, m in nodes]
    memory = 64 * MIB
    printed = min(sum(c for c, _ in nodes) / cpu, sum(m for _, m in nodes) / memory)
    assert capacity(free, Resources(cpu, memory)) <= printed
