"""Slots: everybody has one of its own, and the changes add up to what is wanted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from surgekit.haproxy.slots import Change, Slots

OWNERS = st.lists(st.sampled_from("abcdefgh"), unique=True)


def test_a_new_one_takes_the_slot_that_was_left_longest_ago() -> None:
    slots = Slots(3)
    assert slots.update(["a", "b"]) == [Change(0, "a"), Change(1, "b")]
    assert slots.update(["b"]) == [Change(0, None)]
    assert slots.update(["b", "c"]) == [Change(2, "c")]
    assert slots.update(["b", "c", "d"]) == [Change(0, "d")]
    assert slots.taken == {"b": 1, "c": 2, "d": 0}


def test_who_comes_back_gets_the_slot_it_had() -> None:
    slots = Slots(3)
    slots.update(["a", "b"])
    slots.update(["b"])
    assert slots.update(["a", "b"]) == [Change(0, "a")]  # not 2, which was never used


def test_a_slot_that_another_took_is_lost() -> None:
    slots = Slots(2)
    slots.update(["a", "b"])
    slots.update(["b", "c"])
    assert slots.taken == {"b": 1, "c": 0}
    assert slots.update(["a", "c"]) == [Change(1, None), Change(1, "a")]


def test_those_past_the_slots_are_named() -> None:
    slots = Slots(1)
    assert slots.update(["a", "b"]) == [Change(0, "a")]
    assert slots.without == ("b",)
    assert slots.update(["b"]) == [Change(0, None), Change(0, "b")]
    assert not slots.without


def test_what_was_there_before_is_taken_over() -> None:
    slots = Slots(4, taken={2: "a"}, left={0: "b"})
    assert slots.update(["a", "b", "c"]) == [Change(0, "b"), Change(1, "c")]
    assert slots.taken == {"a": 2, "b": 0, "c": 1}


def test_of_two_slots_with_one_owner_one_is_free() -> None:
    slots = Slots(2, taken={0: "a", 1: "a"})
    assert slots.update(["a", "b"]) == [Change(1, "b")]


@given(
    st.lists(OWNERS, max_size=12),
    st.integers(1, 8),
    st.dictionaries(st.integers(0, 7), st.sampled_from("abcd")),
)
def test_the_changes_lead_to_what_is_wanted(
    wanted: list[list[str]], count: int, before: dict[int, str]
) -> None:
    before = {number: owner for number, owner in before.items() if number < count}
    slots = Slots(count, taken=before)
    servers = {number: owner for owner, number in slots.taken.items()}
    for owners in wanted:
        for change in slots.update(owners):
            if change.owner is None:
                del servers[change.slot]  # it had one
            else:
                assert change.slot not in servers
                servers[change.slot] = change.owner
        assert set(servers) <= set(range(count))
        assert servers == {number: owner for owner, number in slots.taken.items()}
        assert len(servers) == min(len(owners), count)
        assert set(servers.values()) | set(slots.without) == set(owners)
        assert len(slots.without) == len(owners) - len(servers)
        assert slots.update(owners) == []
