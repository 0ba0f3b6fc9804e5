"""Serve connections in an event loop, and close all of them at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

__all__ = ["Talk", "serving"]

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(talk: Talk, **where: Any) -> AsyncIterator[asyncio.Server]:
    """Serve each connection with `talk` while the block runs; `where` goes to `asyncio.start_server`.

    At the end of the block, open connections are closed and each `talk` is awaited. Otherwise the event
    loop would cancel those that wait for a client, and log each as an error.
    """
    open_connections: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # asyncio runs this in a task
        open_connections[task] = writer
        try:
            await talk(reader, writer)
        finally:
            del open_connections[task]
            writer.close()

    server = await asyncio.start_server(one, **where)
    try:
        yield server
    finally:
        server.close()
        talks = list(open_connections)
        for writer in open_connections.values():
            writer.transport.abort()
        await asyncio.gather(*talks, return_exceptions=True)
