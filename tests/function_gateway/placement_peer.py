"""A placement and its emergency instances at HAProxy's sockets, which do as a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kwok.ports import free_ports

__all__ = ["Answer", "Placement", "request"]

INSTANCE = "127.0.2.1"


@dataclass
class Answer:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


class Placement:
    """Answers questions with the address of one server, which stands for all emergency instances."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory, self.port = directory, port
        self.refuses, self.delay_s, self.service_s, self.breaks = "", 0.0, 0.05, False
        self.asked: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.seen: list[bytes] = []  # heads that reached instances
        self.at_once = self.answered = self.left = 0

    @property
    def ids(self) -> list[str]:
        return [asked["request"] for asked in self.asked]

    @property
    def ended(self) -> list[str]:
        return [line.split()[1] for line in self.lines]

    async def start(self) -> None:
        for name in ("placement.sock", "placement-log.sock"):
            (self._directory / name).unlink(missing_ok=True)
        self._servers = [
            await asyncio.start_unix_server(self._question, self._directory / "placement.sock", backlog=500),
            await asyncio.start_unix_server(self._lines, self._directory / "placement-log.sock"),
        ]

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in [task for task in asyncio.all_tasks() if task.get_name().startswith("placement-")]:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for name in ("placement.sock", "placement-log.sock"):
            (self._directory / name).unlink(missing_ok=True)

    async def _question(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _name_task()
        with suppress(OSError, EOFError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked.append(json.loads(await reader.readexactly(_length(head))))
            await asyncio.sleep(self.delay_s)
            status, said = 200, {"address": INSTANCE, "port": self.port, "instance": "i"}
            if self.refuses:
                status, said = 503, {"reason": self.refuses}
            body = json.dumps(said).encode()
            writer.write(b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
            await writer.drain()
        writer.close()

    async def _lines(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _name_task()
        with suppress(asyncio.CancelledError):
            while line := await reader.readline():
                self.lines.append(line.decode())
        writer.close()

    async def instance(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One invocation; a client that leaves closes the connection."""
        self.at_once += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.seen.append(head)
            if self.breaks:
                return
            if b"upgrade: websocket" in head.lower():
                # What RFC 6455 has as the answer to its example's key; HAProxy checks it.
                accept = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                upgraded = (
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                )
                writer.write(upgraded + accept + b"\r\n")
                while data := await reader.read(1 << 16):
                    writer.write(data)
                return
            size, length = 0, _length(head)
            while size < length:
                size += len(await reader.read(1 << 16))
            watch = asyncio.ensure_future(reader.read(1))
            done, _ = await asyncio.wait([watch], timeout=self.service_s)
            if done:
                self.left += 1
                return
            watch.cancel()
            body = b"emergency %d" % size
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
            self.answered += 1
        except (OSError, EOFError):
            self.left += 1
        finally:
            self.at_once -= 1
            writer.close()


def _name_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.set_name("placement-" + task.get_name())


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"content-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


@asynccontextmanager
async def placement(directory: Path) -> AsyncIterator[Placement]:
    (port,) = free_ports(1)
    made = Placement(directory, port)
    await made.start()
    instances = await asyncio.start_server(made.instance, INSTANCE, port, backlog=500)
    try:
        yield made
    finally:
        instances.close()
        await made.stop()


async def request(
    port: int,
    host: str,
    method: str = "GET",
    headers: str = "",
    body: bytes = b"",
    leave_after_s: float = 0.0,
) -> Answer:
    """One request on a connection of its own; status 0 without an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        writer.write(f"{method} / HTTP/1.1\r\nHost: {host}\r\n{length}{headers}\r\n".encode() + body)
        if leave_after_s:
            await asyncio.sleep(leave_after_s)
            return Answer(0, b"")
        head = await reader.readuntil(b"\r\n\r\n")
        said = await reader.readexactly(_length(head))
        lines = [line.partition(":") for line in head.decode().split("\r\n")[1:] if line]
        return Answer(int(head.split()[1]), said, {k.lower(): v.strip() for k, _, v in lines})
    except (OSError, EOFError):
        return Answer(0, b"")
    finally:
        writer.close()
