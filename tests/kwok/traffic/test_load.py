"""The load generator against a server that the test stalls at will."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import numpy as np
import pytest
import uvloop

from kwok.traffic.load import Generator
from kwok.traffic.load_records import CONNECTION, CUT, RECORD, Records

Answer = Callable[[], Awaitable[bytes]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LATE = b"HTTP/1.1 504 Gateway Time-out\r\ncontent-length: 4\r\nconnection: close\r\n\r\nlate"


@asynccontextmanager
async def gateway(answer: Answer) -> AsyncIterator[Generator]:
    talking = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal talking
        talking += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                said = await answer()
                writer.write(said)
                if said != OK:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            talking -= 1
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    generator = Generator(server.sockets[0].getsockname()[1])
    try:
        yield generator
    finally:
        generator.close()
        await until(lambda: talking == 0)
        server.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def within_a_minute() -> None:
        async with asyncio.timeout(60):
            await test()

    uvloop.run(within_a_minute())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def records(generator: Generator) -> Records:
    return np.frombuffer(generator.take_records(), RECORD)


def test_a_closed_loop_keeps_as_many_requests_in_flight_as_it_has_clients() -> None:
    async def test() -> None:
        at_once, most = 0, 0

        async def answer() -> bytes:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.002)
            at_once -= 1
            return OK

        async with gateway(answer) as generator:
            target = generator.target("f.default")
            target.set_clients(5)
            await until(lambda: target.statuses[200] >= 100)
            assert most == 5
            target.set_clients(2)
            await until(lambda: target.in_flight == 2)
            most = 0
            await until(lambda: target.statuses[200] >= 200)
            assert most == 2
            target.set_clients(0)
            await until(lambda: target.in_flight == 0)
            ended = records(generator)
            assert len(ended) == target.statuses[200]
            assert float(ended["latency_s"].sum()) == pytest.approx(target.latency_sum_s, rel=1e-3)

    run(test)


def test_an_open_loop_counts_from_when_a_request_was_due() -> None:
    async def test() -> None:
        gate = asyncio.Event()

        async def answer() -> bytes:
            await gate.wait()
            return OK

        async with gateway(answer) as generator:
            target = generator.target("f.default")
            begin_s = time.time()
            target.replay([0.0, 0.05, 0.1])
            time.sleep(0.3)  # the generator itself stalls: two requests are sent late
            await asyncio.sleep(0.2)
            gate.set()
            await until(lambda: target.statuses[200] == 3)
            found = np.sort(records(generator), order="sent_s")
            assert found["sent_s"] - begin_s == pytest.approx([0.0, 0.05, 0.1], abs=0.02)
            assert all(found["latency_s"] > 0.35)
            assert target.still_due == 0

    run(test)


def test_errors_are_counted_by_kind_and_do_not_end_the_loop() -> None:
    async def test() -> None:
        said = iter([LATE, OK, b"", LATE, OK[:-1], OK[:9]])

        async def answer() -> bytes:
            return next(said, OK)

        async with gateway(answer) as generator:
            target = generator.target("f.default")
            target.set_clients(1)
            await until(lambda: target.statuses[200] >= 3)
            assert target.statuses[504] == 2
            assert (target.statuses[CONNECTION], target.statuses[CUT]) == (1, 2)

    run(test)


async def never() -> bytes:
    raise AssertionError("nobody should ask")


def test_a_gateway_that_is_not_there_is_not_asked_again_at_once() -> None:
    async def test() -> None:
        async with gateway(never) as generator:
            pass
        target = generator.target("f.default")
        target.set_clients(2)
        await asyncio.sleep(0.5)
        assert 2 <= target.statuses[CONNECTION] <= 12
        target.set_clients(0)
        await until(lambda: target.in_flight == 0)

    run(test)


def test_each_request_of_an_open_loop_may_have_a_path_of_its_own() -> None:
    async def test() -> None:
        seen = []

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.IncompleteReadError):
                while head := await reader.readuntil(b"\r\n\r\n"):
                    seen.append(head.split(b" ")[1])
                    writer.write(OK)
            writer.close()

        async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
            generator = Generator(server.sockets[0].getsockname()[1])
            target = generator.target("f")
            target.replay([0.02, 0.0], ["/sleep/2", "/sleep/1"])  # sent in the order of their times
            target.replay([0.04])
            await until(lambda: target.statuses[200] == 3)
            generator.close()
        assert seen == [b"/sleep/1", b"/sleep/2", b"/"]

    run(test)
