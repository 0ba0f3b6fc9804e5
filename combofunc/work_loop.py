"""One thread reconciles objects and hands their writes to writer threads, one batch an object. Level-based.

Watches and writers post to an inbox that this thread empties. So all tables belong to this thread, without
locks.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import structlog

from combofunc.actuator import ActionResult, carry_out
from combofunc.pods.actions import Action
from combofunc.writers import Writers
from surgekit.kube.client import ApiError, Kube, KubeUnreachable

__all__ = ["Loop", "Reconciler", "Work"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
_WRITERS = 12  # surgekit.kube.client keeps 16 connections, and watches need some
_LONGEST_SLEEP_S = 0.5
_AFTER_A_FAULT_S, _AFTER_A_LOST_STATUS_S, _AFTER_A_CONFLICT_S = 5.0, 1.0, 0.2
# Shortest time between two reconciles of one object. Many events lead to one reconcile, and writes that a
# webhook undoes do not loop without end.
_SPACING_S = 0.05
# Longest time to reconcile before the inbox is read again. Without it, 200 reconciles in a row (a new leader)
# took a minute on busy cores, without reading answers or checking the Lease.
_ROUND_S = 0.2


@dataclass(frozen=True, slots=True)
class Work:
    """The writes that a reconcile asks for."""

    namespace: str
    actions: Sequence[Action] = ()
    # Path of the subresource and body of a merge patch. It may reach a newer object of the same name, whose
    # own reconcile mends that.
    status: tuple[str, Json] | None = None
    event: Callable[[], None] | None = None  # posts Events
    again_in_s: float = math.inf
    concerns_all: bool = False  # reconcile all objects of this kind


class Reconciler(Protocol):
    """Reconciles one kind: ComboFuncs, or InPlaceDeployments. Called from the loop's thread only."""

    def reconcile(self, uid: str, now_s: float) -> Work | None:
        """`now_s` is Unix time. None: there is no such object."""

    def on_results(self, uid: str, results: Sequence[ActionResult], status_failure: str) -> None:
        """Called once all writes of a reconcile are answered."""


@dataclass(slots=True)
class _Batch:
    """The writes of one reconcile, and the answers so far: results of actions, or failures of the status."""

    uid: str
    reconciler: Reconciler
    writes: int
    answers: list[ActionResult | str] = field(default_factory=list)


class Loop:
    def __init__(self, kube: Kube, allowed: Callable[[], bool], tell: Callable[[ActionResult], None]) -> None:
        """`allowed` is checked before every write. `tell` gets every result, in the loop's thread."""
        self._kube, self._allowed, self._tell = kube, allowed, tell
        self._inbox: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._reconcilers: dict[str, Reconciler] = {}  # by the object's uid
        self._dirty: dict[str, None] = {}  # uids to reconcile, in order of arrival
        self._busy: set[str] = set()  # uids with writes that are not answered
        self._due: list[tuple[float, str]] = []
        self._due_at: dict[str, float] = {}
        self._reconciled_at_s: dict[str, float] = {}
        self._writers = Writers(_WRITERS)

    # --- any thread ---

    def post(self, change: Callable[[], None]) -> None:
        """Run `change` in the loop's thread before the next reconcile."""
        self._inbox.append(change)
        self._wake.set()

    def stop(self) -> None:
        self._wake.set()
        self._writers.stop()

    # --- the loop's thread ---

    def know(self, uid: str, reconciler: Reconciler) -> None:
        self._reconcilers[uid] = reconciler
        self.touch(uid)

    def forget(self, uid: str) -> None:
        self._reconcilers.pop(uid, None)
        self._dirty.pop(uid, None)
        self._due_at.pop(uid, None)
        self._reconciled_at_s.pop(uid, None)

    def touch(self, uid: str) -> None:
        """Reconcile the object soon: something about it changed."""
        if uid in self._reconcilers:
            self._dirty[uid] = None

    def hasten(self, uid: str) -> None:
        """Reconcile the object in the next round: what it waited for is ready."""
        self._reconciled_at_s.pop(uid, None)
        self.touch(uid)

    def touch_all(self, reconciler: Reconciler) -> None:
        for uid, known in self._reconcilers.items():
            if known is reconciler:
                self._dirty[uid] = None

    def round(self, acting: bool) -> None:
        """Empty the inbox. If `acting`, also reconcile what changed or is due."""
        self._wake.wait(self._sleep_s(acting))
        self._wake.clear()
        while self._inbox:
            self._inbox.popleft()()
        if not acting:
            return
        now_s = time.monotonic()
        while self._due and self._due[0][0] <= now_s:
            due_s, uid = heapq.heappop(self._due)
            if self._due_at.get(uid) == due_s:
                del self._due_at[uid]
                self.touch(uid)
        for uid in [uid for uid in self._dirty if uid not in self._busy]:
            self._dirty.pop(uid, None)
            rest_s = self._reconciled_at_s.get(uid, -math.inf) + _SPACING_S - time.monotonic()
            if rest_s > 0:
                self._again(uid, rest_s)
            else:
                self._reconcile(uid)
            if time.monotonic() - now_s >= _ROUND_S:
                break

    def _sleep_s(self, acting: bool) -> float:
        if acting and any(uid not in self._busy for uid in self._dirty):
            return 0.0
        until_s = self._due[0][0] - time.monotonic() if self._due and acting else math.inf
        return min(max(until_s, 0.0), _LONGEST_SLEEP_S)

    def _reconcile(self, uid: str) -> None:
        reconciler = self._reconcilers[uid]
        self._reconciled_at_s[uid] = time.monotonic()
        self._due_at.pop(uid, None)
        try:
            work = reconciler.reconcile(uid, time.time())
        except Exception:  # our fault; other objects must not suffer from it
            log.exception("reconcile failed", uid=uid)
            self._again(uid, _AFTER_A_FAULT_S)
            return
        if work is None:
            self.forget(uid)
            return
        self._again(uid, work.again_in_s)
        if work.concerns_all:
            self.touch_all(reconciler)
        if work.actions or work.status or work.event:
            self._busy.add(uid)
            self._hand_out(uid, reconciler, work)

    def _again(self, uid: str, in_s: float) -> None:
        due_s = time.monotonic() + max(in_s, 0.0)
        if due_s < self._due_at.get(uid, math.inf):
            self._due_at[uid] = due_s
            heapq.heappush(self._due, (due_s, uid))

    def _hand_out(self, uid: str, reconciler: Reconciler, work: Work) -> None:
        writes: list[Callable[[], ActionResult | str]] = [self._status(*work.status)] if work.status else []
        writes += [self._action(work.namespace, action) for action in work.actions]
        if work.event:
            writes.append(self._event(work.event))
        batch = _Batch(uid, reconciler, len(writes))

        def one(write: Callable[[], ActionResult | str]) -> None:
            try:
                answer = write()
            except Exception as error:
                log.exception("write failed")
                answer = repr(error)
            self.post(lambda: self._answered(batch, answer))

        self._writers.submit([partial(one, write) for write in writes])

    def _answered(self, batch: _Batch, answer: ActionResult | str) -> None:
        batch.answers.append(answer)
        if isinstance(answer, ActionResult):
            self._tell(answer)
        if len(batch.answers) < batch.writes:
            return
        uid = batch.uid
        self._busy.discard(uid)
        if uid not in self._reconcilers:
            return
        results = [one for one in batch.answers if isinstance(one, ActionResult)]
        failure = next((one for one in batch.answers if isinstance(one, str) and one), "")
        batch.reconciler.on_results(uid, results, failure)
        if any(result.pod or result.gone or result.failure for result in results):
            self.touch(uid)
        elif results:
            self._again(uid, _AFTER_A_CONFLICT_S)  # the watch will show the other write
        if failure:
            self._again(uid, _AFTER_A_LOST_STATUS_S)

    def _action(self, namespace: str, action: Action) -> Callable[[], ActionResult]:
        def write() -> ActionResult:
            if not self._allowed():
                return ActionResult(action, failure="another replica leads now")
            return carry_out(self._kube, namespace, action)

        return write

    def _status(self, path: str, body: Json) -> Callable[[], str]:
        def write() -> str:
            if not self._allowed():
                return "another replica leads now"
            try:
                self._kube.patch(path, body)
            except (ApiError, KubeUnreachable) as error:
                if isinstance(error, ApiError) and error.code == 404:
                    return ""  # the object was deleted
                log.warning("status not written", path=path, error=str(error))
                return str(error)
            return ""

        return write

    def _event(self, post: Callable[[], None]) -> Callable[[], str]:
        def write() -> str:
            if self._allowed():
                post()
            return ""

        return write
