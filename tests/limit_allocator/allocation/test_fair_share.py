"""Max-min shares, against filling unit by unit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limit_allocator.allocation.fair_share import fair_share, running_sums

MEMBERS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 6)), max_size=8)


@pytest.mark.parametrize(
    ("wanted", "least", "capacity", "shares"),
    [
        ([10, 20, 30], [0, 0, 0], 60, [10, 20, 30]),
        ([10, 20, 30], [0, 0, 0], 100, [10, 20, 30]),
        ([10, 20, 30], [0, 0, 0], 40, [10, 15, 15]),
        ([10, 20, 30], [0, 0, 0], 41, [10, 16, 15]),
        ([10, 20, 30], [0, 0, 25], 45, [10, 10, 25]),
        ([10, 20, 30], [5, 5, 5], 12, [5, 5, 5]),
        ([4, 4], [6, 0], 100, [6, 4]),
        ([2**62, 2**62], [0, 0], 10, [5, 5]),
    ],
)
def test_shares(wanted: list[int], least: list[int], capacity: int, shares: list[int]) -> None:
    group = np.zeros(len(wanted), np.int64)
    got = fair_share(np.array(wanted), np.array(least), group, np.array([capacity]))
    assert got.tolist() == shares


@given(MEMBERS, st.lists(st.integers(0, 40), min_size=4, max_size=4))
def test_as_if_filled_unit_by_unit(members: list[tuple[int, int, int]], capacity: list[int]) -> None:
    group, wanted, least = (
        np.array(column, np.int64) for column in (zip(*members, strict=True) if members else ([],) * 3)
    )
    got = fair_share(wanted, least, group, np.array(capacity))
    assert got.tolist() == _fill(members, capacity)


def _fill(members: list[tuple[int, int, int]], capacity: list[int]) -> list[int]:
    """Give one unit at a time to the first of those that have least and want more."""
    shares = [least for _, _, least in members]
    for group, available in enumerate(capacity):
        left = available - sum(s for s, m in zip(shares, members, strict=True) if m[0] == group)
        while left > 0:
            hungry = [
                (shares[i], i)
                for i, (g, wanted, _) in enumerate(members)
                if g == group and shares[i] < wanted
            ]
            if not hungry:
                break
            shares[min(hungry)[1]] += 1
            left -= 1
    return shares


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=12))
def test_running_sums(members: list[tuple[int, int]]) -> None:
    group, values = (np.array([m[i] for m in members], np.int64) for i in (0, 1))
    expected = [sum(v for g, v in members[: i + 1] if g == members[i][0]) for i in range(len(members))]
    assert running_sums(values, group).tolist() == expected
