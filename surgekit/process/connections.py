"""The connections of one port: how many, of which peer, and until when.

A thread serves a connection and blocks in the kernel between requests. A second thread looks at all
connections and ends those that are late: a request has `request_s` from its first byte (the first request of
a connection: from the connection on, TLS handshake included) to the end of its answer, however steadily its
bytes drip. When there is no room for a new connection, one of the peer that holds most is ended instead: slow
clients lose theirs, quick ones are done before it is their turn.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Connection", "Connections", "Limits", "victim"]

_LOOK_S = 0.5  # at most this much later than its time a connection ends


@dataclass(frozen=True)
class Limits:
    total: int  # connections
    per_peer: int  # connections of one address
    request_s: float  # for a request as a whole, handshake and answer included
    idle_s: float  # between requests


class Connection:
    """A client's. Written by the thread that serves it, read by others."""

    __slots__ = ("ended", "idle", "idle_s", "peer", "since_s", "socket", "trusted")

    def __init__(self, client: socket.socket, peer: str, idle_s: float) -> None:
        self.socket, self.peer, self.idle_s = client, peer, idle_s
        self.trusted = False  # has shown a certificate that opens this port
        self.idle, self.since_s = False, time.monotonic()
        self.ended = False

    def begin(self) -> None:
        """A request has begun, if none had."""
        if self.idle:
            self.idle, self.since_s = False, time.monotonic()

    def rest(self) -> None:
        """The answer is sent."""
        self.idle, self.since_s = True, time.monotonic()


def victim(connections: Iterable[Connection]) -> Connection | None:
    """The connection to end so that another can be served.

    Strangers before clients that showed their certificate, then the peer that holds most; of its connections
    an idle one, else the oldest. A trusted client is never interrupted while it asks.
    """
    connections = list(connections)
    held = Counter(connection.peer for connection in connections)
    may_end = (connection for connection in connections if connection.idle or not connection.trusted)
    return min(may_end, key=lambda c: (c.trusted, -held[c.peer], not c.idle, c.since_s), default=None)


class Connections:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.ended: Counter[str] = Counter()  # by reason: late, evicted, refused
        self._lock = threading.Lock()
        self._open: set[Connection] = set()
        self._ending: set[Connection] = set()  # shut down; their threads are about to notice
        self._closed = threading.Event()
        threading.Thread(target=self._look, name="deadlines", daemon=True).start()

    def __len__(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """End all."""
        self._closed.set()
        with self._lock:
            for connection in list(self._open):
                self._end(connection, "closed")

    def admit(self, client: socket.socket, peer: str) -> Connection | None:
        """None: there is no room, and nobody to make any; `client` is then the caller's to close."""
        with self._lock:
            if not self._make_room(peer):
                self.ended["refused"] += 1
                return None
            connection = Connection(client, peer, self.limits.idle_s)
            self._open.add(connection)
            return connection

    def _make_room(self, peer: str) -> bool:
        if len(self._ending) >= self.limits.total:
            return False
        candidates = [connection for connection in self._open if connection.peer == peer]
        if len(candidates) < self.limits.per_peer:
            if len(self._open) < self.limits.total:
                return True
            candidates = list(self._open)
        loser = victim(candidates)
        if loser is None:
            return False
        self._end(loser, "evicted")
        return True

    def replace_socket(self, connection: Connection, client: socket.socket) -> None:
        """The same connection, now with TLS. Raises OSError where it was ended meanwhile."""
        with self._lock:
            connection.socket = client
            if connection.ended:
                raise ConnectionAbortedError("ended before its handshake")

    def leave(self, connection: Connection) -> None:
        """Close it. Under the lock: its file descriptor's number may be another connection's right after."""
        with self._lock:
            self._open.discard(connection)
            self._ending.discard(connection)
            with contextlib.suppress(OSError):
                connection.socket.close()

    def _end(self, connection: Connection, reason: str) -> None:
        """Wake the thread that serves it: reads find the end, writes fail."""
        self._open.discard(connection)
        self._ending.add(connection)
        connection.ended = True
        self.ended[reason] += 1
        with contextlib.suppress(OSError):
            # Not SSLSocket's own method, which would take the TLS session away from the thread using it.
            socket.socket.shutdown(connection.socket, socket.SHUT_RDWR)

    def _look(self) -> None:
        limits = self.limits
        while not self._closed.wait(min(_LOOK_S, limits.request_s / 4, limits.idle_s / 4)):
            now_s = time.monotonic()
            with self._lock:
                for connection in list(self._open):
                    limit_s = connection.idle_s if connection.idle else limits.request_s
                    if now_s - connection.since_s > limit_s:
                        self._end(connection, "idle" if connection.idle else "late")
