"""Which connection ends when there is no room."""

from __future__ import annotations

import socket
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surgekit.process.connections import Connection, Connections, Limits, victim

LIMITS = Limits(total=4, per_peer=3, request_s=3600.0, idle_s=3600.0)


def connection(peer: str, since_s: float = 0.0, idle: bool = False, trusted: bool = False) -> Connection:
    made = Connection(socket.socket(), peer, 3600.0)
    made.socket.close()
    made.since_s, made.idle, made.trusted = since_s, idle, trusted
    return made


def arrive(connections: Connections, peer: str) -> Connection | None:
    client = socket.socket()
    admitted = connections.admit(client, peer)
    if admitted is None:
        client.close()
    return admitted


@pytest.mark.parametrize(
    ("connections", "loser"),
    [
        ([], None),
        ([connection("a", 2.0), connection("a", 1.0)], 1),  # the oldest
        ([connection("a", 1.0), connection("a", 2.0, idle=True)], 1),  # an idle one first
        ([connection("a", 0.0, idle=True), connection("b", 1.0), connection("b", 2.0)], 1),  # who holds most
        ([connection("a", 0.0, idle=True, trusted=True), connection("b", 5.0)], 1),  # a stranger first
        ([connection("a", 1.0, idle=True, trusted=True), connection("a", 0.0, trusted=True)], 0),
        ([connection("a", 0.0, trusted=True)], None),  # asks at this moment
    ],
)
def test_who_loses_a_connection(connections: list[Connection], loser: int | None) -> None:
    assert victim(connections) is (None if loser is None else connections[loser])


peers = st.sampled_from(["a", "b", "c", "d", "e"])


kinds = st.sampled_from(["stays", "idle", "trusted", "trusted and idle"])


@given(st.lists(st.tuples(peers, kinds), max_size=30))
def test_limits_hold_and_only_those_who_may_be_ended_are(arrivals: list[tuple[str, str]]) -> None:
    """Whatever comes: never more than `total` and `per_peer`; a stranger's arrival is refused only when every
    connection in its way belongs to a trusted client that is asking."""
    connections = Connections(LIMITS)
    try:
        for peer, kind in arrivals:
            before = set(connections._open)
            own = [c for c in before if c.peer == peer]
            in_the_way = own if len(own) >= LIMITS.per_peer else before if len(before) >= LIMITS.total else ()
            admitted = arrive(connections, peer)
            asking = all(c.trusted and not c.idle for c in in_the_way)
            assert (admitted is None) == (bool(in_the_way) and asking)
            if admitted is None:
                continue
            for gone in before - connections._open:
                assert gone.idle or not gone.trusted
                connections.leave(gone)
            admitted.trusted = kind.startswith("trusted")
            if kind.endswith("idle"):
                admitted.rest()
            held = Counter(c.peer for c in connections._open)
            assert len(connections) <= LIMITS.total
            assert max(held.values()) <= LIMITS.per_peer
    finally:
        connections.close()
        for left in list(connections._ending):
            connections.leave(left)


def test_connections_whose_threads_do_not_notice_their_end_are_not_piled_up() -> None:
    connections = Connections(LIMITS)
    admitted = [arrive(connections, str(i)) for i in range(50)]
    assert sum(c is not None for c in admitted) == 2 * LIMITS.total
    assert connections.ended["refused"] == 50 - 2 * LIMITS.total
    connections.close()
    for one in admitted:
        if one is not None:
            connections.leave(one)
