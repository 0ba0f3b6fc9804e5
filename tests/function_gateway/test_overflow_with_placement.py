"""HAProxy and the real placement of the burst plane; node agents and controller are the test's."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter

import msgspec
import pytest
import uvloop

from burst_plane.wire.messages import StartReply, StartRequest
from function_gateway.configuration import ONCE
from function_gateway.endpoints import Function
from kwok.errors import LabError
from kwok.traffic.haproxy import find_haproxy
from surgekit.wire.server import Caller
from tests.burst_plane.placement.test_placement import LISTED, Agent
from tests.burst_plane.placement.test_placement import World as Plane
from tests.function_gateway.placement_peer import Placement, request
from tests.function_gateway.real_haproxy import world

pytestmark = pytest.mark.lab

RESIZE = Function("shop", "resize")  # what the test's agents have prepared


@pytest.fixture(autouse=True, scope="module")
def _able() -> None:
    try:
        find_haproxy()
    except LabError as error:
        pytest.skip(str(error))


def own_address() -> str:
    """The placement believes no agent that names a loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        try:
            made.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(made.getsockname()[0])


def test_a_burst_gets_instances_and_each_is_ended() -> None:
    """The placement's own cap holds: whoever finds neither slot nor instance waits for the pod."""

    async def test() -> None:
        async with world(service_s=0.2) as here:
            instances = Placement(here.settings.directory, 0)
            address = own_address()
            server = await asyncio.start_server(instances.instance, address, 0, backlog=200)
            port = server.sockets[0].getsockname()[1]

            class Starting(Agent):
                async def _start(self, request: StartRequest, caller: Caller) -> StartReply:
                    reply = await super()._start(request, caller)
                    assert reply.started is not None
                    started = msgspec.structs.replace(reply.started, address=address, port=port)
                    return msgspec.structs.replace(reply, started=started)

            plane = Plane(here.settings.directory)
            plane.agents = [Starting("a"), Starting("b")]
            plane.listed = msgspec.structs.replace(LISTED, cpu_millis=1, memory_bytes=1, most_instances=15)
            here.serve(1)
            await here.sync({1: 2}, function=RESIZE, overflow=ONCE)
            async with plane.placement() as placement:

                def ended() -> set[str]:
                    return {name for agent in plane.agents for name in agent.ended}

                def started() -> set[str]:
                    return {f"{a.node}-{s.request}" for a in plane.agents for s in a.starts}

                async with asyncio.timeout(30):  # HAProxy may take a second to find the placement
                    while not ended():
                        await asyncio.gather(*(request(here.port, RESIZE.host) for _ in range(3)))
                        await asyncio.sleep(0.1)
                lost = set(placement.desk.running)
                before = len(started())
                answers = await asyncio.gather(*(request(here.port, RESIZE.host) for _ in range(30)))
                assert {answer.status for answer in answers} == {200}
                served = Counter(answer.body.decode().split()[0] for answer in answers)
                room = 15 - len(lost)
                assert served == {"pod-1": 30 - room, "emergency": room}
                assert len(started()) - before == room
                await here.until(lambda: set(placement.desk.running) == lost, "each request has ended")
                await here.until(lambda: len(started() - ended()) == len(lost), "each instance is ended")
            answers = await asyncio.gather(*(request(here.port, RESIZE.host) for _ in range(10)))
            assert {a.body for a in answers} == {b"pod-1"}, "without a placement"
            server.close()

    uvloop.run(test())
