"""The autoscaler's end of a websocket (RFC 6455), as far as tests of the link need it."""

from __future__ import annotations

import base64
import hashlib
import queue
import socket
import struct
import threading
from contextlib import suppress
from typing import IO

__all__ = ["Peer"]

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Peer:
    """Takes connections one after the other; what they say is in `messages`."""

    def __init__(self, port: int = 0) -> None:
        self.messages: queue.Queue[bytes] = queue.Queue()
        self.heads: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", port))
        self.port: int = self._server.getsockname()[1]
        self._connection: socket.socket | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def restart(self) -> None:
        """Say what the autoscaler says at its end (1012), and close."""
        if self._connection is not None:
            self._connection.sendall(b"\x88\x02" + struct.pack(">H", 1012))
            self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._closing = True
        for of in (self._server, self._connection):
            if of is not None:
                with suppress(OSError):  # it ended by itself
                    of.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()

    def _run(self) -> None:
        while not self._closing:
            with suppress(OSError, struct.error):
                self._connection, _ = self._server.accept()
                with self._connection, self._connection.makefile("rb") as stream:
                    self._serve(self._connection, stream)

    def _serve(self, connection: socket.socket, stream: IO[bytes]) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += stream.readline()
        self.heads.append(head)
        key = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:"))
        accept = base64.b64encode(hashlib.sha1(key.split(b":")[1].strip() + _GUID).digest())  # noqa: S324  # RFC 6455
        connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        while True:
            kind, length = struct.unpack(">BB", stream.read(2))
            size = length & 0x7F
            if size == 126:
                (size,) = struct.unpack(">H", stream.read(2))
            mask, body = stream.read(4), stream.read(size)
            if kind == 0x82:
                self.messages.put(bytes(b ^ mask[i % 4] for i, b in enumerate(body)))
