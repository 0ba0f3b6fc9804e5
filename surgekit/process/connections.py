"""Limit the connections of one port: how many in all, how many a peer, and for how long.

One thread serves each connection and blocks in the kernel between requests. Another thread ends connections
that are late. A request has `request_s` from its first byte to the end of its answer, however slowly its
bytes arrive; the first request of a connection counts from the connection on, TLS handshake included. When
there is no room for a new connection, the peer with the most connections loses one: slow clients lose
theirs, fast ones are done by then.
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

_LOOK_S = 0.5  # a connection ends at most this long after its deadline


@dataclass(frozen=True)
class Limits:
    total: int  # connections
    per_peer: int  # connections of one address
    request_s: float  # for a whole request, handshake and answer included
    idle_s: float  # between requests


class Connection:
    """A client connection. Written by the thread that serves it, read by others."""

    __slots__ = ("ended", "idle", "idle_s", "peer", "since_s", "socket", "trusted")

    def __init__(self, client: socket.socket, peer: str, idle_s: float) -> None:
        self.socket, self.peer, self.idle_s = client, peer, idle_s
        self.trusted = False  # showed a certificate that this port accepts
        self.idle, self.since_s = False, time.monotonic()
        self.ended = False

    def begin(self) -> None:
        """Start the deadline of a request, unless one is running."""
        if self.idle:
            self.idle, self.since_s = False, time.monotonic()

    def rest(self) -> None:
        """The answer is sent: no deadline until the next request."""
        self.idle, self.since_s = True, time.monotonic()


def victim(connections: Iterable[Connection]) -> Connection | None:
    """The connection to end so that another can be served, or None.

    Peers without a certificate come first, then the peer with the most connections; of these an idle one,
    else the oldest. A trusted client is never interrupted during a request.
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
        self._ending: set[Connection] = set()  # shut down; their threads are about to end
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
        """Register a connection. None means there is no room and nothing to evict; the caller then closes
        `client`."""
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
        """Continue the connection with TLS. Raises OSError if it was ended in the meantime."""
        with self._lock:
            connection.socket = client
            if connection.ended:
                raise ConnectionAbortedError("ended before its handshake")

    def leave(self, connection: Connection) -> None:
        """Close the connection. Under the lock: its file descriptor number may be reused right after."""
        with self._lock:
            self._open.discard(connection)
            self._ending.discard(connection)
            with contextlib.suppress(OSError):
                connection.socket.close()

    def _end(self, connection: Connection, reason: str) -> None:
        """Wake the thread that serves the connection: its reads find the end, its writes fail."""
        self._open.discard(connection)
        self._ending.add(connection)
        connection.ended = True
        self.ended[reason] += 1
        with contextlib.suppress(OSError):
            # Not SSLSocket.shutdown, which would close the TLS session under the thread that uses it.
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
