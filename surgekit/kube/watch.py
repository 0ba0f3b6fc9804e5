"""A watch that never gives up: list, watch, resume after a disconnect, list again after 410 Gone.

Facts carry their arrival time (`time.monotonic`), because API timestamps have whole seconds. `age_s` says how
old the consumer's picture may be: the time since the API server last said anything.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import orjson
import structlog

from surgekit.kube.client import ApiError, Kube, KubeUnreachable

__all__ = ["Consumer", "Watch", "overdue"]

log = structlog.get_logger(__name__)

# A dead connection that nobody closed is noticed when the watch should have ended, so watches are short. The
# server sends a bookmark before it ends one, and the next watch resumes there.
_WATCH_S = 25
# A watch that ends sooner, without a word, is a fault (client-go's reflector has the same limit).
_SHORTEST_WATCH_S = 1.0
_ABSENT_S = 5.0  # until an absent collection is asked for again
_BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)
# A gathering watch reads for at least this share of the time that it rests: it keeps up with 5,000 changes a
# second.
_READS = 0.25


def overdue(ages_s: Mapping[str, float], longest_s: float) -> str:
    """Name the first watch that is older than `longest_s`; empty when none is."""
    stale = (f"no word of {name} for {age_s:.0f} s" for name, age_s in ages_s.items() if age_s > longest_s)
    return next(stale, "")


class Consumer(Protocol):
    """Receives what a watch sees, in the watch's thread. Parts use a `Table`, which skips objects that cannot
    be read."""

    def replace(self, objects: list[dict[str, Any]], arrival_s: float) -> None:
        """Take the whole collection. Objects that are not in it are gone."""

    def apply(self, kind: str, obj: dict[str, Any], arrival_s: float) -> None:
        """Take one change; `kind` is ADDED, MODIFIED or DELETED."""


class Watch:
    """Feeds one collection of the API server to one consumer, in a thread of its own.

    A collection that `may_be_absent` (the CRD of a part that is not installed) counts as synced without one.
    What was known of it stays: an API server that has just started has no CRD for a moment.

    With `gather_s` it rests so long after it has read, and then reads what has come meanwhile: to wake up for
    a change costs more than to read it. The first change after a silence is read at once.
    `decode` may leave out what the consumer does not read of an object.
    """

    def __init__(
        self,
        kube: Kube,
        path: str,
        consumer: Consumer,
        *,
        may_be_absent: bool = False,
        gather_s: float = 0.0,
        decode: Callable[[bytes], dict[str, Any]] = orjson.loads,
        **selectors: str,
    ) -> None:
        self._kube, self._path, self._consumer, self._selectors = kube, path, consumer, selectors
        self._may_be_absent, self._gather_s, self._decode = may_be_absent, gather_s, decode
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)
        self._last_contact_s = -float("inf")
        self._version = ""  # of the last change that the consumer took; empty: list first
        self._failures = 0  # in a row
        self.synced = threading.Event()

    def start(self) -> Watch:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()

    def age_s(self, now_s: float) -> float:
        """Seconds since the API server last confirmed this picture; infinite before the first list."""
        return now_s - self._last_contact_s

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except ApiError as error:
                # 410 Gone: the server forgot our version. Anything else may be a passing fault of its
                # own (a restart answers 503, then 401/403 while its caches fill): list again as well.
                self._version = ""
                if error.code == 404 and self._may_be_absent:
                    self._last_contact_s = time.monotonic()
                    self.synced.set()
                    self._stopping.wait(_ABSENT_S)
                    continue
                log.info("watch restarts", path=self._path, code=error.code, reason=error.message)
                self._back_off(at_once=error.code == 410)
            except KubeUnreachable as error:
                if self._stopping.is_set():  # the server may well be stopped together with the watch
                    return
                log.warning("watch lost the API server", path=self._path, error=str(error))
                self._back_off()
            except Exception:
                # A consumer that fails must not end the watch for good. It missed something: list again.
                log.exception("watch consumer failed", path=self._path)
                self._version = ""
                self._back_off()

    def _back_off(self, at_once: bool = False) -> None:
        """Wait longer with each failure in a row; not after the first one if `at_once`."""
        if self._failures or not at_once:
            base_s = _BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)]
            self._stopping.wait(base_s * random.uniform(0.5, 1.5))
        self._failures += 1

    def _list(self) -> None:
        objects, version = self._kube.list_all(self._path, **self._selectors)
        arrival_s = time.monotonic()
        self._consumer.replace(objects, arrival_s)
        self._last_contact_s, self._version = arrival_s, version
        self.synced.set()

    def _watch(self) -> None:
        """Follow changes until the server ends the watch."""
        began_s = time.monotonic()
        batches = self._kube.stream(
            self._path,
            watch=True,
            allowWatchBookmarks=True,
            resourceVersion=self._version,
            timeoutSeconds=_WATCH_S,
            **self._selectors,
        )
        heard, rested_s = False, began_s
        for lines in batches:
            if self._stopping.is_set():
                return
            heard, self._last_contact_s = True, time.monotonic()
            for line in filter(None, lines):
                self._take(self._decode(line), self._last_contact_s)
            self._failures = 0
            if self._gather_s and time.monotonic() - rested_s > _READS * self._gather_s:
                self._stopping.wait(self._gather_s)
                rested_s = time.monotonic()
        ended_s = time.monotonic()
        if not heard and ended_s - began_s < _SHORTEST_WATCH_S:
            raise KubeUnreachable(f"watch {self._path} ended at once, without a word")
        self._last_contact_s, self._failures = ended_s, 0

    def _take(self, event: dict[str, Any], arrival_s: float) -> None:
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            raise ApiError(obj.get("code", 500), obj.get("reason", ""), obj.get("message", ""))
        if kind != "BOOKMARK":
            self._consumer.apply(kind, obj, arrival_s)
        # Only now: after a disconnect the next watch resumes here, and tells no change twice.
        self._version = obj["metadata"]["resourceVersion"]
