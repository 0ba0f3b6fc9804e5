"""Rooms: what a kubelet grants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwok.node_model_room import Amount, Rooms

NODE = Amount(1000, 1000)
amounts = st.builds(Amount, st.integers(0, 1200), st.integers(0, 1200))


@pytest.mark.parametrize(
    ("asked", "reason", "says"),
    [
        (Amount(600, 100), None, ""),  # exactly what is left
        (Amount(601, 100), "Deferred", "enough resource: cpu, requested: 601, used: 400, capacity: 1000"),
        (Amount(100, 601), "Deferred", "enough resource: memory, requested: 601, used: 400, capacity: 1000"),
        (Amount(1001, 100), "Infeasible", "enough capacity: cpu, requested: 1001, capacity: 1000"),
        (Amount(50, 50), None, ""),
    ],
)
def test_verdicts(asked: Amount, reason: str | None, says: str) -> None:
    rooms = Rooms()
    rooms.allocatable("n", NODE)
    rooms.hold("other", "n", Amount(400, 400))
    rooms.hold("pod", "n", Amount(100, 100))
    refusal = rooms.ask("pod", "n", asked)
    assert (refusal and refusal.reason) == reason
    assert refusal is None or refusal.message.endswith(says)
    assert rooms.held("n") == (
        Amount(500, 500) if refusal else Amount(400 + asked.cpu_millicores, 400 + asked.memory_bytes)
    )


def test_those_that_wait_are_tried_in_order_and_each_that_fits_is_granted() -> None:
    rooms = Rooms()
    rooms.allocatable("n", NODE)
    for pod, held in (("big", 500), ("a", 200), ("b", 200), ("c", 100)):
        rooms.hold(pod, "n", Amount(held, held))
    assert rooms.ask("a", "n", Amount(750, 200))
    assert rooms.ask("b", "n", Amount(650, 200))
    assert rooms.ask("c", "n", Amount(150, 100))
    rooms.release("big")
    assert rooms.retry("n") == ["b", "c"]  # a does not fit even now, and keeps nobody waiting
    assert rooms.retry("n") == []


@given(st.lists(st.tuples(st.sampled_from("abcde"), amounts, st.booleans()), max_size=40))
def test_a_node_is_never_given_away_twice(steps: list[tuple[str, Amount, bool]]) -> None:
    rooms = Rooms()
    rooms.allocatable("n", NODE)
    for pod in "abcde":
        rooms.hold(pod, "n", Amount(200, 200))
    for pod, amount, goes in steps:
        if goes:
            rooms.release(pod)
            rooms.hold(pod, "n", Amount(0, 0))
        else:
            rooms.ask(pod, "n", amount)
        rooms.retry("n")
        held = rooms.held("n")
        assert held.cpu_millicores <= 1000
        assert held.memory_bytes <= 1000


def test_a_node_nobody_told_of_has_room() -> None:
    rooms = Rooms()
    assert rooms.ask("pod", "n", Amount(10**6, 10**15)) is None
