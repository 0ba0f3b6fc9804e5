"""How many instances are kept ready, and where."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from burst_plane.model import Function, InstanceSpec
from burst_plane.preparing import Bursts, Pool, Sizing, Wanted, pool, pool_size, prepare
from burst_plane.wire.messages import LARGEST_BYTES, PrepareRequest, encode

SPEC = InstanceSpec(image="i")


def hits(bursts: list[int], k: int) -> int:
    """By brute force: each burst empties the pool, and finds it full again."""
    served = 0
    for burst in bursts:
        left = k
        for _ in range(burst):
            if left:
                left, served = left - 1, served + 1
    return served


@settings(max_examples=50)
@given(st.lists(st.integers(1, 80), max_size=30), st.sampled_from([0.5, 0.9, 0.95, 1.0]))
def test_the_pool_is_the_smallest_that_serves_the_share(bursts: list[int], share: float) -> None:
    sizing = Sizing(hit_share=share, least=0, most=64)
    size = pool_size(Counter(bursts), sizing)
    enough = [k for k in range(65) if hits(bursts, k) >= share * sum(bursts)]
    assert size == (min([*enough, 64]) if bursts else 0)


def test_starts_that_come_together_are_one_burst() -> None:
    bursts = Bursts(refill_s=2.0)
    for at_s, starts in ((0.0, 3), (1.0, 2), (5.0, 1), (5.5, 0)):
        bursts.note(starts, at_s)
    assert bursts.sizes(6.0) == {5: 1, 1: 1}
    assert bursts.starts(6.0, 600.0) == 6
    assert bursts.sizes(3700.0) == {}


def test_a_function_with_frequent_excess_has_frozen_instances() -> None:
    bursts = Bursts()
    bursts.note(2, 0.0)
    sizing = Sizing(frozen_starts=3)
    assert pool(bursts, sizing, 1.0) == Pool(2)
    bursts.note(2, 100.0)
    assert pool(bursts, sizing, 101.0) == Pool(2, 1)
    assert pool(bursts, sizing, 900.0).frozen_a_node == 0


def test_where_requests_run_for_long_a_container_is_prepared_only_if_starts_are_frequent() -> None:
    bursts, sizing = Bursts(), Sizing(frozen_starts=3)
    assert pool(bursts, sizing, 1.0, run_s=0.7) == pool(bursts, sizing, 1.0) == Pool(1)
    bursts.note(2, 2.0)
    assert pool(bursts, sizing, 3.0, run_s=0.8) == Pool(0)
    bursts.note(1, 3.0)
    assert pool(bursts, sizing, 4.0, run_s=0.8) == Pool(3, 1)


def wanted(name: str, created: int = 2, frozen: int = 0) -> Wanted:
    return Wanted(Function("shop", name), SPEC, Pool(created, frozen))


@settings(max_examples=50)
@given(
    st.lists(
        st.builds(wanted, st.sampled_from("abcdef"), st.integers(0, 40), st.integers(0, 1)),
        unique_by=lambda w: w.function,
    ),
    st.lists(st.sampled_from([f"n{i}" for i in range(9)]), unique=True),
)
def test_pools_are_shared_out_exactly_over_enough_nodes(functions: list[Wanted], nodes: list[str]) -> None:
    prepared = prepare(functions, nodes, Sizing())
    assert set(prepared) == set(nodes)
    for one in functions:
        of = [p for node in nodes for p in prepared[node] if p.function == one.function]
        if nodes:
            assert sum(p.created + p.frozen for p in of) == one.pool.created
            assert len(of) >= min(2, len(nodes))
            assert all(p.created + p.frozen <= 4 for p in of) or len(of) == len(nodes)
            assert all(p.frozen <= one.pool.frozen_a_node for p in of)


def test_when_a_node_goes_only_its_functions_move() -> None:
    functions, nodes = [wanted(f"f{i}") for i in range(200)], [f"n{i}" for i in range(10)]
    before, after = prepare(functions, nodes, Sizing()), prepare(functions, nodes[:-1], Sizing())

    def places(prepared: object, function: Function) -> set[str]:
        return {n for n, of in prepared.items() if any(p.function == function for p in of)}  # type: ignore[attr-defined]

    for one in functions:
        was, now = places(before, one.function), places(after, one.function)
        assert was - {"n9"} <= now
    load = Counter(node for node, of in before.items() for _ in of)
    assert max(load.values()) < 2 * min(load.values())


def large(namespace: str, name: str, size: int) -> Wanted:
    spec = InstanceSpec(image="i", env=(("A", "x" * size),))
    return Wanted(Function(namespace, name), spec, Pool(2), len(encode(spec)))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 256 << 10)), max_size=60))
def test_what_a_node_is_told_fits_into_a_message(sizes: list[tuple[str, int]]) -> None:
    functions = [large(namespace, f"f{i}", size) for i, (namespace, size) in enumerate(sizes)]
    # Those of another namespace: whatever the others are, it is told of them.
    modest = [large("modest", f"f{i}", 1000) for i in range(100)]
    (told,) = prepare([*functions, *modest], ["n1"], Sizing()).values()
    assert len(encode(PrepareRequest(term=1 << 60, sequence=1 << 60, preparations=told))) < LARGEST_BYTES
    assert {one.function for one in modest} <= {each.function for each in told}
    if sum(size for _, size in sizes) < LARGEST_BYTES // 2:
        assert len(told) == len(functions) + len(modest)
