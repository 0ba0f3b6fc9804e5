"""Serve one port: HTTP/1.1, optional TLS, a thread for each connection, with limits.

gunicorn parses requests. Three things that gunicorn does not pass on are added to the environ: the common
name of the peer's certificate, the headers one by one (gunicorn joins headers of the same name by commas),
and the connection, whose deadline an answer that does not end must move itself.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson
import structlog
from gunicorn import http
from gunicorn.config import Config
from gunicorn.http import wsgi
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from surgekit.process.connections import Connection, Connections, Limits

__all__ = [
    "CONNECTION", "HEADERS", "HEALTH", "PEER", "REQUESTS", "ConnectionMetrics", "HttpPort", "WsgiApplication",
]  # fmt: skip

log = structlog.get_logger(__name__)
WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# Keys of the environ: the common name of the peer's verified certificate (or None); [(name, value)]; the
# Connection.
PEER, HEADERS, CONNECTION = "surgekit.peer", "surgekit.headers", "surgekit.connection"
# Limits of a port for requests, and of one for kubelet and Prometheus.
REQUESTS = Limits(total=200, per_peer=50, request_s=10.0, idle_s=10.0)
HEALTH = Limits(total=64, per_peer=16, request_s=5.0, idle_s=120.0)
# For trusted peers. Longer than Go's clients keep an idle connection (90 s): closing it while a client sends
# its next request would lose that request.
_KNOWN_IDLE_S = 300.0
_LINGER_BYTES = 1 << 16
_CONFIG = Config()
_STATUS = {http.errors.LimitRequestLine: 414, http.errors.LimitRequestHeaders: 431}


class HttpPort:
    """Serves `application`. With `tls`, peers that `knows` accepts are the last to lose their connections."""

    def __init__(
        self,
        application: WsgiApplication,
        limits: Limits,
        tls: ssl.SSLContext | None = None,
        knows: Callable[[str | None], bool] = lambda _name: False,
    ) -> None:
        self.connections = Connections(limits)
        self._application, self._tls, self._knows = application, tls, knows

    def run(self, listener: socket.socket) -> None:
        """Accept connections until `listener` is closed."""
        while True:
            try:
                client, address = listener.accept()
            except OSError:
                return
            self.take(client, address)

    def close(self) -> None:
        """End all connections. The caller closes the listening socket."""
        self.connections.close()

    def take(self, client: socket.socket, address: Any) -> None:
        """Serve a connection in a thread of its own and return at once."""
        connection = self.connections.admit(client, address[0])
        if connection is None:
            client.close()
            return
        try:
            threading.Thread(target=self._serve, args=(connection, address), daemon=True).start()
        except RuntimeError as error:  # out of threads
            log.warning("connection not served", error=str(error))
            self.connections.leave(connection)

    def _serve(self, connection: Connection, address: Any) -> None:
        try:
            connection.socket.settimeout(None)  # reads block in the kernel; `connections` enforces deadlines
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                self._shake_hands(connection, self._tls)
            name = common_name(connection.socket)
            if self._knows(name):
                connection.idle_s = _KNOWN_IDLE_S
                connection.trusted = self._tls is not None
            self.converse(connection, address, name)
        except OSError as error:  # includes ssl.SSLError: the client left, was too slow, or is not trusted
            log.debug("connection ended", peer=connection.peer, error=str(error))
        except Exception:
            log.exception("connection failed", peer=connection.peer)
        finally:
            self.connections.leave(connection)

    def _shake_hands(self, connection: Connection, tls: ssl.SSLContext) -> None:
        wrapped = tls.wrap_socket(connection.socket, server_side=True, do_handshake_on_connect=False)
        self.connections.replace_socket(connection, wrapped)
        wrapped.do_handshake()

    def converse(self, connection: Connection, address: Any, name: str | None, begun: bytes = b"") -> None:
        """Answer requests until the connection ends; `begun` is what was already read of the first."""
        parser = http.get_parser(_CONFIG, _Reader(connection), address)
        parser.unreader.unread(begun)
        try:
            for request in parser:
                connection.begin()
                if not self._answer(request, connection, address, name):
                    break
                connection.rest()
        except http.errors.NoMoreData:
            return
        except http.errors.ParseException as error:
            connection.socket.sendall(_refusal(error))
        _linger(connection.socket)

    def _answer(self, request: Any, connection: Connection, address: Any, name: str | None) -> bool:
        """Answer one request; False if the connection must be closed."""
        client = connection.socket
        response, environ = wsgi.create(request, client, address, client.getsockname(), _CONFIG)
        environ["wsgi.multithread"] = True
        environ[PEER], environ[HEADERS], environ[CONNECTION] = name, request.headers, connection
        items = self._application(environ, response.start_response)
        try:
            for item in items:
                response.write(item)
        finally:
            if (close := getattr(items, "close", None)) is not None:
                close()
        response.close()
        return not response.should_close()


class _Reader:
    """The input of gunicorn's parser. The first byte of a request starts its deadline."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def recv(self, size: int) -> bytes:
        received = self._connection.socket.recv(size)
        self._connection.begin()
        return received


def _refusal(error: http.errors.ParseException) -> bytes:
    body = orjson.dumps({"error": f"not a request that is understood here: {str(error)[:200]}"})
    status = _STATUS.get(type(error), 400)
    return (
        b"HTTP/1.1 %d \r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
        % (status, len(body), body)
    )


def _linger(client: socket.socket) -> None:
    """Read the remaining input before closing; otherwise the kernel would discard the answer (RFC 9112,
    section 9.6)."""
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_WR)
        left = _LINGER_BYTES
        while left > 0 and (received := client.recv(4096)):
            left -= len(received)


def common_name(client: socket.socket) -> str | None:
    """The common name of the client's verified certificate, or None without one."""
    certificate: Any = client.getpeercert() if isinstance(client, ssl.SSLSocket) else None
    subject = certificate.get("subject", ()) if certificate else ()
    return next((str(value) for pairs in subject for key, value in pairs if key == "commonName"), None)


class ConnectionMetrics(Collector):
    """Open and ended connections, by port."""

    def __init__(self, **ports: HttpPort) -> None:
        self._ports = ports

    def collect(self) -> Iterator[Metric]:
        opened = GaugeMetricFamily(
            "surgekit_server_connections", "Open connections of a port", labels=["port"]
        )
        ended = CounterMetricFamily(
            "surgekit_server_connections_ended",
            "Connections the server ended: late (a request), idle, evicted (for another) or refused",
            labels=["port", "reason"],
        )
        for name, port in self._ports.items():
            opened.add_metric([name], len(port.connections))
            for reason in ("late", "evicted", "refused", "idle"):
                ended.add_metric([name, reason], port.connections.ended[reason])
        yield from (opened, ended)
