"""A gunicorn worker with a lane of its own for /prioritize; every other request is gunicorn's and Flask's.

kube-scheduler keeps one connection open and waits on it while it schedules a pod. That connection gets a
thread that blocks in the kernel between requests and needs nothing else to answer one: no event loop, no
request object, no framework. Measured against uvicorn on uvloop that is half the cpu time a request,
and cpu time is what a busy control plane lacks. What is not exactly such a request goes to gunicorn's
own parser, byte for byte.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
import threading
from typing import Any

from gunicorn import http, util
from gunicorn.workers.sync import SyncWorker

from scheduler_extender.settings import Settings
from surgekit.answering_server import common_name
from surgekit.certificates import ReloadingServerContext

__all__ = ["FastLaneWorker"]

REQUEST_LINE = b"POST /prioritize HTTP/1.1\r\n"
OPEN_PATHS = ("/livez", "/readyz")  # the kubelet asks these and has no certificate to show
NOT_ADMITTED = b'{"error": "this path needs a client certificate signed by the CA in ca.crt"}'
CONNECTIONS_AT_MOST = 200
HANDSHAKE_S = 5.0
STRANGER_S = 10.0  # who may not ask /prioritize is a probe or a scrape, and comes back with a new connection
SEND_S = 10
# Closing the scheduler's idle connection costs it a handshake; one whose other end is gone must end.
KEEPALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 20, socket.TCP_KEEPCNT: 3}
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,10})[ \t]*(?=\r\n)", re.IGNORECASE)
_UNUSUAL = re.compile(rb"\r\n(?:transfer-encoding|expect|connection|upgrade)[ \t]*:", re.IGNORECASE)


class FastLaneWorker(SyncWorker):  # type: ignore[misc]  # gunicorn has no types
    """`self.wsgi` is a scheduler_extender.server.Application."""

    def load_wsgi(self) -> None:
        super().load_wsgi()
        self.init_lane()

    def init_lane(self) -> None:
        self._connections = threading.BoundedSemaphore(CONNECTIONS_AT_MOST)
        self._context: ssl.SSLContext | None = None
        if (directory := self.wsgi.settings.tls_directory) is not None:
            files = (directory / name for name in ("tls.crt", "tls.key", "ca.crt"))
            self._context = ReloadingServerContext(*files).context

    def accept(self, listener: Any) -> None:
        client, address = listener.accept()
        if not self._connections.acquire(blocking=False):
            client.close()
            return
        threading.Thread(target=self._serve, args=(listener, client, address), daemon=True).start()

    def _serve(self, listener: Any, client: socket.socket, address: Any) -> None:
        try:
            client.settimeout(HANDSHAKE_S)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                client = self._context.wrap_socket(client, server_side=True)
            peer = common_name(client)
            if admitted(self.wsgi.settings, "/prioritize", peer):
                _wait_in_the_kernel(client)
            else:
                client.settimeout(STRANGER_S)
            begun = self._fast_lane(client, peer)
            if begun:
                self._gunicorns_way(begun, listener, client, address, peer)
        except OSError as error:  # ssl.SSLError is one: a client gone, too slow, or not speaking TLS
            self.log.debug("connection ended: %s", error)
        except Exception:
            self.log.exception("connection failed")
        finally:
            util.close(client)
            self._connections.release()

    def _fast_lane(self, client: socket.socket, peer: str | None) -> bytes:
        """Answer /prioritize after /prioritize; the beginning of the first request that is another."""
        application = self.wsgi
        limit = application.settings.max_body_bytes
        if not admitted(application.settings, "/prioritize", peer):
            return client.recv(65536)
        received = b""
        while True:
            while (end := received.find(b"\r\n\r\n")) < 0 and len(received) < 65536:
                if not (chunk := client.recv(65536)):
                    return b""
                received += chunk
            length = plain_length(received[: end + 2])
            if length is None or length > limit:
                return received
            start, stop = end + 4, end + 4 + length
            if len(received) < stop:
                parts, size = [received], len(received)
                while size < stop:
                    if not (chunk := client.recv(65536)):
                        return b""
                    parts.append(chunk)
                    size += len(chunk)
                received = b"".join(parts)
            status, answer = application.prioritize(received[start:stop])
            client.sendall(
                b"HTTP/1.1 %d \r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (status, len(answer), answer)
            )
            received = received[stop:]

    def _gunicorns_way(
        self, begun: bytes, listener: Any, client: socket.socket, address: Any, peer: str | None
    ) -> None:
        """One request, then the connection closes."""
        request = None
        try:
            parser = http.get_parser(self.cfg, client, address)
            parser.unreader.unread(begun)
            request = next(parser)
            if admitted(self.wsgi.settings, request.path, peer):
                self.handle_request(listener, request, client, address)
            else:
                client.sendall(
                    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\n"
                    b"Content-Length: %d\r\n\r\n%b" % (len(NOT_ADMITTED), NOT_ADMITTED)
                )
        except (StopIteration, http.errors.NoMoreData):
            pass
        except OSError:
            raise
        except Exception as error:
            self.handle_error(request, client, address, error)
        finally:
            util.close_graceful(client)


def _wait_in_the_kernel(client: socket.socket) -> None:
    """settimeout would poll before every read; a receive timeout of the kernel's is retried under TLS."""
    client.settimeout(None)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_S, 0))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        client.setsockopt(socket.IPPROTO_TCP, option, value)


def plain_length(head: bytes) -> int | None:
    """The body's length, if this is /prioritize with one Content-Length and nothing that needs care."""
    if not head.startswith(REQUEST_LINE) or _UNUSUAL.search(head):
        return None
    lengths = _LENGTH.findall(head)
    return int(lengths[0]) if len(lengths) == 1 else None


def admitted(settings: Settings, path: str, peer: str | None) -> bool:
    if settings.tls_directory is None or path in OPEN_PATHS:
        return True
    return peer is not None and (not settings.client_names or peer in settings.client_names)
