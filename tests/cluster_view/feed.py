"""The page of a made-up cluster: its real server and stream; only what they tell of is a test's."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cluster_view.model import Change, Snapshot, apply
from cluster_view.publisher import Publisher
from cluster_view.server import Page
from surgekit.errors import UserError

__all__ = ["Feed", "served"]


class _Told:
    """Stands in for the state and its source."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._next: deque[Change] = deque()

    def push(self, change: Change) -> None:
        self._next.append(change)

    def apply(self) -> None:
        """Nothing comes from a cluster."""

    def snapshot(self, at_s: float) -> Snapshot:
        return self._snapshot

    def change(self, at_s: float) -> Change | None:
        if not self._next:
            return None
        change = self._next.popleft()
        self._snapshot = apply(self._snapshot, change)
        return change


class Feed:
    """Also stands in for the view: what the page's server starts, asks and stops."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.placements: dict[str, dict[str, Any]] = {}  # what the extender says, by pod
        self._told = _Told(snapshot)
        self._port = 0
        self.restore()

    def restore(self) -> None:
        """Serve, at the address where it was before."""
        self.publisher = Publisher(self._told, self._told)  # type: ignore[arg-type]  # see _Told
        self._page = Page(self, "127.0.0.1", self._port).start()  # type: ignore[arg-type]
        self.url = self._page.url
        self._port = int(self.url.rstrip("/").rpartition(":")[2])

    def lose(self) -> None:
        """End all streams, and refuse new ones."""
        self._page.stop()

    def push(self, change: Change) -> None:
        self._told.push(change)

    def ask(self, pod: str) -> dict[str, Any]:
        if pod not in self.placements:
            raise UserError(f"no decision about {pod} is kept")
        return self.placements[pod]

    def start(self) -> None:
        """The page does this to a view."""

    def stop(self) -> None:
        self.publisher.stop()


@contextmanager
def served(snapshot: Snapshot) -> Iterator[Feed]:
    feed = Feed(snapshot)
    try:
        yield feed
    finally:
        feed.lose()
