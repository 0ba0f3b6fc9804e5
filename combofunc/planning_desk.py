"""Plans in threads of its own, so that one function's slow plan keeps neither the loop nor others waiting.

Each namespace has one plan made at a time, and the one that was served longest ago is next: a tenant's many
or slow plans come out of that tenant's own turns. A function waits once, however often it asks; its question
is made when its turn comes, from the cluster as it is then. An answer for what is not wanted any more is
dropped.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import structlog

from combofunc.planner.model import Planner
from combofunc.reconcile.plan_result import Answer, Question, answer, failed

__all__ = ["Desk", "PlanningDesk"]

log = structlog.get_logger(__name__)
Basis = tuple[Any, ...]
_THREADS = 2


@dataclass(frozen=True, slots=True)
class _Wish:
    namespace: str
    basis: Basis
    question: Callable[[], Question]


class Desk(Protocol):
    def ask(
        self, uid: str, namespace: str, basis: Basis, question: Callable[[], Question]
    ) -> Answer | None: ...

    def leave(self, uid: str) -> None: ...

    def reset(self) -> None: ...


class PlanningDesk:
    """Owned by the loop's thread; only `answer` runs elsewhere."""

    def __init__(
        self,
        planner: Planner,
        post: Callable[[Callable[[], None]], None],
        touch: Callable[[str], None],
        threads: int = _THREADS,
    ) -> None:
        """`post` has the loop's thread do something; `touch`, called there, a look at a function."""
        self._planner, self._post, self._touch = planner, post, touch
        self._waiting: dict[str, _Wish] = {}  # by the function's uid, in the order they came
        self._planning: dict[str, _Wish] = {}
        self._answers: dict[str, Answer] = {}
        self._served: dict[str, int] = {}  # namespace -> the last turn it had
        self._turns = itertools.count(1)
        self._term = 0
        self._questions: queue.SimpleQueue[tuple[int, str, Basis, Question] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"planning {i}", daemon=True) for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        return all(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        for _ in self._threads:
            self._questions.put(None)

    def reset(self) -> None:
        """Another replica has acted meanwhile: what was asked before is nobody's question."""
        self._term += 1
        self._waiting.clear()
        self._answers.clear()
        self._served.clear()

    def ask(self, uid: str, namespace: str, basis: Basis, question: Callable[[], Question]) -> Answer | None:
        """The answer; None: it is being worked out or waits for its turn. The function is touched then."""
        found = self._answers.pop(uid, None)
        if found is not None and found.basis == basis:
            return found
        under_way = self._planning.get(uid)
        if under_way is None or under_way.basis != basis:
            self._waiting[uid] = _Wish(namespace, basis, question)
            self.hand_out()
        return self._answers.pop(uid, None)  # the question may have failed at once

    def leave(self, uid: str) -> None:
        """It needs no plan now, or has taken one."""
        self._waiting.pop(uid, None)
        self._answers.pop(uid, None)
        self.hand_out()

    def hand_out(self) -> None:
        """Begin the plans that threads are free for. Also to be called now and then."""
        while len(self._planning) < len(self._threads):
            taken = {wish.namespace for wish in self._planning.values()}
            free = [uid for uid, wish in self._waiting.items() if wish.namespace not in taken]
            if not free:
                return
            uid = min(free, key=lambda uid: self._served.get(self._waiting[uid].namespace, 0))
            wish = self._waiting.pop(uid)
            self._served[wish.namespace] = next(self._turns)
            try:
                asked = wish.question()
            except Exception as error:
                self._answers[uid] = failed(wish.basis, error)
                self._touch(uid)
                continue
            self._planning[uid] = wish
            self._questions.put((self._term, uid, wish.basis, asked))

    def _take(self, term: int, uid: str, found: Answer) -> None:
        self._planning.pop(uid, None)
        if term == self._term and uid not in self._waiting:  # else something else is wanted by now
            self._answers[uid] = found
            self._touch(uid)
            # The next is begun once this one was taken: what it plans to create counts by then.

    # --- threads ---

    def _run(self) -> None:
        while (asked := self._questions.get()) is not None:
            term, uid, basis, question = asked
            began_s = time.perf_counter()
            try:
                found = answer(basis, question, self._planner)
            except Exception as error:
                log.exception("plan failed", function=uid)
                found = failed(basis, error)
            found = replace(found, took_s=time.perf_counter() - began_s)
            self._post(partial(self._take, term, uid, found))
