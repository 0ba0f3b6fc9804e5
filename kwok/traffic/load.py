"""The load generator: closed loops of clients, and open loops that replay arrival times.

A closed-loop client sends its next request when the last was answered. In an open loop, requests are due at
given times whatever happened before. A latency counts from the time its request was due, so that a stalled
generator or server cannot hide the requests that should have been sent meanwhile (coordinated omission).
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import cast

from kwok.traffic.load_records import CONNECTION, CUT

__all__ = ["Generator", "Target"]

_RECORD = struct.Struct("<dfHH")  # kwok.traffic.load_records.RECORD
# A client whose request failed faster than this waits this long. Otherwise a gateway that refuses would get
# thousands of requests a second.
_PAUSE_S = 0.1


class Generator:
    """Sends to the gateway on `port` of the loopback; used from one event loop."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.targets: dict[str, Target] = {}
        self._records = bytearray()
        self._epoch_s = time.time() - time.monotonic()

    def target(self, name: str) -> Target:
        """The target whose requests carry `Host: name`."""
        if name not in self.targets:
            self.targets[name] = Target(self, name, len(self.targets))
        return self.targets[name]

    def close(self) -> None:
        """Stop sending. Requests on their way end as failed connections."""
        for target in self.targets.values():
            target.close()

    def take_records(self) -> bytes:
        taken, self._records = bytes(self._records), bytearray()
        return taken

    def record(self, target: Target, due_s: float, latency_s: float, status: int) -> None:
        self._records += _RECORD.pack(self._epoch_s + due_s, latency_s, target.number, status)


class Target:
    """One function behind the gateway, with its clients and due requests."""

    def __init__(self, generator: Generator, name: str, number: int) -> None:
        self.name, self.number = name, number
        self.request = _request(name, "/")
        self.port = generator.port
        self.clients = 0  # desired in the closed loop
        self.in_flight = 0
        self.latency_sum_s = 0.0  # of those answered
        self.statuses: Counter[int] = Counter()
        self._generator = generator
        self._busy_clients = 0
        self._connections: set[_Connection] = set()
        self._idle: deque[_Connection] = deque()
        self._due: deque[tuple[float, bytes]] = deque()
        self._connecting: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    def set_clients(self, count: int) -> None:
        """Set the number of clients; surplus clients stop after their current request."""
        self.clients = count
        while self._busy_clients < count:
            self._busy_clients += 1
            self._send(time.monotonic(), self.request, closed=True)

    def replay(self, offsets_s: Sequence[float], paths: Sequence[str] | None = None) -> None:
        """Schedule an open loop's requests, in seconds from now; without paths, all are for `/`."""
        now_s = time.monotonic()
        idle = not self._due
        requests = [_request(self.name, path) for path in paths or ()] or [self.request] * len(offsets_s)
        added = [(now_s + offset_s, request) for offset_s, request in zip(offsets_s, requests, strict=True)]
        self._due = deque(sorted([*self._due, *added]))
        if idle:
            self._send_due()

    def close(self) -> None:
        self.clients = 0
        self._due.clear()
        for connection in list(self._connections):
            connection.close()

    @property
    def still_due(self) -> int:
        return len(self._due)

    def _send_due(self) -> None:
        now_s = time.monotonic()
        while self._due and self._due[0][0] <= now_s:
            self._send(*self._due.popleft(), closed=False)
        if self._due:
            self._loop.call_later(self._due[0][0] - now_s, self._send_due)

    def _send(self, due_s: float, request: bytes, closed: bool) -> None:
        self.in_flight += 1
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                connection.send(due_s, request, closed)
                return
        connection = _Connection(self)
        self._connections.add(connection)
        connection.send(due_s, request, closed)
        connecting = self._loop.create_task(self._connect(connection))
        self._connecting.add(connecting)  # keeps a reference: the event loop has only a weak one
        connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: _Connection) -> None:
        try:
            await self._loop.create_connection(lambda: connection, "127.0.0.1", self.port)
        except OSError:
            connection.connection_lost(None)

    def lost(self, connection: _Connection) -> None:
        self._connections.discard(connection)

    def ended(self, connection: _Connection, due_s: float, closed: bool, status: int) -> None:
        """Record the end of a request, successful or not."""
        now_s = time.monotonic()
        latency_s = now_s - due_s
        self.in_flight -= 1
        self.statuses[status] += 1
        if status == 200:
            self.latency_sum_s += latency_s
        self._generator.record(self, due_s, latency_s, status)
        if connection.usable:
            self._idle.append(connection)
        if not closed:
            return
        if status != 200 and latency_s < _PAUSE_S:
            self._loop.call_later(_PAUSE_S, self._next)
        else:
            self._next()

    def _next(self) -> None:
        """Send a client's next request, if the client is still needed."""
        if self._busy_clients > self.clients:
            self._busy_clients -= 1
        else:
            self._send(time.monotonic(), self.request, closed=True)


class _Connection(asyncio.Protocol):
    """A keep-alive connection with at most one request at a time."""

    def __init__(self, target: Target) -> None:
        self.usable = True
        self._target = target
        self._transport: asyncio.Transport | None = None
        self._pending: tuple[float, bool] | None = None
        self._request = b""
        self._received = b""

    def send(self, due_s: float, request: bytes, closed: bool) -> None:
        self._pending, self._request = (due_s, closed), request
        if self._transport is not None:
            self._transport.write(request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are not subclasses
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._received[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._received) < end + 4 + length:
            return
        self._received = b""
        if b"connection: close" in head:
            self.close()
        self._end(int(head[9:12]))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport, self.usable = None, False
        self._target.lost(self)
        self._end(CUT if self._received else CONNECTION)

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    def _end(self, status: int) -> None:
        if self._pending is not None:
            (due_s, closed), self._pending = self._pending, None
            self._target.ended(self, due_s, closed, status)


def _request(target: str, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()
