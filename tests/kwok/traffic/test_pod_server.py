"""The pods' server over real sockets: loopback addresses stand for pods, so no namespace is needed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop

from kwok.traffic import pod_server
from kwok.traffic.function import Function
from kwok.traffic.pod_server import Pod, PodServer

REQUEST = b"GET / HTTP/1.1\r\nHost: f\r\n\r\n"


def function(cpu_s: float = 0.001, concurrency: int = 1) -> Function:
    return Function("f", cpu_s, 0.0, concurrency, 0.0, cpu_cores=1.0, memory_bytes=1 << 20)


def pod(number: int, what: Function) -> Pod:
    return Pod(f"uid-{number}", "default", f"pod-{number}", "node", f"127.0.0.{number + 2}", what)


class World:
    """A server with two pods, and connections to them."""

    def __init__(self, server: PodServer, port: int) -> None:
        self.server, self.port = server, port
        self.writers: list[asyncio.StreamWriter] = []

    async def dial(self, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(f"127.0.0.{number + 2}", self.port)
        self.writers.append(writer)
        return reader, writer


@asynccontextmanager
async def world(what: Function, time_factor: float = 1.0) -> AsyncIterator[World]:
    loop = asyncio.get_running_loop()
    server = PodServer(loop, time_factor)
    server.model.add_node("node", 8.0)
    for number in range(2):
        server.add(pod(number, what))
    listener = socket.create_server(("0.0.0.0", 0))  # noqa: S104  # several loopback addresses
    listening = await loop.create_server(server.protocol, sock=listener)
    made = World(server, listener.getsockname()[1])
    try:
        yield made
    finally:
        for writer in made.writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        listening.close()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The body of one answer; empty when there is none."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def within_a_minute() -> None:
        async with asyncio.timeout(60):
            await test()

    uvloop.run(within_a_minute())


def test_the_address_that_was_dialled_is_the_pod_that_answers() -> None:
    async def test() -> None:
        async with world(function()) as w:
            for number in (0, 1, 0):
                reader, writer = await w.dial(number)
                for _ in range(3):  # on one connection
                    writer.write(REQUEST)
                    assert await answer(reader) == f"pod-{number}".encode()
            assert w.server.outcomes == {("default", "f", "answered"): 9}

    run(test)


def test_an_address_without_a_pod_answers_as_a_gateway_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_server, "_HELD_S", 0.05)

    async def test() -> None:
        async with world(function()) as w:
            reader, writer = await w.dial(7)
            writer.write(REQUEST)
            assert (await reader.read()).startswith(b"HTTP/1.1 502 ")

    run(test)


@pytest.mark.parametrize("connected_first", [False, True])
def test_a_request_waits_for_a_pod_that_was_not_heard_of_yet(connected_first: bool) -> None:
    async def test() -> None:
        async with world(function()) as w:
            _, left = await w.dial(5)
            left.write(REQUEST)
            reader, writer = await w.dial(5)
            if not connected_first:
                writer.write(REQUEST)
            left.close()
            await left.wait_closed()
            other_reader, other_writer = await w.dial(1)
            other_writer.write(REQUEST)
            assert await answer(other_reader) == b"pod-1"  # the server has seen all of that
            w.server.add(pod(5, function()))
            if connected_first:
                writer.write(REQUEST)
            assert await answer(reader) == b"pod-5"
            assert w.server.outcomes == {("default", "f", "answered"): 2}

    run(test)


@pytest.mark.parametrize(
    "pieces",
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",),
        (b"POST / HTTP/1.1\r\ncontent-length:5\r\n", b"\r\nhel", b"lo"),
        (b"GET / HTTP/1.1\r\n\r", b"\n"),
        (REQUEST + REQUEST,),  # pipelined: one after the other
    ],
)
def test_requests_are_read_however_they_are_cut(pieces: tuple[bytes, ...]) -> None:
    async def test() -> None:
        async with world(function()) as w:
            reader, writer = await w.dial(0)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)
            for _ in range(pieces[0].count(b"GET") or 1):
                assert await answer(reader) == b"pod-0"
            writer.write(REQUEST)  # nothing was left over
            assert await answer(reader) == b"pod-0"

    run(test)


@pytest.mark.parametrize(
    "bad",
    [
        b"x" * 70_000,
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_cannot_be_read_closes_the_connection(bad: bytes) -> None:
    async def test() -> None:
        async with world(function()) as w:
            reader, writer = await w.dial(0)
            writer.write(bad)
            assert await answer(reader) == b""

    run(test)


def test_a_path_may_say_how_long_its_request_takes() -> None:
    async def test() -> None:
        async with world(function(cpu_s=600.0)) as w:  # without a path the test would not end
            reader, writer = await w.dial(0)
            for path in (b"/sleep/0.01", b"/sleep/0"):
                writer.write(b"GET %s HTTP/1.1\r\nHost: f\r\n\r\n" % path)
                assert await answer(reader) == b"pod-0"

    run(test)


def test_a_caller_that_leaves_gives_its_request_up() -> None:
    async def test() -> None:
        async with world(function(cpu_s=100.0)) as w:
            _, writer = await w.dial(0)
            writer.write(REQUEST)
            while w.server.model.in_flight("uid-0") == 0:
                await asyncio.sleep(0.005)
            writer.close()
            while w.server.model.in_flight("uid-0"):
                await asyncio.sleep(0.005)
            assert w.server.outcomes == {("default", "f", "given_up"): 1}

    run(test)


def test_a_pod_that_is_resized_runs_more_at_once() -> None:
    """The first of its requests would keep the second waiting for ever."""

    async def test() -> None:
        async with world(function(cpu_s=1000.0)) as w:
            _, stuck = await w.dial(0)
            stuck.write(REQUEST)
            while w.server.model.in_flight("uid-0") < 1:
                await asyncio.sleep(0.005)
            w.server.resize("uid-0", function(cpu_s=0.001, concurrency=2))
            w.server.resize("uid-nobody", function(concurrency=2))  # not there: nothing to do
            reader, writer = await w.dial(0)
            writer.write(REQUEST)
            assert await answer(reader) == b"pod-0"
            assert (w.server.pods["uid-0"].answered, w.server.pods["uid-0"].most_at_once) == (1, 2)

    run(test)


def test_a_killed_pod_takes_its_requests_along_and_no_others() -> None:
    async def test() -> None:
        async with world(function(cpu_s=0.3)) as w:
            connections = [await w.dial(0), await w.dial(0), await w.dial(1)]
            for _, writer in connections:
                writer.write(REQUEST)
            while w.server.model.in_flight("uid-0") < 2 or w.server.model.in_flight("uid-1") < 1:
                await asyncio.sleep(0.005)
            w.server.kill("uid-0")
            answers = [await answer(reader) for reader, _ in connections]
            assert answers == [b"", b"", b"pod-1"]
            assert w.server.outcomes == {("default", "f", "lost"): 2, ("default", "f", "answered"): 1}

    run(test)


def test_a_request_on_its_way_to_a_killed_pod_gets_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a connection that was idle when the pod died: closed under it, HAProxy would say nothing at all."""
    monkeypatch.setattr(pod_server, "_IDLE_S", 0.2)

    async def test() -> None:
        async with world(function()) as w:
            connections = [await w.dial(0) for _ in range(3)]
            for reader, writer in connections:
                writer.write(REQUEST)
                assert await answer(reader) == b"pod-0"
            w.server.kill("uid-0")
            (late, sent), (moved, sent_later), (idle, _) = connections
            sent.write(REQUEST)
            assert (await late.read()).startswith(b"HTTP/1.1 502 ")
            w.server.add(Pod("uid-9", "default", "pod-9", "node", "127.0.0.2", function()))
            sent_later.write(REQUEST)
            assert await answer(moved) == b"pod-9"  # which has the address now
            assert await idle.read() == b""
            sent_later.write(REQUEST)
            assert await answer(moved) == b"pod-9"

    run(test)


def test_a_pod_told_to_end_finishes_what_it_has() -> None:
    async def test() -> None:
        async with world(function(cpu_s=0.2), time_factor=20.0) as w:
            reader, writer = await w.dial(0)
            writer.write(REQUEST)
            while w.server.model.in_flight("uid-0") == 0:
                await asyncio.sleep(0.005)
            w.server.end("uid-0", grace_s=30.0)
            assert await answer(reader) == b"pod-0"
            assert await reader.read() == b""  # then it is gone
            assert w.server.pod_at("127.0.0.2") is None

    run(test)


def test_a_pod_that_does_not_end_in_time_is_killed() -> None:
    async def test() -> None:
        async with world(function(cpu_s=100.0), time_factor=20.0) as w:
            reader, writer = await w.dial(0)
            writer.write(REQUEST)
            while w.server.model.in_flight("uid-0") == 0:
                await asyncio.sleep(0.005)
            w.server.end("uid-0", grace_s=2.0)
            assert await answer(reader) == b""
            assert w.server.outcomes == {("default", "f", "lost"): 1}

    run(test)


def test_a_new_pod_has_the_address_of_one_that_ends() -> None:
    async def test() -> None:
        async with world(function(cpu_s=0.3)) as w:
            old_reader, old_writer = await w.dial(0)
            old_writer.write(REQUEST)
            while w.server.model.in_flight("uid-0") == 0:
                await asyncio.sleep(0.005)
            w.server.end("uid-0", grace_s=30.0)
            new = Pod("uid-9", "default", "pod-9", "node", "127.0.0.2", function())
            w.server.add(new)
            reader, writer = await w.dial(0)
            writer.write(REQUEST)
            assert await answer(reader) == b"pod-9"
            assert await answer(old_reader) == b"pod-0"
            w.server.kill("uid-0")
            assert w.server.pod_at("127.0.0.2") is new

    run(test)
