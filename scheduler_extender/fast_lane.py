"""A port that answers /prioritize on a fast lane; gunicorn and Flask answer all other requests.

kube-scheduler keeps one connection open and waits on it while it schedules a pod. That connection gets a
thread that blocks in the kernel between requests and answers without event loop, request object or
framework. This takes half the CPU time per request of uvicorn on uvloop, and CPU time is what a busy
control plane lacks. Any request that is not exactly a plain POST /prioritize goes to gunicorn's parser,
byte for byte.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from typing import Any

from surgekit.process.connections import Connection
from surgekit.process.http_port import REQUESTS, HttpPort, WsgiApplication

__all__ = ["FastLanePort", "plain_length"]

REQUEST_LINE = b"POST /prioritize HTTP/1.1\r\n"
_LONGEST_HEAD = 65536
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,10})[ \t]*(?=\r\n)", re.IGNORECASE)
_UNUSUAL = re.compile(rb"\r\n(?:transfer-encoding|expect|connection|upgrade)[ \t]*:", re.IGNORECASE)


class FastLanePort(HttpPort):
    """`prioritize` maps a request body to a status and a body. Peers that `admits` rejects do not get
    there. `prepare` runs when an answer is on its way."""

    def __init__(
        self,
        application: WsgiApplication,
        tls: ssl.SSLContext | None,
        admits: Callable[[str | None], bool],
        prioritize: Callable[[bytes], tuple[int, bytes]],
        prepare: Callable[[], None],
        max_body_bytes: int,
    ) -> None:
        super().__init__(application, REQUESTS, tls, admits)
        self._admits, self._prioritize, self._prepare = admits, prioritize, prepare
        self._max_body_bytes = max_body_bytes

    def converse(self, connection: Connection, address: Any, name: str | None, begun: bytes = b"") -> None:
        if self._admits(name) and not (begun := self._fast_lane(connection)):
            return
        super().converse(connection, address, name, begun)

    def _fast_lane(self, connection: Connection) -> bytes:
        """Answer /prioritize requests until another request begins; return what was read of that one."""
        client = connection.socket
        received = b""
        while True:
            while (end := received.find(b"\r\n\r\n")) < 0 and len(received) < _LONGEST_HEAD:
                if not (chunk := client.recv(65536)):
                    return b""
                connection.begin()
                received += chunk
            length = plain_length(received[: end + 2])
            if length is None or length > self._max_body_bytes:
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
            status, answer = self._prioritize(received[start:stop])
            client.sendall(
                b"HTTP/1.1 %d \r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (status, len(answer), answer)
            )
            connection.rest()
            self._prepare()
            if received := received[stop:]:
                connection.begin()


def plain_length(head: bytes) -> int | None:
    """The body's length if the head is a plain POST /prioritize with one Content-Length, else None."""
    if not head.startswith(REQUEST_LINE) or _UNUSUAL.search(head):
        return None
    lengths = _LENGTH.findall(head)
    return int(lengths[0]) if len(lengths) == 1 else None
