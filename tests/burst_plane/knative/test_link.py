"""The connection to Knative's autoscaler outlives the autoscaler."""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from burst_plane.knative.link import AutoscalerLink
from burst_plane.knative.statistics import Excess, encoded
from kwok.ports import free_ports
from tests.burst_plane.knative.websocket_peer import Peer

EXCESS = [Excess("shop", "resize-00001", 2.0, 1)]
MESSAGE = encoded("burst-0", EXCESS)
_PATIENCE_S = 60.0  # machines are busy


class Linked:
    def __init__(self, port: int) -> None:
        self.counts: Counter[str] = Counter()
        self.link = AutoscalerLink(f"127.0.0.1:{port}", "burst-0", lambda what: self.counts.update([what]))
        self.link.start()

    def say_until_heard(self, peer: Peer) -> bytes:
        """As the leader does each second, faster."""
        until_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until_s:
            self.link.say(EXCESS)
            try:
                return peer.messages.get(timeout=0.05)
            except queue.Empty:
                continue
        raise AssertionError("nothing was heard")


@pytest.fixture
def peer() -> Iterator[Peer]:
    with closing(Peer()) as made:
        yield made


@pytest.fixture
def linked() -> Iterator[type[Linked]]:
    made: list[Linked] = []

    class Made(Linked):
        def __init__(self, port: int) -> None:
            super().__init__(port)
            made.append(self)

    yield Made
    for of in made:
        of.link.stop()
        assert not of.link.alive()


def test_it_says_each_second_over_one_connection(linked: type[Linked], peer: Peer) -> None:
    of = linked(peer.port)
    assert [of.say_until_heard(peer) for _ in range(3)] == [MESSAGE] * 3
    assert len(peer.heads) == 1
    assert b"origin" not in peer.heads[0].lower()
    assert (of.counts["failed"], of.link.error) == (0, "")


def test_it_connects_only_when_there_is_something_to_say(linked: type[Linked], peer: Peer) -> None:
    of = linked(peer.port)
    of.link.say([])
    of.link.say([Excess("shop", "idle-00001", 0.0, 0.0)])
    of.say_until_heard(peer)
    assert peer.messages.empty()
    assert len(peer.heads) == 1


def test_an_autoscaler_that_restarts_is_found_again(linked: type[Linked], peer: Peer) -> None:
    of = linked(peer.port)
    of.say_until_heard(peer)
    peer.restart()
    until_s = time.monotonic() + _PATIENCE_S
    while len(peer.heads) < 2 and time.monotonic() < until_s:
        of.say_until_heard(peer)
    assert len(peer.heads) >= 2


def test_an_autoscaler_that_comes_late_is_told_of_the_latest_second_only(linked: type[Linked]) -> None:
    (port,) = free_ports(1)
    of = linked(port)
    of.link.say(EXCESS)
    until_s = time.monotonic() + _PATIENCE_S
    while not of.link.error and time.monotonic() < until_s:
        time.sleep(0.01)
    assert "refused" in of.link.error
    for number in range(5):
        of.link.say([Excess("shop", "resize-00001", float(number + 10), 0)])
    with closing(Peer(port)) as peer:
        heard = peer.messages.get(timeout=_PATIENCE_S)
        assert heard == encoded("burst-0", [Excess("shop", "resize-00001", 14.0, 0)])
        assert peer.messages.empty()


def test_a_peer_that_is_no_websocket_is_an_error_and_no_end(linked: type[Linked]) -> None:
    class Rude(Peer):
        def _serve(self, connection, stream) -> None:  # type: ignore[no-untyped-def]
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            connection.close()

    with closing(Rude()) as peer:
        of = linked(peer.port)
        until_s = time.monotonic() + _PATIENCE_S
        while of.counts["failed"] < 2 and time.monotonic() < until_s:
            of.link.say(EXCESS)
            time.sleep(0.02)
        assert of.counts["failed"] >= 2
        assert of.link.alive()
