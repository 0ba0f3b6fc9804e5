"""The placement's two Unix sockets: HAProxy's questions, and its lines about requests that have ended.

A question is one small HTTP/1.1 request. Whatever else comes closes its connection: HAProxy alone can reach
the directory, but what it passes on was written by clients.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from burst_plane.placement.messages import LARGEST_BYTES

__all__ = ["LineServer", "PlaceServer"]

log = structlog.get_logger(__name__)

Answer = tuple[int, bytes]
_IDLE_S = 60.0
_MOST_CONNECTIONS = 2048
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,5})[ \t]*\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close[ \t]*\r\n", re.IGNORECASE)
_REASONS = {200: b"OK", 400: b"Bad Request", 404: b"Not Found", 503: b"Service Unavailable"}


class PlaceServer:
    """`answer` gets the body, and a function that tells whether HAProxy still waits."""

    def __init__(self, path: Path, answer: Callable[[bytes, Callable[[], bool]], Awaitable[Answer]]) -> None:
        self._path, self._answer = path, answer
        self._connections = 0

    async def start(self) -> None:
        self._path.unlink(missing_ok=True)  # of our former life
        self._server = await asyncio.start_unix_server(
            self._serve, self._path, limit=LARGEST_BYTES, backlog=1024
        )
        os.chmod(self._path, 0o660)

    async def stop(self) -> None:
        self._server.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            while self._connections <= _MOST_CONNECTIONS and await self._exchange(reader, writer):
                pass
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # the peer is gone, or sends what is no question
        finally:
            self._connections -= 1
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One question. Whether the connection stays open."""
        async with asyncio.timeout(_IDLE_S):
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            size = int(length[1]) if length else 0
            if size > LARGEST_BYTES:
                return False
            body = await reader.readexactly(size)
        if head.startswith(b"POST /place "):
            status, content = await self._answer(body, lambda: not reader.at_eof())
        else:
            status, content = 404, b"{}"
        last = bool(_CLOSE.search(head))
        writer.write(
            b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s"
            % (status, _REASONS[status], len(content), b"Connection: close\r\n" if last else b"", content)
        )
        await writer.drain()
        return not last


class LineServer:
    """HAProxy's ring of lines. A datagram socket would hold ten (net.unix.max_dgram_qlen), and HAProxy drops
    what comes beyond; a burst has more."""

    def __init__(self, path: Path, take: Callable[[bytes], None]) -> None:
        self._path, self._take = path, take

    async def start(self) -> None:
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=LARGEST_BYTES)
        os.chmod(self._path, 0o660)

    def stop(self) -> None:
        self._server.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                self._take(line)
        except (OSError, ValueError):
            pass  # the peer is gone, or its line is too long
        except asyncio.CancelledError:
            pass  # we end; HAProxy never does first, and asyncio's callback would print a cancelled task
        finally:
            writer.close()
