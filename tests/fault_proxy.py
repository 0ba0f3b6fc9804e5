"""A proxy between the client and an API server that delays, cuts, falsifies and silences what passes.

It speaks plain HTTP to the client, so that it sees each request. Every request gets a connection of its own
to the server. A fault is a function that carries one exchange out; `inject` says for which requests.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson
from kubernetes import client

from surgekit.kube.client import Kube

__all__ = [
    "Dial", "Exchange", "Fault", "FaultProxy", "answer", "answer_raw", "close", "cut_at", "delay", "drip",
    "fault_proxy", "plain_dial", "silence", "silence_at", "stream", "tls_dial", "wait_until",
]  # fmt: skip

Dial = Callable[[], socket.socket]


@dataclass(frozen=True)
class Exchange:
    """One request of the client."""

    target: str  # path and query
    client: socket.socket
    request: bytes
    dial: Dial
    ended: threading.Event  # the test is over

    def answer(self) -> Iterator[bytes]:
        """The server's answer as it arrives."""
        with self.dial() as upstream:
            upstream.sendall(self.request)
            while data := upstream.recv(1 << 16):
                yield data


Fault = Callable[[Exchange], None]


def relay(exchange: Exchange) -> None:
    for data in exchange.answer():
        exchange.client.sendall(data)


def answer(code: int, reason: str = "", message: str = "") -> Fault:
    """Answer with an error Status instead of asking the server."""
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return answer_raw(code, orjson.dumps(status))


def answer_raw(code: int, body: bytes, length: int | None = None) -> Fault:
    """Answer with these bytes; `length` is what the header says, where that is not the truth."""
    head = f"HTTP/1.1 {code} X\r\nContent-Length: {len(body) if length is None else length}\r\n"
    return lambda exchange: exchange.client.sendall(f"{head}Connection: close\r\n\r\n".encode() + body)


def stream(*pieces: bytes) -> Fault:
    """Answer with a watch that says just this and ends in good order."""

    def fault(exchange: Exchange) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        exchange.client.sendall(head + chunks + b"0\r\n\r\n")

    return fault


def close(exchange: Exchange) -> None:
    """Close the connection without an answer."""


def silence(exchange: Exchange) -> None:
    """Take the request and say nothing, with the connection open."""
    exchange.ended.wait()


def delay(seconds: float) -> Fault:
    def fault(exchange: Exchange) -> None:
        exchange.ended.wait(seconds)
        relay(exchange)

    return fault


def drip(gap_s: float) -> Fault:
    """Pass the answer on byte by byte."""

    def fault(exchange: Exchange) -> None:
        for data in exchange.answer():
            for byte in data:
                exchange.client.sendall(bytes([byte]))
                if exchange.ended.wait(gap_s):
                    return

    return fault


def cut_at(marker: bytes) -> Fault:
    """Pass the answer on up to the middle of `marker`, then close: a line half sent."""
    return lambda exchange: _pass_up_to(marker, exchange)


def silence_at(marker: bytes) -> Fault:
    """Pass the answer on up to the middle of `marker`, then say nothing more, with the connection open."""

    def fault(exchange: Exchange) -> None:
        _pass_up_to(marker, exchange)
        exchange.ended.wait()

    return fault


def _pass_up_to(marker: bytes, exchange: Exchange) -> None:
    for data in exchange.answer():
        found = data.find(marker)
        exchange.client.sendall(data if found < 0 else data[: found + len(marker) // 2])
        if found >= 0:
            return


@dataclass
class _Order:
    fault: Fault
    only: str
    left: float


class FaultProxy:
    def __init__(self, dial: Dial) -> None:
        self.down = False  # connections are closed as soon as they are made
        self.targets: list[str] = []  # of all requests so far
        self._dial, self._orders = dial, list[_Order]()
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._clients: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def kube(self) -> Kube:
        """A client whose every request passes here."""
        configuration = client.Configuration()
        configuration.host = self.url
        return Kube(configuration)

    def inject(self, fault: Fault, only: str = "", times: float = 1) -> None:
        """Let `fault` carry out the next requests with `only` in their target."""
        with self._lock:
            self._orders.append(_Order(fault, only, times))

    def heal(self) -> None:
        """No more faults for new requests."""
        with self._lock:
            self._orders.clear()
            self.down = False

    def cut(self, then: Fault | None = None, only: str = "", times: float = 1) -> None:
        """Break all connections that are open. `then` carries out the next requests, as with `inject`: never
        one that was on its way on a broken connection, whose answer would be lost."""
        with self._lock:
            for connection in self._clients:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._clients.clear()
            if then is not None:
                self._orders.append(_Order(then, only, times))

    def count(self, only: str) -> int:
        return sum(only in target for target in self.targets)

    def stop(self) -> None:
        self._ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self._clients.add(connection)
        try:
            with connection, suppress(OSError):
                if not self.down and (request := _read_request(connection)):
                    target = request.split(b" ", 2)[1].decode()
                    fault = self._fault(target, connection)
                    fault(Exchange(target, connection, request, self._dial, self._ended))
        finally:
            with self._lock:
                self._clients.discard(connection)

    def _fault(self, target: str, connection: socket.socket) -> Fault:
        with self._lock:
            if connection not in self._clients:
                raise ConnectionAbortedError("cut")
            self.targets.append(target)
            for order in self._orders:
                if order.left > 0 and order.only in target:
                    order.left -= 1
                    return order.fault
        return relay


def _read_request(connection: socket.socket) -> bytes:
    """The whole request, changed so that the server closes after its answer, and the client with it."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(1 << 16)):
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    headers = {line.partition(b":")[0].lower(): line.partition(b":")[2].strip() for line in lines[1:]}
    while len(body) < int(headers.get(b"content-length", b"0")):
        body += connection.recv(1 << 16)
    return b"\r\n".join([*lines, b"Connection: close", b"", body])


def plain_dial(address: tuple[str, int]) -> Dial:
    return lambda: socket.create_connection(address)


def tls_dial(kube: Kube) -> Dial:
    """Connect as `kube` does, with its client certificate."""
    configuration: Any = kube._configuration
    url = urlsplit(kube.host)
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    context.load_cert_chain(configuration.cert_file, configuration.key_file)

    def dial() -> socket.socket:
        plain = socket.create_connection((url.hostname or "", url.port or 443))
        return context.wrap_socket(plain, server_hostname=url.hostname)

    return dial


@contextmanager
def fault_proxy(dial: Dial) -> Iterator[FaultProxy]:
    proxy = FaultProxy(dial)
    try:
        yield proxy
    finally:
        proxy.stop()


def wait_until(holds: Callable[[], object], what: str, timeout_s: float = 20.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.01)
