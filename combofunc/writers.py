"""Writer threads that are fair to all functions: each turn does a few writes of every batch.

So one status does not wait behind a thousand creations of another function, and a large batch does not starve
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
# Writes of one batch per turn. With 1, functions that start together would all finish last.
_PER_TURN = 8


class Writers:
    def __init__(self, threads: int) -> None:
        # By turn (start-time fair queueing), then in order of arrival.
        self._queue: queue.PriorityQueue[tuple[int, int, Write | None]] = queue.PriorityQueue()
        self._arrivals = itertools.count()
        self._turn = 0
        self._threads = [
            threading.Thread(target=self._run, name=f"writer {i}", daemon=True) for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, batch: Sequence[Write]) -> None:
        for place, write in enumerate(batch):
            self._queue.put((self._turn + place // _PER_TURN, next(self._arrivals), write))

    def stop(self) -> None:
        """Finish writes under way; do not start those that wait."""
        for _ in self._threads:
            self._queue.put((-1, next(self._arrivals), None))

    def _run(self) -> None:
        while True:
            turn, _, write = self._queue.get()
            if write is None:
                return
            self._turn = turn
            try:
                write()
            except Exception:  # our fault; the thread must serve the others
                log.exception("write failed")
