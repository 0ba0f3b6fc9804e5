"""Slots: every pod has one of its own, and what HAProxy is told adds up to what is wanted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kwok.traffic.slots import Change, Slots

PODS = st.dictionaries(
    st.sampled_from([f"pod-{i}" for i in range(8)]), st.sampled_from([f"10.0.0.{i}" for i in range(1, 9)])
)


def test_a_pod_takes_the_slot_that_was_left_longest_ago() -> None:
    slots = Slots(3)
    assert slots.update({"a": "10.0.0.1", "b": "10.0.0.2"}) == [Change(0, "10.0.0.1"), Change(1, "10.0.0.2")]
    assert slots.update({"b": "10.0.0.2"}) == [Change(0, None)]
    assert slots.update({"b": "10.0.0.2", "c": "10.0.0.3"}) == [Change(2, "10.0.0.3")]
    assert slots.update({"b": "10.0.0.2", "c": "10.0.0.3", "d": "10.0.0.4"}) == [Change(0, "10.0.0.4")]
    assert slots.taken == 3


def test_a_pod_at_another_address_is_another_server() -> None:
    slots = Slots(2)
    slots.update({"a": "10.0.0.1"})
    assert slots.update({"a": "10.0.0.9"}) == [Change(0, None), Change(1, "10.0.0.9")]


def test_pods_past_the_slots_are_counted() -> None:
    slots = Slots(1)
    assert slots.update({"a": "10.0.0.1", "b": "10.0.0.2"}) == [Change(0, "10.0.0.1")]
    assert slots.without == 1
    assert slots.update({"b": "10.0.0.2"}) == [Change(0, None), Change(0, "10.0.0.2")]
    assert slots.without == 0


@given(st.lists(PODS, max_size=12), st.integers(1, 8))
def test_the_changes_lead_to_what_is_wanted(wanted: list[dict[str, str]], count: int) -> None:
    slots, servers = Slots(count), dict[int, str]()
    for pods in wanted:
        for change in slots.update(pods):
            if change.address is None:
                del servers[change.slot]  # it had one
            else:
                assert change.slot not in servers
                servers[change.slot] = change.address
        assert set(servers) <= set(range(count))
        assert len(servers) == slots.taken == min(len(pods), count)
        assert slots.without == len(pods) - slots.taken
        if not slots.without:
            assert sorted(servers.values()) == sorted(pods.values())
