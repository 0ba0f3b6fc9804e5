"""Makes plans in threads of their own, so that a slow plan delays neither the loop nor other functions.

Each namespace has one plan made at a time, and the namespace served longest ago is next. So a tenant with
many or slow plans only delays itself. A function waits in line once, however often it asks. Its input is made
when its turn comes, from the cluster at that time. A result for a basis that is no longer wanted is dropped.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import structlog

from combofunc.planner.model import Planner
from combofunc.reconcile.function_state import Basis
from combofunc.reconcile.plan_result import PlanResult, failed_result, make_plan
from combofunc.reconcile.planner_input import PlannerInput

__all__ = ["Desk", "PlanningDesk"]

log = structlog.get_logger(__name__)
_THREADS = 2


@dataclass(frozen=True, slots=True)
class _Request:
    namespace: str
    basis: Basis
    make_input: Callable[[], PlannerInput]


class Desk(Protocol):
    def request(
        self, uid: str, namespace: str, basis: Basis, make_input: Callable[[], PlannerInput]
    ) -> PlanResult | None: ...

    def cancel(self, uid: str) -> None: ...

    def reset(self) -> None: ...


class PlanningDesk:
    """Belongs to the loop's thread; only `make_plan` runs in other threads."""

    def __init__(
        self,
        planner: Planner,
        post: Callable[[Callable[[], None]], None],
        touch: Callable[[str], None],
        threads: int = _THREADS,
    ) -> None:
        """`post` runs a callable in the loop's thread. `touch` has a function reconciled."""
        self._planner, self._post, self._touch = planner, post, touch
        self._waiting: dict[str, _Request] = {}  # by the function's uid, in order of arrival
        self._planning: dict[str, _Request] = {}
        self._results: dict[str, PlanResult] = {}
        self._served: dict[str, int] = {}  # namespace -> its last turn
        self._turns = itertools.count(1)
        self._term = 0
        self._queue: queue.SimpleQueue[tuple[int, str, Basis, PlannerInput] | None] = queue.SimpleQueue()
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
            self._queue.put(None)

    def reset(self) -> None:
        """Drop all requests and results: another replica led meanwhile."""
        self._term += 1
        self._waiting.clear()
        self._results.clear()
        self._served.clear()

    def request(
        self, uid: str, namespace: str, basis: Basis, make_input: Callable[[], PlannerInput]
    ) -> PlanResult | None:
        """The result, or None while it is not ready. The function is touched once it is."""
        found = self._results.pop(uid, None)
        if found is not None and found.basis == basis:
            return found
        under_way = self._planning.get(uid)
        if under_way is None or under_way.basis != basis:
            self._waiting[uid] = _Request(namespace, basis, make_input)
            self.hand_out()
        return self._results.pop(uid, None)  # making the input may have failed at once

    def cancel(self, uid: str) -> None:
        """The function needs no plan now, or has taken its result."""
        self._waiting.pop(uid, None)
        self._results.pop(uid, None)
        self.hand_out()

    def hand_out(self) -> None:
        """Start waiting plans on free threads. Also called from time to time."""
        while len(self._planning) < len(self._threads):
            taken = {request.namespace for request in self._planning.values()}
            free = [uid for uid, request in self._waiting.items() if request.namespace not in taken]
            if not free:
                return
            uid = min(free, key=lambda uid: self._served.get(self._waiting[uid].namespace, 0))
            request = self._waiting.pop(uid)
            self._served[request.namespace] = next(self._turns)
            try:
                given = request.make_input()
            except Exception as error:
                self._results[uid] = failed_result(request.basis, error)
                self._touch(uid)
                continue
            self._planning[uid] = request
            self._queue.put((self._term, uid, request.basis, given))

    def _take(self, term: int, uid: str, result: PlanResult) -> None:
        self._planning.pop(uid, None)
        if term == self._term and uid not in self._waiting:  # else another plan is wanted by now
            self._results[uid] = result
            self._touch(uid)
            # The next plan starts after this result was taken, so that it counts the pods planned here.

    # --- planning threads ---

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            term, uid, basis, given = item
            began_s = time.perf_counter()
            try:
                result = make_plan(basis, given, self._planner)
            except Exception as error:
                log.exception("plan failed", function=uid)
                result = failed_result(basis, error)
            result = replace(result, planning_s=time.perf_counter() - began_s)
            self._post(partial(self._take, term, uid, result))
