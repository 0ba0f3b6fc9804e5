"""A placement over its real sockets and real gRPC; controller and agents at the other end are the test's."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from burst_plane.model import Function, NodeState, Prepared, Started
from burst_plane.placement.controller import Placement
from burst_plane.placement.settings import Settings
from burst_plane.wire.messages import (
    DIRECTOR,
    PULSELET,
    AgentAddress,
    Directory,
    EndReply,
    EndRequest,
    Listed,
    StartReply,
    StartRequest,
    TrafficReport,
    WatchRequest,
)
from surgekit.wire.server import Caller, Method, WireServer

RESIZE = Function("shop", "resize")
LISTED = Listed(
    function=RESIZE, template="t", mode="enforce", cpu_millis=100, memory_bytes=100, longest_s=60.0,
    idempotent=False, most_instances=50,
)  # fmt: skip
BODY = {"function": "resize.shop", "request": "r1", "budget_ms": 3000}
EVERYBODY = frozenset({"anybody"})


class Agent:
    """Starts nothing, and notes what it was told."""

    def __init__(self, node: str) -> None:
        self.node, self.starts, self.ended, self.heard = node, list[StartRequest](), set[str](), set[str]()
        self.unstarted: set[str] = set()
        self.refuses, self.delay_s, self.address = "", 0.0, "10.0.1.7"
        methods = {
            "Start": Method.unary(StartRequest, EVERYBODY, self._start),
            "End": Method.unary(EndRequest, EVERYBODY, self._end),
            "Watch": Method.stream(WatchRequest, EVERYBODY, self._watch),
        }
        self.server = WireServer("127.0.0.1:0", None, PULSELET, methods)

    async def _start(self, request: StartRequest, _: Caller) -> StartReply:
        self.starts.append(request)
        await asyncio.sleep(self.delay_s)
        if self.refuses:
            return StartReply(refused=self.refuses)
        name = f"{self.node}-{request.request}"
        return StartReply(
            started=Started(instance=name, address=self.address, port=8080, origin="created", start_s=0.0)
        )

    async def _end(self, request: EndRequest, _: Caller) -> EndReply:
        self.heard.add(request.placement)
        self.ended |= set(request.instances)
        self.unstarted |= set(request.requests)
        return EndReply()

    async def _watch(self, _: WatchRequest, __: Caller) -> AsyncIterator[NodeState]:
        prepared = (Prepared(function=RESIZE, template="t", image_present=True, created=1),)
        while True:
            yield NodeState(
                node=self.node, cpu_millis=1000, memory_bytes=1000, cpu_millis_free=1000,
                memory_bytes_free=1000, prepared=prepared,
            )  # fmt: skip
            await asyncio.sleep(0.2)


class World:
    def __init__(self, directory: Path) -> None:
        self.agents = [Agent("a"), Agent("b")]
        self.reports: list[TrafficReport] = []
        self.listed = LISTED
        attach = Method.conversation(TrafficReport, EVERYBODY, self._attach)
        self.director = WireServer("127.0.0.1:0", None, DIRECTOR, {"Attach": attach})
        self.directory = directory

    async def _attach(self, reports: AsyncIterator[TrafficReport], _: Caller) -> AsyncIterator[Directory]:
        agents = tuple(
            AgentAddress(node=a.node, address="127.0.0.1", port=a.server.port) for a in self.agents
        )
        yield Directory(term=1, sequence=1, functions=(self.listed,), agents=agents)
        async for report in reports:
            self.reports.append(report)

    async def ask(self, body: Any = BODY, wait: bool = True) -> tuple[int, Any]:
        reader, writer = await asyncio.open_unix_connection(self.directory / "placement.sock")
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        writer.write(b"POST /place HTTP/1.1\r\nHost: placement\r\nContent-Length: %d\r\n\r\n" % len(content))
        writer.write(content)
        await writer.drain()
        if not wait:
            writer.close()
            return 0, None
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        answer = json.loads(await reader.readexactly(length))
        writer.close()
        await writer.wait_closed()
        return int(head.split()[1]), answer

    def say(self, line: str) -> None:
        with socket.socket(socket.AF_UNIX) as sending:
            sending.connect(str(self.directory / "placement-log.sock"))
            sending.sendall(line.encode() + b"\n")

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def placement(self) -> AsyncIterator[Placement]:
        await self.director.start()
        for agent in self.agents:
            await agent.server.start()
        settings = Settings(
            directory=self.directory, controller=f"127.0.0.1:{self.director.port}", tls_directory=None,
            report_every_s=0.1,
        )  # fmt: skip
        placement, stopping = Placement(settings), asyncio.Event()
        running = asyncio.create_task(placement.run(stopping))
        try:
            await self.until(lambda: len(placement.desk.live_agents(0.0)) == 2)
            yield placement
        finally:
            stopping.set()
            await running
            for agent in self.agents:
                await agent.server.stop(0.0)
            await self.director.stop(0.0)


def within(directory: Path, test: Callable[[World, Placement], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World(directory)
        async with world.placement() as placement:
            await test(world, placement)

    asyncio.run(run())


def test_from_haproxys_question_to_the_end_of_the_instance(tmp_path: Path) -> None:
    async def test(world: World, placement: Placement) -> None:
        status, answer = await world.ask()
        starts = [start for agent in world.agents for start in agent.starts]
        assert [s.request for s in starts] == ["r1"]
        assert starts[0].placement == placement.name
        assert 0 < starts[0].budget_s <= 3.0
        assert (status, answer["address"], answer["port"]) == (200, "10.0.1.7", 8080)
        world.say("nonsense")
        world.say("end r1 200 -- 1 2 3")
        await world.until(lambda: any(answer["instance"] in agent.ended for agent in world.agents))
        assert not placement.desk.running
        await world.until(lambda: sum(f.started for r in world.reports for f in r.functions) == 1)
        await world.until(lambda: all(agent.heard == {placement.name} for agent in world.agents))

    within(tmp_path, test)


def test_a_refusal_is_tried_once_elsewhere(tmp_path: Path) -> None:
    async def test(world: World, _: Placement) -> None:
        world.agents[0].refuses = world.agents[1].refuses = "no-budget"
        assert await world.ask() == (503, {"reason": "no-budget"})
        assert [len(agent.starts) for agent in world.agents] == [1, 1]
        world.agents[0].refuses = ""
        answers = [await world.ask(BODY | {"request": f"n{i}"}) for i in range(4)]
        assert {answer["instance"][0] for status, answer in answers if status == 200} == {"a"}
        assert len(answers) == 4

    within(tmp_path, test)


def test_an_agent_that_names_an_impossible_address_is_left_for_another(tmp_path: Path) -> None:
    async def test(world: World, _: Placement) -> None:
        world.agents[0].address = "127.0.0.1"
        answers = [await world.ask(BODY | {"request": f"n{i}"}) for i in range(4)]
        assert {answer["address"] for status, answer in answers if status == 200} == {"10.0.1.7"}
        assert [status for status, _ in answers] == [200] * 4
        assert world.agents[0].starts

    within(tmp_path, test)


def test_an_agent_that_does_not_answer_is_told_to_end_what_it_may_have_started(tmp_path: Path) -> None:
    async def test(world: World, _: Placement) -> None:
        for agent in world.agents:
            agent.delay_s = 30.0
        status, answer = await world.ask(BODY | {"budget_ms": 200})
        assert (status, answer["reason"]) == (503, "failed")
        await world.until(lambda: all(agent.unstarted == {"r1"} for agent in world.agents if agent.starts))
        assert any(agent.starts for agent in world.agents)

    within(tmp_path, test)


def test_when_haproxy_no_longer_waits_the_instance_ends(tmp_path: Path) -> None:
    async def test(world: World, placement: Placement) -> None:
        for agent in world.agents:
            agent.delay_s = 0.3
        await world.ask(wait=False)
        await world.until(lambda: any("a-r1" in a.ended or "b-r1" in a.ended for a in world.agents))
        assert not placement.desk.running

    within(tmp_path, test)


def test_a_dead_agent_is_not_asked_again_and_its_requests_wait(tmp_path: Path) -> None:
    async def test(world: World, placement: Placement) -> None:
        for agent in world.agents:
            await agent.server.stop(0.0)
        await world.until(lambda: not placement.desk.live_agents(0.0))
        assert await world.ask() == (503, {"reason": "no-agents"})

    within(tmp_path, test)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (BODY | {"function": "other.shop"}, 503),
        (BODY | {"budget_ms": 0}, 503),
        ({}, 400),
        (b"\xff\xfe", 400),
    ],
)
def test_what_cannot_be_placed_is_refused(tmp_path: Path, body: object, status: int) -> None:
    async def test(world: World, _: Placement) -> None:
        assert (await world.ask(body))[0] == status
        assert not any(agent.starts for agent in world.agents)

    within(tmp_path, test)


def test_more_bytes_than_a_question_has_close_the_connection(tmp_path: Path) -> None:
    async def test(world: World, _: Placement) -> None:
        for content in (b"x" * 100_000, b"POST /place HTTP/1.1\r\nContent-Length: 99999\r\n\r\n"):
            reader, writer = await asyncio.open_unix_connection(tmp_path / "placement.sock")
            writer.write(content)
            async with asyncio.timeout(10):
                assert await reader.read() == b""
            writer.close()
        assert (await world.ask())[0] == 200

    within(tmp_path, test)
