"""The loop: what changed is looked at, one batch of writes at a time, and a fault of one is not all's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from combofunc.actuator import Done
from combofunc.pods.actions import Delete
from combofunc.work_loop import Loop, Work
from combofunc.writers import Writers
from tests.combofunc.pods.test_tables import body
from tests.combofunc.pods.world import World, node


class Kind:
    """Looks as it is told to."""

    def __init__(self) -> None:
        self.looks: list[str] = []
        self.done: list[Done] = []
        self.answer: Callable[[str], Work | None] = lambda _: Work("shop")

    def look(self, uid: str, now_s: float) -> Work | None:
        self.looks.append(uid)
        return self.answer(uid)

    def came_of(self, uid: str, done: Sequence[Done], status_failure: str) -> None:
        self.done += done


class Slow(World):
    """Answers when it may."""

    def __init__(self) -> None:
        super().__init__([node("n1")])
        self.may = threading.Event()

    def delete(self, *args: object, **query: object) -> dict[str, object]:
        assert self.may.wait(10)
        return super().delete(*args, **query)  # type: ignore[arg-type]


@pytest.fixture
def world() -> Slow:
    return Slow()


@pytest.fixture
def loop(world: Slow) -> Iterator[Loop]:
    found = Loop(world, lambda: True, lambda _: None)
    yield found
    world.may.set()
    found.stop()


def until(loop: Loop, condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        loop.round(True)


def test_only_what_changed_is_looked_at_and_only_while_acting(loop: Loop) -> None:
    kind = Kind()
    loop.know("a", kind)
    loop.know("b", kind)
    loop.round(False)
    assert kind.looks == []
    until(loop, lambda: len(kind.looks) == 2)
    assert kind.looks == ["a", "b"]
    loop.touch("b")
    loop.touch("nobody")
    until(loop, lambda: len(kind.looks) > 2)
    assert kind.looks[2:] == ["b"]


def test_what_was_waited_for_is_looked_at_in_the_next_round(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that is there does not wait for the distance that events are kept at."""
    monkeypatch.setattr("combofunc.work_loop._SPACING_S", 3600.0)
    kind = Kind()
    loop.know("a", kind)
    until(loop, lambda: kind.looks == ["a"])
    loop.touch("a")
    loop.round(True)
    assert kind.looks == ["a"]
    loop.hasten("a")
    loop.round(True)
    assert kind.looks == ["a", "a"]


def test_news_do_not_wait_until_all_were_looked_at(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("combofunc.work_loop._ROUND_S", 0.0)
    kind = Kind()
    for uid in "abc":
        loop.know(uid, kind)
    loop.round(True)
    assert kind.looks == ["a"]
    loop.post(lambda: loop.forget("b"))
    until(loop, lambda: len(kind.looks) == 2)
    assert kind.looks == ["a", "c"]


def test_what_concerns_all_of_a_kind_has_them_looked_at(loop: Loop) -> None:
    kind, others = Kind(), Kind()
    loop.know("a", kind)
    loop.know("b", kind)
    loop.know("c", others)
    until(loop, lambda: len(kind.looks) == 2)
    kind.answer = lambda uid: Work("shop", concerns_all=uid == "a" and kind.looks.count("b") == 1)
    loop.touch("a")
    until(loop, lambda: kind.looks.count("b") == 2)
    assert others.looks == ["c"]


def test_many_changes_are_one_look(loop: Loop) -> None:
    kind = Kind()
    loop.know("a", kind)
    began_s = time.monotonic()
    until(loop, lambda: loop.touch("a") or time.monotonic() - began_s > 0.5)  # type: ignore[func-returns-value]
    assert 2 <= len(kind.looks) <= 1 + (time.monotonic() - began_s) / 0.05


def test_one_batch_at_a_time_and_then_again(loop: Loop, world: Slow) -> None:
    pod = world.create("/api/v1/namespaces/shop/pods", body())
    kind = Kind()
    work = Work("shop", [Delete("p", pod["metadata"]["uid"], "")])
    kind.answer = lambda _: work if len(kind.looks) == 1 else Work("shop")
    loop.know("a", kind)
    loop.round(True)
    loop.touch("a")
    loop.post(lambda: None)
    loop.round(True)
    assert kind.looks == ["a"], "its writes are not answered yet"
    world.may.set()
    until(loop, lambda: len(kind.looks) == 2)
    assert [done.failure for done in kind.done] == [""]


def test_a_fault_of_one_is_not_that_of_the_others(loop: Loop) -> None:
    kind = Kind()

    def look(uid: str) -> Work:
        if uid == "a":
            raise ZeroDivisionError
        return Work("shop")

    kind.answer = look
    loop.know("a", kind)
    loop.know("b", kind)
    until(loop, lambda: len(kind.looks) == 2)
    assert kind.looks == ["a", "b"]


def test_looks_again_when_time_is_up(loop: Loop) -> None:
    kind = Kind()
    kind.answer = lambda _: Work("shop", again_in_s=0.05) if len(kind.looks) == 1 else Work("shop")
    loop.know("a", kind)
    until(loop, lambda: len(kind.looks) == 2)


def test_who_does_not_lead_any_more_does_not_write(world: Slow) -> None:
    pod = world.create("/api/v1/namespaces/shop/pods", body())
    loop, kind = Loop(world, lambda: False, lambda _: None), Kind()
    kind.answer = lambda _: Work("shop", [Delete("p", pod["metadata"]["uid"], "")])
    loop.know("a", kind)
    until(loop, lambda: bool(kind.done))
    loop.stop()
    assert kind.done[0].failure == "another replica leads now"
    assert "deletionTimestamp" not in world.pods["p"]["metadata"]


def test_every_batch_has_a_few_writes_done_in_each_turn() -> None:
    writers, may, began, done = Writers(1), threading.Event(), threading.Event(), list[str]()
    ended = threading.Event()

    def wait() -> None:
        began.set()
        may.wait(10)

    writers.submit([wait])
    assert began.wait(10)
    writers.submit([partial(done.append, "large")] * 20)
    writers.submit([partial(done.append, "small")] * 2)
    writers.submit([lambda: None] * 99 + [ended.set])
    may.set()
    assert ended.wait(10)
    writers.stop()
    assert done == ["large"] * 8 + ["small"] * 2 + ["large"] * 12
