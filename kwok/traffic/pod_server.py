"""One server for all pods: HTTP on the addresses of a lab's pods, answered when the function model says so.

The local address of a connection identifies the dialled pod. A request is an arrival in the function model;
when the peer closes the connection (a gateway's timeout), the request is cancelled. A terminating pod
finishes its requests, as a well-behaved server does after SIGTERM, and serves those that still reach it
until the gateway knows. For a killed or absent pod the answer is 502, which a gateway makes of a broken
connection. HAProxy 2.6.12 does not: if a kept-alive connection is closed under a request, it closes its
client's connection without an answer and logs nothing. So a killed pod's idle connections stay for a while.

A path /sleep/SECONDS says how long its request takes, as in `kwok.burst.function`.

A real pod listens before it is Ready. Here a gateway may know a new pod first, so requests wait for it.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import cast

from kwok.errors import TrafficError
from kwok.traffic.function import Function
from kwok.traffic.function_model import FunctionModel

__all__ = ["Pod", "PodServer"]

_END = b"\r\n\r\n"
_BROKEN = b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_SLEEP = re.compile(rb"[A-Z]+ /sleep/(\d{1,4}(?:\.\d{1,9})?) ")
_MOST_HEAD = 65_536
# From the deletion of a pod until its endpoint is gone everywhere (nominal); then it ends when idle.
_LINGER_S = 2.0
_LOOK_S = 0.1
_HELD_S = 5.0  # for a pod that the watch has not delivered yet; a busy machine delays it
_IDLE_S = 5.0  # a killed pod's idle connections: until the gateway knows, as above


@dataclass(eq=False)
class Pod:
    """A pod that serves."""

    uid: str
    namespace: str
    name: str
    node: str
    address: str
    function: Function
    connections: set[_Connection] = field(default_factory=set)
    told_to_end: bool = False
    answered: int = 0
    most_at_once: int = 0  # requests it ran or queued
    started_s: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.answer = (
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
            f"Content-Length: {len(self.name)}\r\n\r\n{self.name}"
        ).encode()

    def close_connections(self) -> None:
        for connection in list(self.connections):
            connection.close()


class PodServer:
    """Used from one event loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, time_factor: float = 1.0, seed: int = 1) -> None:
        self.model = FunctionModel()
        self.pods: dict[str, Pod] = {}
        self.outcomes: Counter[tuple[str, str, str]] = Counter()  # (namespace, function, outcome)
        self._loop, self._time_factor, self._draw = loop, time_factor, random.Random(seed)
        self._by_address: dict[str, Pod] = {}
        self._waiting: dict[int, _Connection] = {}
        self._held: dict[str, set[_Connection]] = {}  # by the address that was dialled
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = float("inf")

    def protocol(self) -> asyncio.Protocol:
        return _Connection(self)

    def add(self, pod: Pod) -> None:
        """A pod became Ready. If a terminating pod has the same address, the new one gets it."""
        if pod.uid not in self.pods:
            self.model.add_pod(pod.uid, pod.function, pod.node, time.monotonic())
            self.pods[pod.uid] = self._by_address[pod.address] = pod
            for connection in self._held.pop(pod.address, ()):
                connection.found(pod)

    def resize(self, uid: str, function: Function) -> None:
        """A pod's concurrency and CPU changed."""
        if (pod := self.pods.get(uid)) and pod.function != function:
            pod.function = function
            self.model.resize_pod(uid, function.concurrency, function.cpu_cores, time.monotonic())
            self._advance()

    def end(self, uid: str, grace_s: float) -> None:
        """A pod terminates within `grace_s` (nominal)."""
        pod = self.pods.get(uid)
        if pod is None or pod.told_to_end:
            return
        pod.told_to_end = True
        now_s = time.monotonic()
        linger_s = min(_LINGER_S, grace_s) / self._time_factor
        self._drain(pod, now_s + linger_s, now_s + grace_s / self._time_factor)

    def _drain(self, pod: Pod, leave_s: float, kill_s: float) -> None:
        now_s = time.monotonic()
        if pod.uid not in self.pods:
            return
        if now_s >= kill_s or (now_s >= leave_s and self.model.in_flight(pod.uid) == 0):
            self.kill(pod.uid)
        else:
            self._loop.call_later(_LOOK_S / self._time_factor, self._drain, pod, leave_s, kill_s)

    def kill(self, uid: str) -> None:
        """A pod is gone; its requests are lost."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        if self._by_address.get(pod.address) is pod:
            del self._by_address[pod.address]
        for request in self.model.remove_pod(uid, time.monotonic()):
            self._count(pod, "lost")
            self._waiting.pop(request).break_off()
        self._advance()  # CPU used until now
        if pod.told_to_end:  # the gateway has known for a while
            pod.close_connections()
        else:
            self._loop.call_later(_IDLE_S, pod.close_connections)

    def pod_at(self, address: str) -> Pod | None:
        return self._by_address.get(address)

    def hold(self, connection: _Connection, address: str) -> None:
        """Let a connection wait for its pod."""
        if pod := self.pod_at(address):  # there since the connection was opened
            connection.found(pod)
            return
        held = self._held.setdefault(address, set())
        if connection not in held:
            held.add(connection)
            self._loop.call_later(_HELD_S, self._let_go, connection, address)

    def _let_go(self, connection: _Connection, address: str) -> None:
        held = self._held.get(address, set())
        if connection in held:
            held.discard(connection)
            if not held:
                del self._held[address]
            connection.break_off()

    def arrive(self, connection: _Connection, pod: Pod, sleep_s: float | None = None) -> int:
        """Start a request and return its number. `answer` is called on the connection when it is done."""
        self._number += 1
        cpu_s, io_s = pod.function.draw_demand(self._draw) if sleep_s is None else (0.0, sleep_s)
        self._waiting[self._number] = connection
        self.model.arrive(pod.uid, self._number, cpu_s, io_s, time.monotonic())
        pod.most_at_once = max(pod.most_at_once, self.model.in_flight(pod.uid))
        self._advance()
        return self._number

    def give_up(self, request: int) -> None:
        connection = self._waiting.pop(request, None)
        if connection is not None:
            self.model.cancel(request, time.monotonic())
            self._count(connection.pod, "given_up")
            self._advance()

    def _count(self, pod: Pod | None, outcome: str) -> None:
        if pod is not None:
            self.outcomes[pod.namespace, pod.function.name, outcome] += 1

    def _tick(self) -> None:
        self._timer, self._timer_s = None, float("inf")
        self._advance()

    def _advance(self) -> None:
        """Answer requests that the model has completed, and set the timer for the next."""
        now_s = time.monotonic()
        for done in self.model.advance(now_s):
            connection = self._waiting.pop(done.request_id, None)
            if connection is not None:
                self._count(connection.pod, "answered")
                if connection.pod is not None:
                    connection.pod.answered += 1
                connection.answer()
        next_s = self.model.next_event_s()
        # An early timer costs one call; only a late one must be replaced.
        if next_s is not None and next_s < self._timer_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_s = next_s
            self._timer = self._loop.call_later(max(next_s - now_s, 0.0) + 0.0005, self._tick)


class _Connection(asyncio.Protocol):
    """One keep-alive connection, one request at a time, bound to the pod it was opened to."""

    def __init__(self, server: PodServer) -> None:
        self.pod: Pod | None = None
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._address, self._received = "", b""
        self._request: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are not subclasses
        self._address = self._transport.get_extra_info("sockname")[0]
        if pod := self._server.pod_at(self._address):
            self.found(pod)

    def found(self, pod: Pod) -> None:
        """Set the pod of this connection."""
        if self._transport is not None:
            self.pod = pod
            pod.connections.add(self)
            self._next()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._request is None:
            self._next()

    def _next(self) -> None:
        """Take one complete request from the received bytes."""
        end = self._received.find(_END)
        if end < 0:
            if len(self._received) > _MOST_HEAD:
                self.close()
            return
        try:
            whole = end + len(_END) + _content_length(self._received[:end])
        except TrafficError:
            self.close()
            return
        if len(self._received) < whole:
            return
        if self.pod is None:
            self._server.hold(self, self._address)
            return
        if self.pod.uid not in self._server.pods:
            self.pod.connections.discard(self)
            if not (successor := self._server.pod_at(self._address)):
                self.break_off()
                return
            self.pod = successor
            successor.connections.add(self)
        asked = _SLEEP.match(self._received)
        self._received = self._received[whole:]
        self._request = 0  # until its number is known: a request may be answered before `arrive` returns
        number = self._server.arrive(self, self.pod, float(asked[1]) if asked else None)
        if self._request == 0:
            self._request = number

    def answer(self) -> None:
        self._request = None
        if self._transport is not None and self.pod is not None:
            self._transport.write(self.pod.answer)
            if self._received:
                self._next()

    def break_off(self) -> None:
        """There is no pod to answer."""
        self._request = None
        if self._transport is not None:
            self._transport.write(_BROKEN)
        self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self._request is not None:
            self._server.give_up(self._request)
            self._request = None
        if self.pod is not None:
            self.pod.connections.discard(self)
        self._transport = None


def _content_length(head: bytes) -> int:
    """Bodies always have a length here: HAProxy forwards what its client sent."""
    lower = head.lower()
    if b"\r\ntransfer-encoding:" in lower:
        raise TrafficError("a request in chunks cannot be read here")
    if (at := lower.find(b"\r\ncontent-length:")) < 0:
        return 0
    value = lower[at + 17 :].split(b"\r\n", 1)[0].strip()
    if not value.isdigit():
        raise TrafficError(f"content-length: {value!r} is not a number")
    return int(value)
