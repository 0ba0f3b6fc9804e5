"""The loop: reconciles what changed, one batch of writes at a time; a fault of one object stays its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest

from combofunc.actuator import ActionResult
from combofunc.pods.actions import Delete
from combofunc.work_loop import Loop, Work
from combofunc.writers import Writers
from tests.combofunc.pods.test_tables import body
from tests.combofunc.pods.world import World, node


class FakeReconciler:
    """Answers as the test says."""

    def __init__(self) -> None:
        self.reconciled: list[str] = []
        self.results: list[ActionResult] = []
        self.answer: Callable[[str], Work | None] = lambda _: Work("shop")

    def reconcile(self, uid: str, now_s: float) -> Work | None:
        self.reconciled.append(uid)
        return self.answer(uid)

    def on_results(self, uid: str, results: Sequence[ActionResult], status_failure: str) -> None:
        self.results += results


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
    reconciler = FakeReconciler()
    loop.know("a", reconciler)
    loop.know("b", reconciler)
    loop.round(False)
    assert reconciler.reconciled == []
    until(loop, lambda: len(reconciler.reconciled) == 2)
    assert reconciler.reconciled == ["a", "b"]
    loop.touch("b")
    loop.touch("nobody")
    until(loop, lambda: len(reconciler.reconciled) > 2)
    assert reconciler.reconciled[2:] == ["b"]


def test_what_was_waited_for_is_looked_at_in_the_next_round(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that is there does not wait for the distance that events are kept at."""
    monkeypatch.setattr("combofunc.work_loop._SPACING_S", 3600.0)
    reconciler = FakeReconciler()
    loop.know("a", reconciler)
    until(loop, lambda: reconciler.reconciled == ["a"])
    loop.touch("a")
    loop.round(True)
    assert reconciler.reconciled == ["a"]
    loop.hasten("a")
    loop.round(True)
    assert reconciler.reconciled == ["a", "a"]


def test_news_do_not_wait_until_all_were_looked_at(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("combofunc.work_loop._ROUND_S", 0.0)
    reconciler = FakeReconciler()
    for uid in "abc":
        loop.know(uid, reconciler)
    loop.round(True)
    assert reconciler.reconciled == ["a"]
    loop.post(lambda: loop.forget("b"))
    until(loop, lambda: len(reconciler.reconciled) == 2)
    assert reconciler.reconciled == ["a", "c"]


def test_what_concerns_all_of_a_kind_has_them_reconciled(loop: Loop) -> None:
    reconciler, others = FakeReconciler(), FakeReconciler()
    loop.know("a", reconciler)
    loop.know("b", reconciler)
    loop.know("c", others)
    until(loop, lambda: len(reconciler.reconciled) == 2)
    reconciler.answer = lambda uid: Work(
        "shop", concerns_all=uid == "a" and reconciler.reconciled.count("b") == 1
    )
    loop.touch("a")
    until(loop, lambda: reconciler.reconciled.count("b") == 2)
    assert others.reconciled == ["c"]


def test_many_changes_are_one_look(loop: Loop) -> None:
    reconciler = FakeReconciler()
    loop.know("a", reconciler)
    began_s = time.monotonic()
    until(loop, lambda: loop.touch("a") or time.monotonic() - began_s > 0.5)  # type: ignore[func-returns-value]
    assert 2 <= len(reconciler.reconciled) <= 1 + (time.monotonic() - began_s) / 0.05


def test_one_batch_at_a_time_and_then_again(loop: Loop, world: Slow) -> None:
    pod = world.create("/api/v1/namespaces/shop/pods", body())
    reconciler = FakeReconciler()
    work = Work("shop", [Delete("p", pod["metadata"]["uid"], "")])
    reconciler.answer = lambda _: work if len(reconciler.reconciled) == 1 else Work("shop")
    loop.know("a", reconciler)
    loop.round(True)
    loop.touch("a")
    loop.post(lambda: None)
    loop.round(True)
    assert reconciler.reconciled == ["a"], "its writes are not answered yet"
    world.may.set()
    until(loop, lambda: len(reconciler.reconciled) == 2)
    assert [done.failure for done in reconciler.results] == [""]


def test_a_fault_of_one_is_not_that_of_the_others(loop: Loop) -> None:
    reconciler = FakeReconciler()

    def look(uid: str) -> Work:
        if uid == "a":
            raise ZeroDivisionError
        return Work("shop")

    reconciler.answer = look
    loop.know("a", reconciler)
    loop.know("b", reconciler)
    until(loop, lambda: len(reconciler.reconciled) == 2)
    assert reconciler.reconciled == ["a", "b"]


def test_looks_again_when_time_is_up(loop: Loop) -> None:
    reconciler = FakeReconciler()
    reconciler.answer = lambda _: (
        Work("shop", again_in_s=0.05) if len(reconciler.reconciled) == 1 else Work("shop")
    )
    loop.know("a", reconciler)
    until(loop, lambda: len(reconciler.reconciled) == 2)


def test_who_does_not_lead_any_more_does_not_write(world: Slow) -> None:
    pod = world.create("/api/v1/namespaces/shop/pods", body())
    loop, reconciler = Loop(world, lambda: False, lambda _: None), FakeReconciler()
    reconciler.answer = lambda _: Work("shop", [Delete("p", pod["metadata"]["uid"], "")])
    loop.know("a", reconciler)
    until(loop, lambda: bool(reconciler.results))
    loop.stop()
    assert reconciler.results[0].failure == "another replica leads now"
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
