"""Threads that write, fair to all functions: each has a few writes of its batch done in every turn.

So a status or one resize does not wait behind a thousand creations of another function, nor those for ever
behind small ones.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Sequence

import structlog

__all__ = ["Writers"]

log = structlog.get_logger(__name__)
Write = Callable[[], None]
# Writes of a batch in one turn. One would have functions that start together all end together, at the last.
_IN_A_TURN = 8


class Writers:
    def __init__(self, threads: int) -> None:
        # By turn (start-time fair queueing), then in the order they came.
        self._queue: queue.PriorityQueue[tuple[int, int, Write | None]] = queue.PriorityQueue()
        self._came = itertools.count()
        self._turn = 0
        self._threads = [
            threading.Thread(target=self._run, name=f"writer {i}", daemon=True) for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, batch: Sequence[Write]) -> None:
        for place, write in enumerate(batch):
            self._queue.put((self._turn + place // _IN_A_TURN, next(self._came), write))

    def stop(self) -> None:
        """What is under way is finished, what waits is not begun."""
        for _ in self._threads:
            self._queue.put((-1, next(self._came), None))

    def _run(self) -> None:
        while True:
            turn, _, write = self._queue.get()
            if write is None:
                return
            self._turn = turn
            try:
                write()
            except Exception:  # of ours: the thread serves the others
                log.exception("write failed")
