"""A watch that never gives up: list, watch, resume; relist after 410 Gone.

The consumer is told facts by arrival time (`time.monotonic`), because API timestamps have whole
seconds. `age_s` says how old the picture may be: the time since the API server last said anything.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

import orjson
import structlog

from surgekit.kube.client import ApiError, Kube, KubeUnreachable

__all__ = ["Consumer", "Watch", "overdue"]

log = structlog.get_logger(__name__)

# Short watches bound how long a silently dead connection goes unnoticed; the server sends a bookmark
# before it ends one, so the next resumes where this stopped.
_WATCH_S = 25
_BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)


def overdue(ages_s: Mapping[str, float], longest_s: float) -> str:
    """Which picture is older than it may be, in words; empty when none is."""
    stale = (f"no word of {name} for {age_s:.0f} s" for name, age_s in ages_s.items() if age_s > longest_s)
    return next(stale, "")


class Consumer(Protocol):
    """What a watch tells. Called from the watch's thread. Parts take a `Table`, which outlives
    objects that cannot be read."""

    def replace(self, objects: list[dict[str, Any]], arrival_s: float) -> None:
        """The whole collection; whatever was known and is not here is gone."""

    def apply(self, kind: str, obj: dict[str, Any], arrival_s: float) -> None:
        """One change: ADDED, MODIFIED or DELETED."""


class Watch:
    """Feeds one collection of the API server to one consumer, in a thread of its own."""

    def __init__(self, kube: Kube, path: str, consumer: Consumer, **selectors: str) -> None:
        self._kube, self._path, self._consumer, self._selectors = kube, path, consumer, selectors
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)
        self._last_contact_s = -float("inf")
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
        version, failures = "", 0
        while not self._stopping.is_set():
            try:
                version = self._watch(version or self._list())
                failures = 0
            except ApiError as error:
                # 410 Gone: the server forgot our version. Anything else may be a passing fault of its
                # own (a restart answers 503, then 401/403 while its caches fill): list again as well.
                version = ""
                log.info("watch restarts", path=self._path, code=error.code, reason=error.message)
                if error.code != 410:
                    self._wait(failures)
                    failures += 1
            except KubeUnreachable as error:
                if self._stopping.is_set():  # who stops a watch may well stop the server next
                    return
                log.warning("watch lost the API server", path=self._path, error=str(error))
                self._wait(failures)
                failures += 1
            except Exception:
                # A consumer that fails must not end the watch for good.
                log.exception("watch consumer failed", path=self._path)
                version = ""
                self._wait(failures)
                failures += 1

    def _wait(self, failures: int) -> None:
        base = _BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)]
        self._stopping.wait(base * random.uniform(0.5, 1.5))

    def _list(self) -> str:
        objects, version = self._kube.list_all(self._path, **self._selectors)
        arrival_s = time.monotonic()
        self._consumer.replace(objects, arrival_s)
        self._last_contact_s = arrival_s
        self.synced.set()
        return version

    def _watch(self, version: str) -> str:
        """Follow changes until the server ends the watch; the version to resume from."""
        batches = self._kube.stream(
            self._path,
            watch=True,
            allowWatchBookmarks=True,
            resourceVersion=version,
            timeoutSeconds=_WATCH_S,
            **self._selectors,
        )
        for lines in batches:
            arrival_s = self._last_contact_s = time.monotonic()
            for line in lines:
                if not line:
                    continue
                event = orjson.loads(line)
                kind, obj = event["type"], event["object"]
                if kind == "ERROR":
                    raise ApiError(obj.get("code", 500), obj.get("reason", ""), obj.get("message", ""))
                version = obj["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    self._consumer.apply(kind, obj, arrival_s)
            if self._stopping.is_set():
                break
        else:
            self._last_contact_s = time.monotonic()  # the server ended it in good order
        return version
