"""The balancer and a real HAProxy: no request fails that need not, and no pod gets more than it takes."""

from __future__ import annotations

import asyncio
import csv
import http.client
import io
import random
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import cast

import pytest
import uvloop
from prometheus_client import generate_latest

from function_gateway.backends import Pod
from function_gateway.balancer import Balancer
from function_gateway.endpoints import Function
from function_gateway.metrics import BalancerMetrics
from kwok.errors import LabError
from kwok.ports import free_ports
from kwok.traffic.haproxy import find_haproxy
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


async def ask(here: World, host: str = "web.shop") -> tuple[int, str]:
    """One request on a connection of its own."""

    def exchange() -> tuple[int, str]:
        port = int(here.settings.listen.rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/", headers={"Host": host})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    return await asyncio.to_thread(exchange)


def metrics(here: World, balancer: Balancer | None = None) -> dict[str, float]:
    found = BalancerMetrics(balancer or here.balancer, here.haproxy)
    lines = generate_latest(found.registry).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def of_web(name: str, **labels: str) -> str:
    named = {**labels, "function": "web", "namespace": "shop"}
    inside = ",".join(f'{key}="{value}"' for key, value in sorted(named.items()))
    return f"{name}{{{inside}}}"


@pytest.mark.parametrize("clients", [20, 60])
def test_requests_are_shared_in_proportion_to_capacity(clients: int) -> None:
    """With places free (20 of 28 in use) and with all of them taken and a queue."""

    async def test() -> None:
        async with world() as here:
            sizes = {1: 4, 2: 8, 3: 16}
            pods = {number: here.serve(number) for number in sizes}
            await here.sync(sizes)
            here.target().set_clients(clients)
            await here.until_answered(1500)
            await here.until_idle()
            assert set(here.target().statuses) == {200}
            total = sum(pod.answered for pod in pods.values())
            for number, size in sizes.items():
                assert pods[number].answered / total == pytest.approx(size / 28, rel=0.15)
                assert pods[number].most_at_once <= size
            if clients > 28:
                assert {n: pod.most_at_once for n, pod in pods.items()} == sizes

    run(test)


def test_resizes_under_load_fail_no_request_and_pass_no_limit() -> None:
    async def test() -> None:
        async with world() as here:
            draw, sizes = random.Random(1), {1: 2, 2: 4, 3: 8, 4: 1}
            pods = {number: here.serve(number) for number in sizes}
            await here.sync(sizes)
            here.target().set_clients(30)
            for _ in range(50):
                await here.until_answered(40)
                before, sizes = sizes, {number: draw.choice([1, 2, 4, 8, 300]) for number in sizes}
                for pod in pods.values():
                    pod.most_at_once = 0
                await here.sync(sizes)
                await here.until(
                    lambda: all(here.in_flight(pods[n]) <= sizes[n] for n in sizes),  # noqa: B023
                    "what a shrunk pod had before is done",
                )
                for number, pod in pods.items():
                    assert pod.most_at_once <= max(before[number], sizes[number])
                    pod.most_at_once = 0
                await here.until_answered(20)
                for number, pod in pods.items():
                    assert pod.most_at_once <= sizes[number]
            await here.until_idle()
            assert set(here.target().statuses) == {200}
            assert here.target().statuses[200] >= 50 * 60

    run(test)


def test_a_grown_pod_takes_from_the_queue_at_once() -> None:
    async def test() -> None:
        async with world(service_s=30.0, timeout_s=60.0) as here:
            pod = here.serve(1)
            await here.sync({1: 2})
            here.target().set_clients(6)
            await here.until(lambda: here.in_flight(pod) == 2, "a full pod")
            await here.until(lambda: metrics(here)[of_web("surgekit_function_queued")] == 4, "a queue")
            await here.sync({1: 5})
            await here.until(lambda: here.in_flight(pod) == 5, "a full pod")
            assert pod.answered == 0, "before any has ended"
            assert metrics(here)[of_web("surgekit_function_queued")] == 1

    run(test)


def test_pods_that_come_and_go_fail_no_request() -> None:
    """One that was taken out finishes what it has. One that comes back has only one set of places."""

    async def test() -> None:
        async with world() as here:
            draw = random.Random(2)
            pods = {number: here.serve(number) for number in range(1, 7)}  # as many as slots
            here.target().set_clients(20)
            for _ in range(60):
                sizes = dict.fromkeys(draw.sample(sorted(pods), draw.randint(1, 6)), 3)
                await here.sync(sizes)
                await here.until_answered(15)
            await here.until_idle()
            assert set(here.target().statuses) == {200}
            assert all(pod.answered > 0 for pod in pods.values())
            assert max(pod.most_at_once for pod in pods.values()) == 3

    run(test)


def test_a_pod_that_refuses_connections_costs_no_request() -> None:
    async def test() -> None:
        async with world() as here:
            for number in (1, 2):
                here.serve(number)
            (closed,) = free_ports(1)
            others = [Pod("127.0.1.3", closed, 4)]
            await here.sync({1: 4, 2: 4}, beside=others)
            here.target().set_clients(6)
            await here.until_answered(300)
            await here.until_idle()
            assert set(here.target().statuses) == {200}

    run(test)


class _Closing(asyncio.Protocol):
    """A pod that ends: it answers a connection's first request and closes the connection under the second."""

    def __init__(self, seen: list[str]) -> None:
        self._seen, self._first = seen, True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._seen.append(data.split(b" ", 1)[0].decode())
        if self._first:
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        else:
            self._transport.close()
        self._first = False


def test_a_pod_that_ends_under_a_get_costs_no_request_and_a_post_is_sent_once() -> None:
    async def test() -> None:
        async with world() as here, AsyncExitStack() as at_the_end:
            seen: list[str] = []
            loop = asyncio.get_running_loop()
            (port,) = free_ports(1)
            ending = await loop.create_server(lambda: _Closing(seen), "127.0.1.3", port)
            at_the_end.callback(ending.close)
            here.serve(1)
            await here.sync({1: 4}, beside=[Pod("127.0.1.3", port, 4)])
            here.target().set_clients(6)
            await here.until_answered(300)
            await here.until_idle()
            assert set(here.target().statuses) == {200}
            assert set(seen) == {"GET"}

            seen.clear()
            await here.sync({}, beside=[Pod("127.0.1.3", port, 4)])
            host, _, listen = here.settings.listen.rpartition(":")
            client = http.client.HTTPConnection(host, int(listen), timeout=60)
            at_the_end.callback(client.close)
            await asyncio.to_thread(client.request, "POST", "/", b"", {"Host": WEB.host})
            (await asyncio.to_thread(client.getresponse)).read()
            await asyncio.to_thread(client.request, "POST", "/", b"", {"Host": WEB.host})
            with pytest.raises(http.client.RemoteDisconnected):
                await asyncio.to_thread(client.getresponse)
            assert seen == ["POST", "POST"]

    run(test)


def test_a_new_haproxy_holds_requests_until_it_was_told() -> None:
    """Those on their way when HAProxy was killed are lost, and no others."""

    async def test() -> None:
        async with world() as here:
            pods = [here.serve(number) for number in (1, 2)]
            await here.sync({1: 4, 2: 4})
            here.target().set_clients(12)
            await here.until_answered(100)
            await here.kill_haproxy()
            here.target().set_clients(0)
            await here.until(lambda: here.target().in_flight == 0, "the lost requests")
            assert set(here.target().statuses) == {200, 0}
            lost = here.target().statuses[0]  # and those asked before the clients stopped
            await here.start_haproxy()
            assert await asyncio.to_thread(here.balancer.is_restarted)
            waiting = asyncio.create_task(ask(here))
            await here.until(lambda: clients(here) == 1, "a request that waits")
            assert not waiting.done()
            await here.sync({1: 4, 2: 4})
            assert (await waiting)[0] == 200
            assert not await asyncio.to_thread(here.balancer.is_restarted)
            here.target().set_clients(12)
            await here.until_answered(200)
            await here.until_idle()
            assert here.target().statuses[0] == lost
            assert {pod.most_at_once for pod in pods} == {4}
            assert here.balancer.starts == 2

    run(test)


def test_a_new_balancer_takes_over_what_haproxy_knows() -> None:
    async def test() -> None:
        async with world() as here:
            sizes = {1: 2, 2: 4, 3: 6}
            pods = {number: here.serve(number) for number in sizes}
            await here.sync(sizes)
            here.target().set_clients(20)
            for changed in ({1: 2, 2: 4, 3: 6}, {3: 6, 2: 4}, {1: 2, 3: 6}, {2: 4, 1: 2, 3: 6}):
                await here.until_answered(100)
                here.balancer = Balancer(here.settings, here.haproxy)
                await here.sync(changed)
            await here.until_answered(100)
            await here.until_idle()
            assert set(here.target().statuses) == {200}
            assert all(pod.most_at_once <= sizes[number] for number, pod in pods.items())

    run(test)


def test_who_waits_too_long_gets_503_and_is_counted() -> None:
    async def test() -> None:
        async with world(service_s=3.0, timeout_s=0.4) as here:
            pod = here.serve(1)
            await here.sync({1: 1})
            here.target().replay([0.0, 0.01, 0.01, 0.01])
            target = here.target()
            await here.until(lambda: sum(target.statuses.values()) == 4, "all ended")
            # The pod itself takes longer than the gateway waits for an answer: 504.
            assert target.statuses[503] == 3 - (pod.answered + target.statuses[504] - 1)
            assert target.statuses[503] >= 2
            # HAProxy counts a response when its stream has ended, which may be after the client has it.
            counted = of_web("surgekit_function_responses_total", code="5xx")
            await here.until(lambda: metrics(here)[counted] == 4, "all counted")
            assert metrics(here)[of_web("surgekit_function_unserved_total")] == target.statuses[503]

    run(test)


def test_a_request_waits_for_a_pod_and_counts_as_queued() -> None:
    async def test() -> None:
        async with world() as here:
            await here.sync({})
            waiting = asyncio.create_task(ask(here, "Web.Shop.svc.cluster.local:8000"))
            await here.until(lambda: metrics(here)[of_web("surgekit_function_queued")] == 1, "it waits")
            assert metrics(here)[of_web("surgekit_function_in_flight")] == 0
            here.serve(1)
            await here.sync({1: 1})
            assert await waiting == (200, "pod-1")

    run(test)


def test_who_is_queued_when_the_last_pod_leaves_waits_for_the_next() -> None:
    async def test() -> None:
        async with world(service_s=5.0, timeout_s=60.0) as here:
            pods = [here.serve(number) for number in (1, 2)]
            await here.sync({1: 1})
            here.target().replay([0.0] * 4)
            await here.until(lambda: here.in_flight(pods[0]) == 1, "a full pod")
            await here.until(lambda: metrics(here)[of_web("surgekit_function_queued")] == 3, "a queue")
            await here.sync({})
            await here.until(lambda: pods[0].answered == 1, "it finishes what it has")
            await here.sync({2: 3})
            await here.until(lambda: here.target().in_flight == 0, "all answered")
            assert here.target().statuses == {200: 4}
            assert (pods[0].answered, pods[1].answered) == (1, 3)

    run(test)


def test_functions_come_and_go_and_backends_change_hands() -> None:
    async def test() -> None:
        async with world() as here:
            for number in (1, 2):
                here.serve(number)
            for round_ in range(8):  # of 4 backends
                function = Function("shop", f"f{round_}")
                await here.sync({1 + round_ % 2: 2}, function)
                assert await ask(here, function.host) == (200, f"pod-{1 + round_ % 2}")
                assert (await ask(here, f"f{round_ - 1}.shop"))[0] == 404
            many: dict[Function, Sequence[Pod]] = {Function("shop", f"g{i}"): [] for i in range(5)}
            await here.sync({1: 2}, others=many)
            assert len(here.balancer.without_backend) == 2
            assert metrics(here)['surgekit_balancer_functions_without_backend{namespace="shop"}'] == 2

    run(test)


def test_pods_past_the_slots_are_told() -> None:
    async def test() -> None:
        async with world() as here:
            for number in range(1, 9):
                here.serve(number)
            await here.sync(dict.fromkeys(range(1, 9), 2))
            found = metrics(here)
            assert found[of_web("surgekit_function_pods")] == 6
            assert found[of_web("surgekit_function_capacity")] == 12
            assert found[of_web("surgekit_balancer_pods_without_slot")] == 2

    run(test)


def test_without_haproxy_nothing_is_told_of_functions() -> None:
    async def test() -> None:
        async with world() as here:
            await here.sync({})
            assert metrics(here)["surgekit_balancer_haproxy_up"] == 1
            await here.kill_haproxy()
            found = metrics(here)
            assert found["surgekit_balancer_haproxy_up"] == 0
            assert not [name for name in found if name.startswith("surgekit_function")]
            with pytest.raises(OSError, match=r"refused|No such file"):
                await here.sync({})

    run(test)


def test_who_is_not_a_function_is_not_found() -> None:
    async def test() -> None:
        async with world() as here:
            await here.sync({})
            for host in ("nobody.shop", "synced", "f0", WEB.name):
                assert (await ask(here, host))[0] == 404

    run(test)


def test_a_namespace_takes_neither_all_backends_nor_all_connections() -> None:
    """One tenant has more functions than there are backends, and more requests than it may have under way for
    one without a pod. The other's functions are there, and answer."""

    async def test() -> None:
        async with world(timeout_s=60.0, connections_per_namespace=20) as here:
            greedy = [Function("greedy", f"f{number}") for number in range(10)]
            here.serve(1)
            await here.sync({}, greedy[0], others=dict.fromkeys(greedy[1:], ()))
            assert len(here.balancer.served) == 4, "while nobody else wants them"
            await here.sync({1: 50}, others=dict.fromkeys(greedy, ()))
            namespaces = [function.namespace for function in here.balancer.served]
            assert sorted(namespaces) == ["greedy", "greedy", "greedy", "shop"]
            assert "its share is 3" in next(iter(here.balancer.without_backend.values()))
            target = here.target(greedy[0])
            target.set_clients(100)
            name = 'surgekit_balancer_namespace_{}{{namespace="greedy"}}'
            await here.until(lambda: metrics(here).get(name.format("refused_total"), 0) > 200, "refusals")
            assert metrics(here)[name.format("requests")] <= 100
            assert target.statuses[429] > 0
            held = metrics(here)['surgekit_function_queued{function="f0",namespace="greedy"}']
            assert held <= 20
            for _ in range(20):
                assert (await ask(here))[0] == 200
            target.set_clients(0)

    run(test)


def test_one_client_address_has_its_share_of_connections() -> None:
    async def test() -> None:
        async with world(connections_per_client=30) as here:
            here.serve(1)
            await here.sync({1: 50})
            port = int(here.settings.listen.rpartition(":")[2])
            with ExitStack() as stack:
                for _ in range(600):  # more than there is room for at all
                    with suppress(ConnectionResetError):  # refused before connect() had returned
                        connection = socket.create_connection(
                            ("127.0.0.1", port), source_address=("127.0.0.9", 0)
                        )
                        stack.enter_context(connection)
                await here.until(lambda: denied_connections(here) >= 500, "most are refused")
                assert (await ask(here))[0] == 200

    run(test)


def clients(here: World) -> int:
    return sum(int(row["scur"]) for row in frontends(here) if row["pxname"] == "functions")


def denied_connections(here: World) -> int:
    return sum(int(row["dcon"] or 0) for row in frontends(here))


def frontends(here: World) -> list[dict[str, str]]:
    said = here.haproxy._exchange("show stat -1 1 -1").lstrip("# ")
    return list(csv.DictReader(io.StringIO(said)))
