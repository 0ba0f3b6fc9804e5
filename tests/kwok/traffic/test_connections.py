"""A server in an event loop ends with no connection left, and says nothing about those it closed."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kwok.traffic.connections import serving


@pytest.mark.parametrize("connections", [0, 1, 5])
def test_clients_that_wait_are_closed_in_silence(caplog: pytest.LogCaptureFixture, connections: int) -> None:
    ended = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal ended
        writer.write(b"hello\n")
        try:
            await reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            ended += 1

    async def serve_and_leave() -> list[bytes]:
        async with serving(talk, host="127.0.0.1", port=0) as server:
            port = server.sockets[0].getsockname()[1]
            clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(connections)]
            for reader, _ in clients:
                assert await reader.readline() == b"hello\n"
        # Before the loop ends: nothing is left for it to cancel.
        assert ended == connections
        rest = []
        for reader, writer in clients:
            try:
                rest.append(await reader.read())
            except ConnectionError:
                rest.append(b"")
            writer.close()
        return rest

    with caplog.at_level(logging.DEBUG, "asyncio"):
        assert asyncio.run(serve_and_leave()) == [b""] * connections
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == []
