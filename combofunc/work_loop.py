"""One thread that looks, decides and hands writes to others: level-based, one batch of writes a function.

What the watches and the writers have to tell lies in an inbox until this thread takes it in, so all tables
belong to it and nothing is locked.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import structlog

from combofunc.actuator import Done, carry_out
from combofunc.pods.actions import Action
from combofunc.writers import Writers
from surgekit.kube.client import ApiError, Kube, KubeUnreachable

__all__ = ["Kind", "Loop", "Work"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
_WRITERS = 12  # surgekit.kube.client keeps 16 connections, some are watches'
_LONGEST_SLEEP_S = 0.5
_AFTER_A_FAULT_S, _AFTER_A_LOST_STATUS_S, _AFTER_BEING_OVERTAKEN_S = 5.0, 1.0, 0.2
# Between two looks at one function: many events are one look, and writes that change nothing (a webhook takes
# them back) do not run away.
_SPACING_S = 0.05
# Of looking in one round: then what came meanwhile is taken in. 200 plans in a row (a new term) took a minute
# on busy cores, in which no answer was heard and nobody asked whether this replica still leads.
_ROUND_S = 0.2


@dataclass(frozen=True, slots=True)
class Work:
    """What a look at one function led to."""

    namespace: str
    actions: Sequence[Action] = ()
    status: tuple[str, Json] | None = None  # path of the subresource and body of a merge patch
    event: Callable[[], None] | None = None  # posts it
    again_in_s: float = math.inf
    concerns_all: bool = False  # of its kind: they are to be looked at as well


class Kind(Protocol):
    """ComboFuncs, or InPlaceDeployments. Called from the loop's thread only."""

    def look(self, uid: str, now_s: float) -> Work | None:
        """`now_s` is Unix time. None: there is no such object."""

    def came_of(self, uid: str, done: Sequence[Done], status_failure: str) -> None: ...


class Loop:
    def __init__(self, kube: Kube, allowed: Callable[[], bool], tell: Callable[[Done], None]) -> None:
        """`allowed` is asked before every write; `tell` is told of every action in the loop's thread."""
        self._kube, self._allowed, self._tell = kube, allowed, tell
        self._inbox: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._kinds: dict[str, Kind] = {}  # by the object's uid
        self._dirty: dict[str, None] = {}  # in the order they became so
        self._busy: set[str] = set()
        self._due: list[tuple[float, str]] = []
        self._due_at: dict[str, float] = {}
        self._looked_at: dict[str, float] = {}
        self._writers = Writers(_WRITERS)

    # --- any thread ---

    def post(self, change: Callable[[], None]) -> None:
        """Have the loop's thread do this before it looks again."""
        self._inbox.append(change)
        self._wake.set()

    def stop(self) -> None:
        self._wake.set()
        self._writers.stop()

    # --- the loop's thread ---

    def know(self, uid: str, kind: Kind) -> None:
        self._kinds[uid] = kind
        self.touch(uid)

    def forget(self, uid: str) -> None:
        self._kinds.pop(uid, None)
        self._dirty.pop(uid, None)
        self._due_at.pop(uid, None)
        self._looked_at.pop(uid, None)

    def touch(self, uid: str) -> None:
        """Something of it changed."""
        if uid in self._kinds:
            self._dirty[uid] = None

    def hasten(self, uid: str) -> None:
        """What it waited for is there: the next look does not keep its distance from the last."""
        self._looked_at.pop(uid, None)
        self.touch(uid)

    def touch_all(self, kind: Kind) -> None:
        for uid, of in self._kinds.items():
            if of is kind:
                self._dirty[uid] = None

    def round(self, acting: bool) -> None:
        """Take in what is new; look at what changed or is due when `acting`."""
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
            rest_s = self._looked_at.get(uid, -math.inf) + _SPACING_S - time.monotonic()
            if rest_s > 0:
                self._again(uid, rest_s)
            else:
                self._look(uid)
            if time.monotonic() - now_s >= _ROUND_S:
                break

    def _sleep_s(self, acting: bool) -> float:
        if acting and any(uid not in self._busy for uid in self._dirty):
            return 0.0
        until_s = self._due[0][0] - time.monotonic() if self._due and acting else math.inf
        return min(max(until_s, 0.0), _LONGEST_SLEEP_S)

    def _look(self, uid: str) -> None:
        kind = self._kinds[uid]
        self._looked_at[uid] = time.monotonic()
        self._due_at.pop(uid, None)
        try:
            work = kind.look(uid, time.time())
        except Exception:  # one function's fault must not keep the others from their pods
            log.exception("look failed", uid=uid)
            self._again(uid, _AFTER_A_FAULT_S)
            return
        if work is None:
            self.forget(uid)
            return
        self._again(uid, work.again_in_s)
        if work.concerns_all:
            self.touch_all(kind)
        if work.actions or work.status or work.event:
            self._busy.add(uid)
            self._hand_out(uid, kind, work)

    def _again(self, uid: str, in_s: float) -> None:
        due_s = time.monotonic() + max(in_s, 0.0)
        if due_s < self._due_at.get(uid, math.inf):
            self._due_at[uid] = due_s
            heapq.heappush(self._due, (due_s, uid))

    def _hand_out(self, uid: str, kind: Kind, work: Work) -> None:
        writes: list[Callable[[], Done | str]] = [self._status(*work.status)] if work.status else []
        writes += [self._action(work.namespace, action) for action in work.actions]
        if work.event:
            writes.append(self._event(work.event))
        said: list[Done | str] = []

        def one(write: Callable[[], Done | str]) -> None:
            try:
                came = write()
            except Exception as error:
                log.exception("write failed")
                came = repr(error)
            self.post(lambda: self._said(uid, kind, said, came, len(writes)))

        self._writers.submit([partial(one, write) for write in writes])

    def _said(self, uid: str, kind: Kind, said: list[Done | str], came: Done | str, of: int) -> None:
        said.append(came)
        if isinstance(came, Done):
            self._tell(came)
        if len(said) < of:
            return
        self._busy.discard(uid)
        if uid not in self._kinds:
            return
        done = [d for d in said if isinstance(d, Done)]
        failure = next((s for s in said if isinstance(s, str) and s), "")
        kind.came_of(uid, done, failure)
        if any(d.pod or d.gone or d.failure for d in done):
            self.touch(uid)
        elif done:
            self._again(uid, _AFTER_BEING_OVERTAKEN_S)  # the watch will tell by whom
        if failure:
            self._again(uid, _AFTER_A_LOST_STATUS_S)

    def _action(self, namespace: str, action: Action) -> Callable[[], Done]:
        def write() -> Done:
            if not self._allowed():
                return Done(action, failure="another replica leads now")
            return carry_out(self._kube, namespace, action)

        return write

    def _status(self, path: str, body: Json) -> Callable[[], str]:
        def write() -> str:
            if not self._allowed():
                return "another replica leads now"
            try:
                self._kube.patch(path, body)
            except (ApiError, KubeUnreachable) as error:
                if isinstance(error, ApiError) and error.code in (404, 409):
                    return ""  # deleted meanwhile, or another of the same name
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
