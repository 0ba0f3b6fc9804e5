"""The Lease: one holder at a time, whatever fails."""

from __future__ import annotations

import time

import pytest

from surgekit.kube.client import ApiError, KubeUnreachable
from surgekit.kube.lease import Lease
from tests.fake_api_server import Call, FakeApiServer


@pytest.fixture
def server() -> FakeApiServer:
    return FakeApiServer()


def lease(server: FakeApiServer, identity: str) -> Lease:
    return Lease(server, "ns", "name", identity)


def test_the_first_takes_it_and_the_second_waits(server: FakeApiServer) -> None:
    now_s = time.monotonic()
    a, b = lease(server, "a"), lease(server, "b")
    assert a.attempt(now_s)
    assert not b.attempt(now_s)
    assert (a.held, b.held) == (True, False)


def test_it_passes_on_only_when_it_was_not_renewed_for_its_duration(server: FakeApiServer) -> None:
    now_s = time.monotonic()
    a, b = lease(server, "a"), lease(server, "b")
    a.attempt(now_s)
    b.attempt(now_s)
    assert not b.attempt(now_s + 14.0)
    a.attempt(now_s + 14.0)
    assert not b.attempt(now_s + 16.0)  # renewed since
    assert b.attempt(now_s + 32.0)
    (found,) = server.objects("leases")
    assert found["spec"]["leaseTransitions"] == 2
    assert (a.transitions, b.transitions) == (1, 2)
    assert not a.attempt(now_s + 33.0)
    assert not a.held


def test_a_holder_that_cannot_renew_lets_go_before_another_takes_it(
    server: FakeApiServer,
) -> None:
    a = lease(server, "a")
    a.attempt(time.monotonic() - 9.0)
    assert a.held
    a.attempt(time.monotonic() - 11.0)
    assert not a.held


def test_a_term_goes_on_after_a_lapse_unless_another_held_it(server: FakeApiServer) -> None:
    now_s = time.monotonic()
    a, b = lease(server, "a"), lease(server, "b")
    a.attempt(now_s)
    a.attempt(now_s + 100.0)
    assert a.term == 1
    b.attempt(now_s + 100.0)
    assert b.term == 0
    assert b.attempt(now_s + 120.0)
    a.attempt(now_s + 120.0)
    assert a.attempt(now_s + 140.0)
    assert (a.term, b.term) == (2, 1)


def test_stopping_lets_the_next_one_in_at_once(server: FakeApiServer) -> None:
    a, b = lease(server, "a"), lease(server, "b")
    a.start()
    deadline_s = time.monotonic() + 5.0
    while not a.held and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not b.attempt(time.monotonic())
    a.stop()
    assert not a.held
    assert b.attempt(time.monotonic())


def test_of_two_that_try_at_once_one_gets_it(server: FakeApiServer) -> None:
    a, b = lease(server, "a"), lease(server, "b")
    a.attempt(time.monotonic())
    a.stop()

    def overtake(_: Call) -> None:
        server.before_write = lambda call: None
        assert a.attempt(time.monotonic())

    server.before_write = overtake  # b has read by then
    with pytest.raises(ApiError, match="Conflict"):
        b.attempt(time.monotonic())
    assert not b.held


def test_an_unreachable_server_does_not_end_it(server: FakeApiServer) -> None:
    server.down = True
    a = lease(server, "a").start()
    time.sleep(0.05)
    server.down = False
    deadline_s = time.monotonic() + 8.0
    while not a.held and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert a.held
    a.stop()


def test_a_takeover_whose_answer_is_lost_is_a_new_term(server: FakeApiServer) -> None:
    now_s = time.monotonic()
    a, b = lease(server, "a"), lease(server, "b")
    a.attempt(now_s)
    b.attempt(now_s)
    assert b.attempt(now_s + 16.0)
    a.attempt(now_s + 16.0)
    server.lose_answers = 1
    with pytest.raises(KubeUnreachable):
        a.attempt(now_s + 32.0)
    assert a.attempt(now_s + 33.0)
    assert a.term == 2, "another has led between"
