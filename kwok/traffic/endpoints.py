"""Serve readiness, metrics and control of a traffic process on the host's loopback.

In the process's own event loop, so that answers need no locks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager

from kwok.traffic.connections import serving

__all__ = ["Route", "serving_routes"]

Route = Callable[[bytes], Awaitable[bytes | str]]


def serving_routes(port: int, routes: Mapping[str, Route]) -> AbstractAsyncContextManager[asyncio.Server]:
    """Answer `routes` (path -> handler of the request's body) while the block runs.

    A ValueError of a handler is answered with 400.
    """

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = next((int(v) for k, _, v in _headers(head) if k == "content-length"), 0)
            body = await reader.readexactly(length)
            status, answer = await _answer(routes, head.split(" ")[1], body)
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Length: {len(answer)}\r\n"
                "Content-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\r\n".encode()
                + answer
            )
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError):
            pass  # the client left, or does not speak HTTP

    return serving(talk, host="127.0.0.1", port=port)


def _headers(head: str) -> list[tuple[str, str, str]]:
    return [line.partition(": ") for line in head.split("\r\n")[1:]]


async def _answer(routes: Mapping[str, Route], path: str, body: bytes) -> tuple[str, bytes]:
    if (route := routes.get(path)) is None:
        return "404 Not Found", b"not found\n"
    try:
        answer = await route(body)
    except ValueError as error:
        return "400 Bad Request", f"{error}\n".encode()
    except Exception as error:
        return "503 Service Unavailable", f"{type(error).__name__}: {error}\n".encode()
    return "200 OK", answer if isinstance(answer, bytes) else answer.encode()
