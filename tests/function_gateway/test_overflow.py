"""The emergency track with a real HAProxy: exactly the requests that find no free slot ask for an instance,
and whatever goes wrong there, they wait for a pod."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from function_gateway.balancer import Balancer
from function_gateway.configuration import IDEMPOTENT, ONCE
from kwok.errors import LabError
from kwok.ports import free_ports
from kwok.traffic.haproxy import find_haproxy
from surgekit.haproxy.runtime import Runtime
from surgekit.haproxy.traffic import read_traffic
from tests.function_gateway.placement_peer import Answer, Placement, placement, request
from tests.function_gateway.real_haproxy import WEB, World, world

pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True, scope="module")
def _able() -> None:
    try:
        find_haproxy()
    except LabError as error:
        pytest.skip(str(error))


def run(test: Callable[[], Awaitable[None]]) -> None:
    uvloop.run(test())  # type: ignore[arg-type]  # it wants a coroutine


@asynccontextmanager
async def overflowing(sizes: dict[int, int], **given: Any) -> AsyncIterator[tuple[World, Placement]]:
    """A function with pods of these sizes, which may overflow."""
    async with world(**given) as here, placement(here.settings.directory) as peer:
        for number in sizes:
            here.serve(number)
        await here.sync({}, overflow=ONCE)
        await until_lines_arrive(here, peer)
        await here.sync(sizes, overflow=ONCE)
        yield here, peer


async def burst(here: World, count: int, **given: Any) -> list[Answer]:
    return await asyncio.gather(*(request(here.port, WEB.host, **given) for _ in range(count)))


def counted(answers: list[Answer]) -> Counter[str]:
    return Counter(answer.body.decode().split()[0].split("-")[0] for answer in answers)


async def until_told(here: World, peer: Placement) -> None:
    """Until the placement knows that each request that asked has ended."""
    await here.until(lambda: set(peer.ids) <= set(peer.ended), "a line for each")
    assert len(peer.ids) == len(set(peer.ids))


async def until_lines_arrive(here: World, peer: Placement, slots: int = 0) -> None:
    """HAProxy may take a second to find a placement that has just started."""
    async with asyncio.timeout(30):
        while not set(peer.ids) & set(peer.ended):
            peer.asked.clear()
            peer.lines.clear()
            await burst(here, slots + 1)
            await asyncio.sleep(0.1)
    await here.until(lambda: set(peer.ids) <= set(peer.ended), "the others")
    peer.asked.clear()
    peer.lines.clear()
    peer.seen.clear()
    peer.answered = peer.left = 0


def traffic(here: World) -> Any:
    reading = Runtime(here.settings.statistics)
    return read_traffic(reading.map_entries(here.settings.map_file), reading.functions())[WEB.host]


@pytest.mark.parametrize("sizes", [{}, {1: 1}, {1: 1, 2: 1, 3: 1}, {1: 2, 2: 7, 3: 1}])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_burst_is_split_exactly(sizes: dict[int, int], method: str) -> None:
    async def test() -> None:
        async with overflowing(sizes, service_s=2.0) as (here, peer):
            slots, earlier = sum(sizes.values()), traffic(here).overflowed
            for _ in range(2):
                before = len(peer.asked)
                answers = await burst(here, 60, method=method, body=b"x" if method == "POST" else b"")
                assert {answer.status for answer in answers} == {200}
                assert counted(answers) == +Counter({"emergency": 60 - slots, "pod": slots})
                assert len(peer.asked) - before == 60 - slots
                await until_told(here, peer)
            assert traffic(here).overflowed - earlier == 2 * (60 - slots)

    run(test)


def test_who_finds_a_free_slot_does_not_ask() -> None:
    async def test() -> None:
        async with overflowing({1: 3, 2: 3}) as (here, peer):
            here.target().set_clients(6)
            await here.until_answered(500)
            await here.until_idle()
            assert set(here.target().statuses) == {200}
            assert peer.asked == []

    run(test)


def test_both_tracks_count_in_the_statistics_while_they_serve() -> None:
    async def test() -> None:
        async with overflowing({1: 2}, service_s=2.0) as (here, peer):
            peer.service_s = 2.0
            asking = asyncio.create_task(burst(here, 5))
            await here.until(lambda: peer.at_once == 3, "three in instances")
            seen = traffic(here)
            assert (seen.in_pods, seen.in_emergency, seen.waiting, seen.pods) == (2, 3, 0, 1)
            assert {answer.status for answer in await asking} == {200}

    run(test)


def test_overflow_comes_and_goes_under_load_and_fails_no_request() -> None:
    async def test() -> None:
        async with overflowing({1: 2, 2: 2}) as (here, peer):
            target = here.target()
            target.set_clients(30)
            for round_ in range(12):
                await here.until_answered(60)
                await here.sync({1: 2, 2: 2}, overflow=(ONCE, "", IDEMPOTENT)[round_ % 3])
                if round_ % 3 == 1:  # what had asked before gets its answer
                    await until_told(here, peer)
                    before = len(peer.asked)
                    await here.until_answered(40)
                    assert len(peer.asked) == before
            await here.until_idle()
            assert set(target.statuses) == {200}
            assert peer.answered > 60

    run(test)


@pytest.mark.parametrize("what", ["refuses", "absent", "hangs", "dies"])
def test_without_an_instance_requests_wait_for_a_pod(what: str) -> None:
    async def test() -> None:
        async with overflowing({1: 2}, placement_timeout_s=0.3) as (here, peer):
            if what == "refuses":
                peer.refuses = "no-budget"
            elif what == "absent":
                await peer.stop()
            else:
                peer.delay_s = 600.0
            asking = asyncio.create_task(burst(here, 40))
            if what == "dies":
                await here.until(lambda: len(peer.asked) > 0, "it is asked")
                await peer.stop()
            answers = await asking
            assert {answer.status for answer in answers} == {200}
            assert counted(answers) == Counter({"pod": 40})
            if what in ("absent", "dies"):
                peer.delay_s = 0.0
                await peer.start()
                await until_lines_arrive(here, peer, 2)
                before = len(peer.ids)
                assert counted(await burst(here, 40))["emergency"] == 38
                await here.until(lambda: set(peer.ids[before:]) <= set(peer.ended), "a line for each")
            else:
                await until_told(here, peer)

    run(test)


def test_a_placement_that_hangs_is_left_alone_for_a_while() -> None:
    async def test() -> None:
        async with overflowing({1: 1}, placement_timeout_s=0.2) as (here, peer):
            peer.delay_s = 600.0
            await burst(here, 3)
            before = len(peer.asked)
            answers = await burst(here, 20)
            assert {answer.status for answer in answers} == {200}
            assert len(peer.asked) == before == 2

    run(test)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_instance_that_refuses_the_connection_costs_no_request(method: str) -> None:
    async def test() -> None:
        async with overflowing({1: 2}) as (here, peer):
            (peer.port,) = free_ports(1)  # nobody listens there
            answers = await burst(here, 20, method=method, body=b"body" if method == "POST" else b"")
            assert {answer.status for answer in answers} == {200}
            assert counted(answers) == Counter({"pod": 20})
            assert len(peer.asked) == 18
            await until_told(here, peer)

    run(test)


def test_a_request_whose_instance_refuses_waits_for_the_first_pod() -> None:
    async def test() -> None:
        async with overflowing({}) as (here, peer):
            (peer.port,) = free_ports(1)
            asking = asyncio.create_task(burst(here, 5, method="POST", body=b"body"))
            await here.until(lambda: len(peer.asked) == 5, "all ask")
            await here.until(lambda: traffic(here).waiting >= 5, "all wait")
            assert not asking.done()
            pod = here.serve(1)
            await here.sync({1: 1}, overflow=ONCE)
            assert {answer.status for answer in await asking} == {200}
            assert pod.answered == len(peer.asked) == 5, "nobody asks twice"
            await until_told(here, peer)

    run(test)


def test_an_instance_that_breaks_is_a_502_unless_the_function_is_idempotent() -> None:
    async def test() -> None:
        async with overflowing({1: 1}, service_s=1.0) as (here, peer):
            peer.breaks = True
            assert Counter(a.status for a in await burst(here, 4)) == {200: 1, 502: 3}
            assert len(peer.seen) == 3
            await here.sync({1: 1}, overflow=IDEMPOTENT)
            assert Counter(a.status for a in await burst(here, 4)) == {200: 4}
            answers = await burst(here, 4, method="POST", body=b"x")
            assert Counter(a.status for a in answers) == {200: 1, 502: 3}
            await until_told(here, peer)
            assert "502" in {line.split()[2] for line in peer.lines}

    run(test)


@pytest.mark.parametrize("during", ["placement", "answer"])
def test_a_client_that_leaves_ends_its_instance(during: str) -> None:
    async def test() -> None:
        async with overflowing({}) as (here, peer):
            if during == "placement":
                peer.delay_s = 0.3
            peer.service_s = 600.0
            await burst(here, 5, leave_after_s=0.1)
            await here.until(lambda: len(peer.ids) == 5, "all asked")
            await until_told(here, peer)
            await here.until(lambda: peer.at_once == 0, "no connection is left")
            assert peer.answered == 0
            if during == "answer":
                assert all(line.split()[3][0] == "C" for line in peer.lines)

    run(test)


def test_clients_name_no_instance() -> None:
    async def test() -> None:
        async with overflowing({}) as (here, peer):
            forged = "".join(
                f"{name}: forged\r\n"
                for name in ("X-Request-Id", "X-Unique-Id", "Unique-Id", "X-Surgekit-Passes")
            )
            answers = await burst(here, 3, headers=forged + "x-surgekit-passes: eeeeeeeeeeeeeee\r\n")
            assert counted(answers) == Counter({"emergency": 3})
            assert all(len(one) == 36 and "forged" not in one for one in peer.ids)
            assert all(b"eee" not in head for head in peer.seen)

    run(test)


def test_503_comes_after_the_queues_timeout_and_says_when_to_retry() -> None:
    async def test() -> None:
        async with overflowing({}, timeout_s=0.4) as (here, peer):
            peer.refuses = "no-agents"
            began = asyncio.get_running_loop().time()
            answers = await burst(here, 3)
            assert asyncio.get_running_loop().time() - began >= 0.4
            assert {(a.status, a.headers["retry-after"]) for a in answers} == {(503, "1")}
            await until_told(here, peer)

    run(test)


def test_bodies_of_any_size_reach_the_instance_once() -> None:
    async def test() -> None:
        async with overflowing({}) as (here, peer):
            size = 30_000_000
            (answer,) = await burst(here, 1, method="POST", body=b"x" * size)
            assert answer.body == b"emergency %d" % size
            assert len(peer.seen) == 1

    run(test)


def test_a_websocket_goes_to_an_instance_and_ends_with_its_client() -> None:
    async def test() -> None:
        async with overflowing({}) as (here, peer):
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(
                f"GET /chat HTTP/1.1\r\nHost: {WEB.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
            )
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
            for text in (b"first", b"second"):
                writer.write(text)
                assert await reader.readexactly(len(text)) == text
            assert (peer.at_once, peer.lines) == (1, [])
            writer.close()
            await until_told(here, peer)
            await here.until(lambda: peer.at_once == 0, "the instance's connection is closed")

    run(test)


def test_http2_streams_are_requests_of_their_own() -> None:
    """Two streams of one connection: one has the only slot, the other an instance."""

    async def test() -> None:
        async with overflowing({1: 1}, service_s=1.0) as (here, peer):
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b""))
            for stream in (1, 3):
                writer.write(_frame(1, 5, stream, _headers(WEB.host)))
            statuses: dict[int, int] = {}
            ended: set[int] = set()
            async with asyncio.timeout(20):
                while ended != {1, 3}:
                    size, kind, flags, stream = _head(await reader.readexactly(9))
                    payload = await reader.readexactly(size)
                    if kind == 1:
                        statuses[stream] = payload[0]
                    if flags & 1 and stream:
                        ended.add(stream)
            writer.close()
            assert statuses == {1: 0x88, 3: 0x88}  # `:status: 200` of the static table (RFC 7541)
            assert len(peer.seen) == 1
            await until_told(here, peer)

    run(test)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _head(nine: bytes) -> tuple[int, int, int, int]:
    return int.from_bytes(nine[:3], "big"), nine[3], nine[4], int.from_bytes(nine[5:], "big")


def _headers(host: str) -> bytes:
    """GET, http, / of HPACK's static table, and `:authority` as a literal."""
    return b"\x82\x86\x84\x01" + bytes([len(host)]) + host.encode()


def test_a_new_haproxy_and_a_new_balancer_know_who_may_overflow() -> None:
    async def test() -> None:
        async with overflowing({1: 1}, service_s=1.0) as (here, peer):
            await here.kill_haproxy()
            await here.start_haproxy()
            await here.sync({1: 1}, overflow=ONCE)
            await until_lines_arrive(here, peer, 1)
            assert counted(await burst(here, 5)) == Counter({"emergency": 4, "pod": 1})
            await until_told(here, peer)
            here.balancer = Balancer(here.settings, here.haproxy)
            await here.sync({1: 1}, overflow=IDEMPOTENT)
            entries = here.haproxy.map_entries(here.settings.overflow_map)
            assert entries == {WEB.host: IDEMPOTENT}
            here.balancer = Balancer(here.settings, here.haproxy)
            await here.sync({1: 1})
            assert here.haproxy.map_entries(here.settings.overflow_map) == {}
            assert counted(await burst(here, 5)) == Counter({"pod": 5})
            assert len(peer.asked) == 4

    run(test)
