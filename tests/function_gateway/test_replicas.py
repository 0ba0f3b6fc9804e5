"""Several replicas of the load balancer: real HAProxys and real controllers on loopback addresses, and an API
server that is a stand-in. Whatever comes and goes, pods never have more requests than they take."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from function_gateway.configuration import write
from function_gateway.controller import Controller
from function_gateway.endpoints import BURST_FUNCTION
from function_gateway.ownership import owner
from function_gateway.settings import Settings
from kwok.errors import LabError
from kwok.ports import free_ports
from kwok.processes import Processes
from kwok.traffic.function import Function as Model
from kwok.traffic.haproxy import find_haproxy
from kwok.traffic.load import Generator, Target
from kwok.traffic.pod_server import Pod as ServedPod
from kwok.traffic.pod_server import PodServer
from surgekit.haproxy.runtime import Runtime
from tests.fake_api_server import FakeApiServer
from tests.function_gateway.placement_peer import request

pytestmark = pytest.mark.lab

PEERS = "lb/peers"
FUNCTIONS = [f"f{number}" for number in range(6)]
SLOTS = 2
Json = dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def _able() -> None:
    try:
        find_haproxy()
    except LabError as error:
        pytest.skip(str(error))


def run(test: Callable[[], Awaitable[None]]) -> None:
    uvloop.run(test())  # type: ignore[arg-type]  # it wants a coroutine


def endpoint_slice(namespace: str, name: str, labels: Json, port: int, addresses: dict[str, str]) -> Json:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": [address], "conditions": {"ready": True}, "targetRef": {"kind": "Pod", "uid": uid}}
            for uid, address in addresses.items()
        ],
    }


class Replica:
    """One HAProxy and the controller beside it."""

    def __init__(self, directory: Path, kube: FakeApiServer, address: str, ports: tuple[int, int]) -> None:
        (listen,) = free_ports(1)
        self.settings = Settings(
            directory=directory / address, listen=f"127.0.0.1:{listen}", functions=8, slots=4,
            gateway_timeout_s=10.0, max_connections=500, replicas_service=PEERS, address=address,
            forward_port=ports[0], replica_port=ports[1], most_replicas=4,
        )  # fmt: skip
        self.address, self.port = address, listen
        self.generator = Generator(listen)
        self.haproxy = Runtime(self.settings.control)
        self._processes = Processes(directory)
        write(self.settings)
        self.controller = Controller(self.settings, kube)

    async def start(self) -> None:
        argv: list[str | Path] = [find_haproxy(), "-db", "-f", self.settings.directory / "haproxy.cfg"]
        await asyncio.to_thread(self._processes.start, self.address, argv, ready=self._answers)
        self.controller.start()

    def _answers(self) -> bool:
        try:
            return bool(self.haproxy.info())
        except OSError:
            return False

    async def stop_controller(self) -> None:
        await asyncio.to_thread(self.controller.stop)

    async def kill(self) -> None:
        """As the node's death would: HAProxy and the controller's connections end at once."""
        self.controller._link.stop()
        await asyncio.to_thread(self._processes.kill, self.address)

    def owned(self) -> set[str]:
        """Hosts that HAProxy serves itself."""
        entries = self.haproxy.map_entries(self.settings.map_file)
        return {host for host, backend in entries.items() if backend.startswith("f")}

    def target(self, function: str) -> Target:
        return self.generator.target(f"{function}.shop")


class World:
    def __init__(self, directory: Path, server: PodServer, pod_port: int, model: Model) -> None:
        self.directory, self.server = directory, server
        self.kube = FakeApiServer()
        first, second = free_ports(2)
        self.ports = first, second
        self.replicas: dict[str, Replica] = {}
        self.pods: dict[str, ServedPod] = {}
        for number, function in enumerate(FUNCTIONS):
            address = f"127.0.1.{number + 1}"
            pod = ServedPod(function, "shop", function, "node", address, replace(model, concurrency=1000))
            server.add(pod)
            self.pods[function] = pod
            self.kube.add(
                endpoint_slice("shop", function, {BURST_FUNCTION: function}, pod_port, {function: address}),
                {
                    "apiVersion": "surgekit.dev/v1alpha1", "kind": "BurstFunction",
                    "metadata": {"name": function, "namespace": "shop", "uid": f"burst-{function}"},
                    "spec": {"concurrency": SLOTS},
                },
            )  # fmt: skip

    async def start(self, number: int) -> Replica:
        address = f"127.0.3.{number}"
        made = self.replicas[address] = Replica(self.directory, self.kube, address, self.ports)
        await made.start()
        self.list_replicas()
        return made

    def list_replicas(self) -> None:
        listed = {address: address for address in self.replicas}
        labels = {"kubernetes.io/service-name": "peers"}
        path = "/apis/discovery.k8s.io/v1/namespaces/lb/endpointslices"
        obj = endpoint_slice("lb", "peers", labels, self.ports[0], listed)
        if any(one["metadata"]["name"] == "peers" for one in self.kube.objects("endpointslices")):
            self.kube.patch(f"{path}/peers", {"endpoints": obj["endpoints"]})
        else:
            self.kube.add(obj)

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{what}: not within {timeout_s:g} s") from None

    def is_shared_out(self) -> bool:
        there = list(self.replicas)
        return all(
            one.owned() == {f"{f}.shop" for f in FUNCTIONS if owner(there, f"{f}.shop") == one.address}
            for one in self.replicas.values()
        )

    def load(self, clients: int) -> None:
        for one in self.replicas.values():
            for function in FUNCTIONS:
                one.target(function).set_clients(clients)

    def statuses(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for one in self.replicas.values():
            for target in one.generator.targets.values():
                found += target.statuses
        return found

    async def until_answered(self, more: int) -> None:
        wanted = self.statuses()[200] + more
        await self.until(lambda: self.statuses()[200] >= wanted, f"{more} answers", 60.0)

    async def until_idle(self) -> None:
        self.load(0)
        await self.until(
            lambda: all(
                t.in_flight == 0 for r in self.replicas.values() for t in r.generator.targets.values()
            ),
            "the last requests",
        )

    def most_at_once(self) -> int:
        return max(pod.most_at_once for pod in self.pods.values())


@asynccontextmanager
async def world(replicas: int, service_s: float = 0.05) -> AsyncIterator[World]:
    loop = asyncio.get_running_loop()
    model = Model("f", 0.0, service_s, 1, 0.0, cpu_cores=1.0, memory_bytes=1 << 20, demand_cv=0.2)
    server = PodServer(loop)
    server.model.add_node("node", 64.0)
    listener = socket.create_server(("0.0.0.0", 0), backlog=512)  # noqa: S104  # several loopback addresses
    listening = await loop.create_server(server.protocol, sock=listener)
    with tempfile.TemporaryDirectory(prefix="lb") as directory:
        here = World(Path(directory), server, listener.getsockname()[1], model)
        try:
            for number in range(replicas):
                await here.start(number + 1)
            await here.until(here.is_shared_out, "all functions have their owner")
            yield here
        finally:
            for one in list(here.replicas.values()):
                one.generator.close()
                await one.stop_controller()
                await one.kill()
            listening.close()
            for pod in list(server.pods):
                server.kill(pod)


def test_any_replica_takes_any_request_and_slots_are_counted_once() -> None:
    async def test() -> None:
        async with world(3) as here:
            here.load(2)  # 6 requests at once for each function's 2 slots
            await here.until_answered(1500)
            await here.until_idle()
            assert set(here.statuses()) == {200}
            assert {pod.most_at_once for pod in here.pods.values()} == {SLOTS}
            assert sum(len(one.owned()) for one in here.replicas.values()) == len(FUNCTIONS)

    run(test)


def test_replicas_that_come_and_go_fail_no_request_and_pass_no_limit() -> None:
    async def test() -> None:
        async with world(1) as here:
            here.load(2)
            await here.until_answered(200)
            for number in (2, 3):
                joined = await here.start(number)
                await here.until(here.is_shared_out, f"replica {number} has its functions")
                for function in FUNCTIONS:
                    joined.target(function).set_clients(2)
                await here.until_answered(200)
            first = here.replicas["127.0.3.1"]
            # Its clients go elsewhere first, as when the Service forgets it; what it owns it still serves.
            for function in FUNCTIONS:
                first.target(function).set_clients(0)
            await first.stop_controller()
            assert first.owned() == set()
            await here.until_answered(200)
            await here.until_idle()
            assert set(here.statuses()) == {200}
            assert here.most_at_once() == SLOTS

    run(test)


def test_a_replica_that_dies_takes_only_its_own_requests_along() -> None:
    async def test() -> None:
        async with world(3) as here:
            survivors = list(here.replicas.values())[:2]
            for one in survivors:
                for function in FUNCTIONS:
                    one.target(function).set_clients(1)
            await here.until_answered(200)
            dying = list(here.replicas.values())[2]
            moved = dying.owned()
            await dying.kill()
            await here.until(lambda: moved <= survivors[0].owned() | survivors[1].owned(), "they moved")
            await here.until_answered(300)
            await here.until_idle()
            lost = sum(here.statuses().values()) - here.statuses()[200]
            assert lost <= 2 * len(moved), "one a client at most"
            del here.replicas[dying.address]
            dying.controller._loops.clear()

    run(test)


def test_only_replicas_may_forward() -> None:
    async def test() -> None:
        async with world(2) as here:
            one = next(iter(here.replicas.values()))
            for source, answered in (("127.0.0.9", False), ("127.0.3.2", True)):
                said = b""
                with suppress(ConnectionResetError):
                    reader, writer = await asyncio.open_connection(
                        one.address, here.ports[0], local_addr=(source, 0)
                    )
                    writer.write(b"GET / HTTP/1.1\r\nHost: f0.shop\r\n\r\n")
                    said = await reader.read(12)
                    writer.close()
                assert said == (b"HTTP/1.1 200" if answered else b"")
            answer = await request(one.port, "f0.shop", headers="x-surgekit-passes: ++++++++++++\r\n")
            assert answer.status == 200

    run(test)
