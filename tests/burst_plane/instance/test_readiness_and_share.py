"""What to make next, and the account of the share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from burst_plane.instance.readiness import Held, Kind, Make, next_to_make, surplus
from burst_plane.instance.share import Amount, Share
from burst_plane.model import Function, InstanceSpec, Preparation

MIB = 1 << 20
FUNCTIONS = [Function("test", name) for name in "abc"]


def preparation(function: Function, created: int = 0, frozen: int = 0, mib: int = 100) -> Preparation:
    spec = InstanceSpec(image="image", memory_bytes=mib * MIB)
    return Preparation(function=function, spec=spec, created=created, frozen=frozen)


def test_the_function_that_has_least_of_its_share_comes_first() -> None:
    a, b, _ = FUNCTIONS
    orders = [preparation(a, created=4), preparation(b, created=2)]
    held = {a: Held(created=1), b: Held(created=1)}
    assert next_to_make(orders, held, 0, 1 << 40, MIB) == Make(a, Kind.CREATED)
    assert next_to_make(orders, {a: Held(created=3), b: Held(created=1)}, 0, 1 << 40, MIB) == Make(
        b, Kind.CREATED
    )


def test_frozen_before_created_where_there_is_room() -> None:
    a = FUNCTIONS[0]
    orders = [preparation(a, created=1, frozen=1)]
    assert next_to_make(orders, {}, 100 * MIB, 1 << 40, MIB) == Make(a, Kind.FROZEN)
    assert next_to_make(orders, {}, 99 * MIB, 1 << 40, MIB) == Make(a, Kind.CREATED)
    assert next_to_make(orders, {}, 99 * MIB, MIB - 1, MIB) is None
    assert next_to_make(orders, {a: Held(blocked=True)}, 1 << 40, 1 << 40, MIB) is None


ORDERS = st.lists(
    st.builds(
        preparation, st.sampled_from(FUNCTIONS), st.integers(0, 5), st.integers(0, 5), st.integers(1, 300)
    ),
    max_size=3,
    unique_by=lambda each: each.function,
)


@given(ORDERS, st.integers(0, 2000), st.integers(0, 2000), st.integers(1, 20))
def test_making_ends_and_never_passes_what_is_free(
    orders: list[Preparation], frozen_most_mib: int, created_most_mib: int, created_mib: int
) -> None:
    held = {each.function: Held() for each in orders}
    frozen_free, created_free = frozen_most_mib * MIB, created_most_mib * MIB
    spec = {each.function: each.spec for each in orders}
    for _ in range(100):
        made = next_to_make(orders, held, frozen_free, created_free, created_mib * MIB)
        if made is None:
            break
        had = held[made.function]
        if made.kind is Kind.FROZEN:
            held[made.function] = Held(had.created, had.frozen + 1)
            frozen_free -= spec[made.function].memory_bytes
        else:
            held[made.function] = Held(had.created + 1, had.frozen)
            created_free -= created_mib * MIB
        assert min(frozen_free, created_free) >= 0
    else:
        raise AssertionError("without end")
    for each in orders:
        assert held[each.function].created <= each.created
        assert held[each.function].frozen <= each.frozen


def test_surplus_leaves_one_that_was_being_made() -> None:
    assert [surplus(2, ready) for ready in range(6)] == [0, 0, 0, 0, 1, 2]
    assert [surplus(0, ready) for ready in range(3)] == [0, 1, 2]


AMOUNTS = st.builds(Amount, st.integers(0, 40), st.integers(0, 40))
CHANGES = st.lists(st.tuples(st.sampled_from("abcd"), st.none() | AMOUNTS), max_size=30)


@given(AMOUNTS, CHANGES)
def test_the_share_is_never_passed_and_what_is_given_back_is_free(
    total: Amount, changes: list[tuple[str, Amount | None]]
) -> None:
    share, model = Share(total), dict[str, Amount]()
    for name, amount in changes:
        if amount is None:
            share.give_back(name)
            model.pop(name, None)
        else:
            wanted = model | {name: amount}
            fits = (
                sum(each.cpu_millis for each in wanted.values()) <= total.cpu_millis
                and sum(each.memory_bytes for each in wanted.values()) <= total.memory_bytes
            )
            assert share.set(name, amount) is fits
            model = wanted if fits else model
        assert share.held(name) == model.get(name, Amount())
        assert share.free.cpu_millis == total.cpu_millis - sum(e.cpu_millis for e in model.values())
        assert share.free.memory_bytes == total.memory_bytes - sum(e.memory_bytes for e in model.values())
