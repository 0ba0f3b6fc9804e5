"""In front of the cluster's own ingress, with a real HAProxy: what is none of ours passes on, and what is not
ours any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvloop

from function_gateway.configuration import configuration
from function_gateway.settings import Settings
from kwok.errors import LabError
from kwok.traffic.haproxy import find_haproxy
from surgekit.process.settings import SettingsError
from tests.function_gateway.placement_peer import Answer, request
from tests.function_gateway.real_haproxy import WEB, World, world


class Ingress:
    """Answers by itself, and says what it was asked."""

    def __init__(self) -> None:
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\ningress")
        await writer.drain()
        writer.close()


@asynccontextmanager
async def before_an_ingress(service_s: float = 0.02) -> AsyncIterator[tuple[World, Ingress]]:
    ingress = Ingress()
    server = await asyncio.start_server(ingress.serve, "127.0.0.1")
    place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, world(service_s, ingress=place) as here:
        here.serve(1)
        yield here, ingress


@pytest.fixture
def _able() -> None:
    try:
        find_haproxy()
    except LabError as error:
        pytest.skip(str(error))


@pytest.mark.lab
@pytest.mark.usefixtures("_able")
def test_other_hosts_pass_on_as_they_are() -> None:
    async def test() -> None:
        async with before_an_ingress() as (here, ingress):
            await here.sync({1: 1})
            ours = await request(here.port, WEB.host)
            other = await request(here.port, "blog.news.example.com")
            assert (ours.status, b"pod" in ours.body) == (200, True)
            assert (other.status, other.body) == (200, b"ingress")
            assert "host: blog.news.example.com" in ingress.heads[0]

    uvloop.run(test())


@pytest.mark.lab
@pytest.mark.usefixtures("_able")
def test_what_waits_for_a_function_that_is_given_back_passes_on() -> None:
    """At zero pods nobody but Knative would wake it, once our controller is gone."""

    async def test() -> None:
        async with before_an_ingress() as (here, _):
            await here.sync({})
            waiting = [asyncio.create_task(request(here.port, WEB.host)) for _ in range(5)]
            await here.until(lambda: _waiting(here) == 5, "five requests that wait")
            await asyncio.to_thread(here.balancer.sync, {})
            answers: list[Answer] = await asyncio.gather(*waiting)
            assert {answer.body for answer in answers} == {b"ingress"}
            assert (await request(here.port, WEB.host)).body == b"ingress"

    uvloop.run(test())


@pytest.mark.lab
@pytest.mark.usefixtures("_able")
def test_what_waits_for_a_full_pod_passes_on_too() -> None:
    async def test() -> None:
        async with before_an_ingress(service_s=5.0) as (here, _):
            await here.sync({1: 1})
            waiting = [asyncio.create_task(request(here.port, WEB.host)) for _ in range(4)]
            await here.until(lambda: _waiting(here) == 4, "four requests")
            await asyncio.to_thread(here.balancer.sync, {})
            bodies = [answer.body for answer in await asyncio.gather(*waiting)]
            assert bodies.count(b"ingress") == 3  # the pod keeps the one it has

    uvloop.run(test())


def _waiting(here: World) -> int:
    """Requests under way for all functions, wherever they wait."""
    return int(next(iter(here.haproxy.table("namespaces").values()), {"conn_cur": 0})["conn_cur"])


@pytest.mark.parametrize(
    "place", ["kourier", "kourier:0", "kourier:99999", "a b:80", "a:80\n  bad", "http://a:80", ":80"]
)
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(SettingsError, match="ingress"):
        Settings(ingress=place)


def test_a_name_is_looked_up_while_haproxy_runs() -> None:
    named = configuration(Settings(ingress="kourier.kourier-system.svc.cluster.local:80"))
    assert "resolvers cluster init-addr last,libc,none" in named
    assert "resolvers" not in configuration(Settings(ingress="[::1]:80"))
    assert "k-proxy-request" not in configuration(Settings())
