"""The loop that owns the state: takes what came in, and publishes what changed, at most twice a second.

A change is encoded once for all readers. Each reader has a position in the last changes; one that is too slow
starts again with a snapshot, so readers cost the same however many and however slow they are.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Protocol

import orjson
import structlog

from cluster_view.state import State

__all__ = ["Publisher", "Source", "events"]

log = structlog.get_logger(__name__)
ROUND_S = 0.5
_KEPT = 64  # changes: half a minute
_KEPT_BYTES = 32 << 20


class Source(Protocol):
    def apply(self) -> None:
        """Give the state what came in."""


class Publisher:
    def __init__(self, state: State, source: Source) -> None:
        self._state, self._source = state, source
        self._news = threading.Condition()  # guards what follows
        self._changes: deque[bytes] = deque()  # encoded, the last of them number `_number`
        self._bytes, self._number = 0, 0
        self._snapshot: tuple[int, bytes] | None = None  # of which number
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> Publisher:
        self._thread.start()
        return self

    def stop(self) -> None:
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def round(self, at_s: float) -> None:
        """Take what came in; publish what it changed."""
        with self._news:
            self._source.apply()
            change = self._state.change(at_s)
            if change is not None:
                self._keep(orjson.dumps(change))
                self._news.notify_all()

    def snapshot(self) -> tuple[int, bytes]:
        """The number of the last change in it, and the snapshot in JSON. Made once for all who ask."""
        with self._news:
            if self._snapshot is None or self._snapshot[0] != self._number:
                self._snapshot = self._number, orjson.dumps(self._state.snapshot(time.time()))
            return self._snapshot

    def after(self, number: int, wait_s: float) -> tuple[int, list[bytes]] | None:
        """The changes after this one, as soon as there are any; empty after `wait_s`.

        None: some of them are gone already, or it is over.
        """
        with self._news:
            if number == self._number:
                self._news.wait_for(lambda: self._stopped or self._number > number, wait_s)
            behind = self._number - number
            if self._stopped or not 0 <= behind <= len(self._changes):
                return None
            return self._number, list(self._changes)[len(self._changes) - behind :]

    @property
    def stopped(self) -> bool:
        return self._stopped

    def _keep(self, change: bytes) -> None:
        self._changes.append(change)
        self._number += 1
        self._bytes += len(change)
        while self._changes and (len(self._changes) > _KEPT or self._bytes > _KEPT_BYTES):
            self._bytes -= len(self._changes.popleft())

    def _run(self) -> None:
        while not self._stopped:
            began_s = time.monotonic()
            try:
                self.round(time.time())
            except Exception:  # one bad round does not end the page
                log.exception("round failed")
            time.sleep(max(ROUND_S - (time.monotonic() - began_s), ROUND_S / 5))


def events(publisher: Publisher, wait_s: float) -> Iterator[tuple[str, bytes]]:
    """("state", snapshot), then ("change", change) ...; ("", b"") when nothing happens for `wait_s`."""
    while not publisher.stopped:
        number, snapshot = publisher.snapshot()
        yield "state", snapshot
        while (news := publisher.after(number, wait_s)) is not None:
            number, changes = news
            if not changes:
                yield "", b""
            for change in changes:
                yield "change", change
