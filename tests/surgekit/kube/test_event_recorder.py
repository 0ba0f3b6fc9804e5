"""The recorder: repeats are left out, no namespace silences another, nothing that is said can break it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surgekit.kube import events as module
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.events import A_MINUTE, REPEAT_S, EventRecorder
from tests.events_at_once import EventsAtOnce

Json = dict[str, Any]


class Posted:
    """An API server that takes Events, and does as it is told."""

    def __init__(self) -> None:
        self.bodies: list[Json] = []
        self.before: Callable[[Json], object] = lambda body: None

    def create(self, path: str, body: Json) -> None:
        self.before(body)
        self.bodies.append(body)

    @property
    def notes(self) -> list[str]:
        return [body["note"] for body in self.bodies]


class Clock:
    """Stands still; the recorder's thread needs none."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def time_ns(self) -> int:
        return int(self.now_s * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def server() -> Posted:
    return Posted()


@pytest.fixture
def recorder(server: Posted) -> Iterator[EventRecorder]:
    """Not started: a test starts it."""
    made = EventRecorder(cast(Kube, server), "test")
    yield made
    made.stop()


def pod(name: str, namespace: str = "shop", uid: str = "1") -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid}


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s, "not within 30 s"
        time.sleep(0.005)


def flushed(recorder: EventRecorder) -> None:
    recorder.start()
    recorder.stop()


def test_repeats_are_left_out(recorder: EventRecorder, server: Posted, clock: Clock) -> None:
    first, other = pod("a"), pod("a", uid="2")
    said = [(first, "x"), (first, "x"), (other, "x"), (first, "y"), (first, "x")]
    taken = [recorder.post(about, "Failing", note) for about, note in said]
    assert taken == [True, False, True, True, False]
    clock.now_s += REPEAT_S - 1
    assert not recorder.post(first, "Failing", "x"), "repeats do not put the next one off"
    clock.now_s += 1
    assert recorder.post(first, "Failing", "x")
    flushed(recorder)
    assert sorted(server.notes) == ["x", "x", "x", "y"]


def test_what_is_remembered_is_bounded(clock: Clock) -> None:
    recorder = EventsAtOnce(Posted())
    for number in range(1500):
        assert recorder.post(pod("a", namespace=f"n{number}"), "Failing", "x")
    assert len(recorder._posted) == 1000
    clock.now_s += 60
    assert recorder.post(pod("a", namespace="n0"), "Failing", "x"), "the oldest was forgotten"
    assert len(recorder._recent) == 1, "namespaces that said nothing for a minute are forgotten"


def test_a_namespace_says_so_much_a_minute_for_each_reason(recorder: EventRecorder, clock: Clock) -> None:
    def post(count: int, reason: str, namespace: str = "shop", a_minute: int = A_MINUTE) -> int:
        names = [f"{clock.now_s}-{number}" for number in range(count)]
        return sum(recorder.post(pod(name, namespace), reason, "x", a_minute=a_minute) for name in names)

    assert post(500, "Failing") == A_MINUTE
    assert post(5, "Failing") == 0
    assert post(5, "Failing", "office") == 5
    assert post(5, "Failing", "") == 5, "cluster-scoped objects are in nobody's share"
    assert post(5, "Rescaled") == 5
    assert post(500, "Unreadable", a_minute=3) == 3
    clock.now_s += 59
    assert post(5, "Failing") == 0
    clock.now_s += 1
    assert post(5, "Failing") == 5


def test_the_queue_is_bounded_and_no_namespace_fills_it(recorder: EventRecorder, clock: Clock) -> None:
    """Nobody posts, as if the API server did not answer."""
    taken = 0
    for _ in range(10):
        taken += sum(recorder.post(pod(f"{clock.now_s}-{n}"), "Failing", "x") for n in range(100))
        clock.now_s += 60
    assert taken == 100
    assert recorder.post(pod("a", "office"), "Failing", "x")
    others = sum(recorder.post(pod("a", f"n{number}"), "Failing", "x") for number in range(2000))
    assert taken + 1 + others == 1000
    assert not recorder.post(pod("b", "office"), "Failing", "x")


def test_namespaces_take_turns(recorder: EventRecorder, server: Posted) -> None:
    for number in range(50):
        recorder.post(pod(f"p{number}"), "Failing", "x")
    for namespace in ("office", "lab"):
        recorder.post(pod("a", namespace), "Failing", "x")
    flushed(recorder)
    turns = [body["regarding"]["namespace"] for body in server.bodies]
    assert turns[:4] == ["shop", "office", "lab", "shop"]
    assert Counter(turns) == {"shop": 50, "office": 1, "lab": 1}
    names = [body["regarding"]["name"] for body in server.bodies if body["metadata"]["namespace"] == "shop"]
    assert names == [f"p{number}" for number in range(50)], "in their order"


@pytest.mark.parametrize(
    "error", [ApiError(403, "Forbidden", "no"), KubeUnreachable("down"), ValueError("a fault of ours")]
)
def test_whatever_a_post_raises_the_next_one_is_posted(
    recorder: EventRecorder, server: Posted, error: Exception
) -> None:
    def refuse(body: Json) -> None:
        if body["note"] == "bad":
            raise error

    server.before = refuse
    recorder.start()
    for note in ("bad", "good", "bad", "better"):
        recorder.post(pod(note), "Failing", note)
    until(lambda: server.notes == ["good", "better"])
    assert recorder._thread.is_alive()


def test_nobody_waits_for_a_post(recorder: EventRecorder, server: Posted) -> None:
    answer = threading.Event()
    server.before = lambda body: answer.wait(30)
    recorder.start()
    began_s = time.monotonic()
    for number in range(50):
        assert recorder.post(pod(f"p{number}"), "Failing", "x")
    assert time.monotonic() - began_s < 10
    assert server.bodies == []
    answer.set()
    until(lambda: len(server.bodies) == 50)


def test_stop_posts_what_is_queued(recorder: EventRecorder, server: Posted) -> None:
    recorder.start()
    for number in range(50):
        recorder.post(pod(f"p{number}"), "Failing", "x")
    recorder.stop()
    assert len(server.bodies) == 50
    assert not recorder._thread.is_alive()
    assert not recorder.post(pod("late"), "Failing", "x")


def test_stop_waits_only_so_long(
    recorder: EventRecorder, server: Posted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FLUSH_S", 0.2)
    answer = threading.Event()
    server.before = lambda body: answer.wait(30)
    recorder.start()
    for number in range(50):
        recorder.post(pod(f"p{number}"), "Failing", "x")
    began_s = time.monotonic()
    recorder.stop()
    assert 0.1 < time.monotonic() - began_s < 10
    answer.set()
    recorder._thread.join(30)
    assert len(server.bodies) <= 1, "the others were given up"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@settings(max_examples=50)
@given(
    metadata=st.dictionaries(st.sampled_from(["namespace", "name", "uid", "labels"]), anything),
    note=st.text(st.characters(codec=None)),
)
def test_nothing_that_somebody_wrote_breaks_it(metadata: Json, note: str) -> None:
    server = Posted()
    recorder = EventRecorder(cast(Kube, server), "test")
    recorder.about("v1", "Pod").post(metadata, "Failing", note)
    recorder.about("v1", "Pod").post({"name": "good", "namespace": "office"}, "Failing", "x")
    flushed(recorder)
    assert server.notes[-1] == "x"
