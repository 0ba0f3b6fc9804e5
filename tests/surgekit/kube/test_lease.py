"""surgekit.kube.lease against an API server that keeps one object and checks versions."""

from __future__ import annotations

import copy
import time
from typing import Any, cast

import pytest

from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.lease import Lease


class OneObject:
    """The part of surgekit.kube.client.Kube that a lease uses."""

    def __init__(self) -> None:
        self.obj: dict[str, Any] | None = None
        self.down = False

    def get(self, path: str) -> dict[str, Any]:
        if self.down:
            raise KubeUnreachable("down")
        if self.obj is None:
            raise ApiError(404, "NotFound", path)
        return copy.deepcopy(self.obj)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.obj is not None:
            raise ApiError(409, "AlreadyExists", path)
        self.obj = copy.deepcopy(body)
        self.obj["metadata"]["resourceVersion"] = "1"
        return self.obj

    def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert self.obj is not None
        if body["metadata"]["resourceVersion"] != self.obj["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", path)
        self.obj = copy.deepcopy(body)
        self.obj["metadata"]["resourceVersion"] = str(int(body["metadata"]["resourceVersion"]) + 1)
        return self.obj


@pytest.fixture
def server() -> OneObject:
    return OneObject()


def lease(server: OneObject, identity: str) -> Lease:
    return Lease(cast(Kube, server), "ns", "name", identity)


def test_the_first_takes_it_and_the_second_waits(server: OneObject) -> None:
    now_s = time.monotonic()
    a, b = lease(server, "a"), lease(server, "b")
    assert a.attempt(now_s)
    assert not b.attempt(now_s)
    assert (a.held, b.held) == (True, False)


def test_it_passes_on_only_when_it_was_not_renewed_for_its_duration(server: OneObject) -> None:
    now_s = time.monotonic()
    a, b = lease(server, "a"), lease(server, "b")
    a.attempt(now_s)
    b.attempt(now_s)
    assert not b.attempt(now_s + 14.0)
    a.attempt(now_s + 14.0)
    assert not b.attempt(now_s + 16.0)  # renewed since
    assert b.attempt(now_s + 32.0)
    assert server.obj is not None
    assert server.obj["spec"]["leaseTransitions"] == 2
    assert not a.attempt(now_s + 33.0)
    assert not a.held


def test_a_holder_that_cannot_renew_stops_counting_on_it_before_another_takes_it(server: OneObject) -> None:
    a = lease(server, "a")
    a.attempt(time.monotonic() - 9.0)
    assert a.held
    a.attempt(time.monotonic() - 11.0)
    assert not a.held


def test_a_term_goes_on_after_a_lapse_unless_another_held_it(server: OneObject) -> None:
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


def test_stopping_lets_the_next_one_in_at_once(server: OneObject) -> None:
    a, b = lease(server, "a"), lease(server, "b")
    a.start()
    deadline_s = time.monotonic() + 5.0
    while not a.held and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not b.attempt(time.monotonic())
    a.stop()
    assert not a.held
    assert b.attempt(time.monotonic())


def test_of_two_that_try_at_once_one_gets_it(server: OneObject) -> None:
    a, b = lease(server, "a"), lease(server, "b")
    a.attempt(time.monotonic())
    a.stop()
    stale = server.get("")
    assert a.attempt(time.monotonic())
    server.get = lambda path: stale  # type: ignore[method-assign]  # b read before a wrote
    with pytest.raises(ApiError, match="Conflict"):
        b.attempt(time.monotonic())
    assert not b.held


def test_an_unreachable_server_does_not_end_it(server: OneObject) -> None:
    server.down = True
    a = lease(server, "a").start()
    time.sleep(0.05)
    server.down = False
    deadline_s = time.monotonic() + 8.0
    while not a.held and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert a.held
    a.stop()


def test_a_takeover_whose_answer_is_lost_is_a_new_term(
    server: OneObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.monotonic()
    a, b = lease(server, "a"), lease(server, "b")
    a.attempt(now_s)
    b.attempt(now_s)
    assert b.attempt(now_s + 16.0)
    a.attempt(now_s + 16.0)
    written = server.replace

    def lost(path: str, body: dict[str, Any]) -> dict[str, Any]:
        written(path, body)
        raise KubeUnreachable("timed out")

    monkeypatch.setattr(server, "replace", lost)
    with pytest.raises(KubeUnreachable):
        a.attempt(now_s + 32.0)
    monkeypatch.undo()
    assert a.attempt(now_s + 33.0)
    assert a.term == 2, "another has led between"
