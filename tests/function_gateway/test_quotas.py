"""Shares of backends, and when owners are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function_gateway.endpoints import Function
from function_gateway.quotas import Refusals, admit, shares


@pytest.mark.parametrize(
    ("wanted", "total", "most", "expected"),
    [
        ({}, 10, 5, {}),
        ({"a": 3, "b": 2}, 10, 5, {"a": 3, "b": 2}),
        ({"a": 9}, 10, 5, {"a": 5}),
        ({"a": 100, "b": 1}, 10, 100, {"a": 9, "b": 1}),
        ({"a": 100, "b": 100, "c": 2}, 10, 100, {"a": 4, "b": 4, "c": 2}),
        ({"a": 100, "b": 100}, 10, 3, {"a": 3, "b": 3}),
        ({"a": 5, "b": 5, "c": 5}, 2, 5, {"a": 0, "b": 1, "c": 1}),
    ],
)
def test_shares(wanted: dict[str, int], total: int, most: int, expected: dict[str, int]) -> None:
    assert shares(wanted, total, most) == expected


wants = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 40), max_size=8)


@given(wants, st.integers(1, 60), st.integers(1, 40))
def test_shares_are_fair(wanted: dict[str, int], total: int, most: int) -> None:
    """Max-min: whoever does not get what it wants has at least as much as anybody, give or take one."""
    given_ = shares(wanted, total, most)
    assert sum(given_.values()) == min(total, sum(min(count, most) for count in wanted.values()))
    for namespace, share in given_.items():
        assert 0 <= share <= min(wanted[namespace], most)
        if share < min(wanted[namespace], most):
            assert share >= max(given_.values()) - 1


def functions(namespace: str, count: int) -> list[Function]:
    return [Function(namespace, f"f{number}") for number in range(count)]


def test_whoever_has_a_backend_keeps_it_before_others_of_its_namespace() -> None:
    first = admit(functions("a", 8), (), total=4, most=10)
    assert [f.name for f in first.functions] == ["f0", "f1", "f2", "f3"]
    served = [Function("a", "f6").host, Function("a", "f7").host]
    kept = admit(functions("a", 8) + functions("b", 1), served, total=4, most=10)
    assert {f.host for f in kept.functions} == {*served, "f0.a", "f0.b"}
    assert kept.without[Function("a", "f1")] == (
        "namespace a has 8 functions; all 4 (functions) are in use, of which its share is 3"
    )


def test_a_quota_holds_though_there_is_room() -> None:
    found = admit(functions("a", 8), (), total=100, most=5)
    assert len(found.functions) == 5
    assert "(functions_per_namespace) is 5" in found.without[Function("a", "f7")]


def test_owners_are_told_of_what_is_new_once_a_minute() -> None:
    refusals = Refusals()
    told = [refusals.grown(counts, at_s) for counts, at_s in (
        ({"a": 0}, 0.0), ({"a": 5, "b": 0}, 5.0), ({"a": 9, "b": 1}, 10.0), ({"a": 9, "b": 1}, 69.0),
        ({"a": 9, "b": 1}, 80.0), ({"a": 2}, 150.0), ({"a": 2}, 300.0),
    )]  # fmt: skip
    assert told == [{}, {"a": 5}, {"b": 1}, {"a": 4}, {}, {"a": 2}, {}]
