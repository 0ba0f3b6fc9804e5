"""A real HAProxy in front of the lab's pods' server: loopback addresses stand for pods, so neither a network
namespace nor an API server is needed."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from function_gateway.backends import Pod
from function_gateway.balancer import Balancer
from function_gateway.configuration import write
from function_gateway.endpoints import Function
from function_gateway.settings import Settings
from kwok.ports import free_ports
from kwok.processes import Processes
from kwok.traffic.function import Function as Model
from kwok.traffic.haproxy import find_haproxy
from kwok.traffic.load import Generator, Target
from kwok.traffic.pod_server import Pod as ServedPod
from kwok.traffic.pod_server import PodServer
from surgekit.haproxy.runtime import Runtime

WEB = Function("shop", "web")


class World:
    """Pods are told apart by number; each has one address, whatever becomes of it."""

    def __init__(
        self,
        directory: Path,
        server: PodServer,
        pod_port: int,
        timeout_s: float,
        model: Model,
        **limits: Any,
    ) -> None:
        (port,) = free_ports(1)
        self.settings = Settings(
            directory=directory / "h", listen=f"127.0.0.1:{port}", functions=4, slots=6,
            gateway_timeout_s=timeout_s, max_connections=500, **limits,
        )  # fmt: skip
        self.server, self.generator, self.model = server, Generator(port), model
        self.haproxy = Runtime(self.settings.control)
        self.balancer = Balancer(self.settings, self.haproxy)
        self._pod_port = pod_port
        self._processes = Processes(directory)
        write(self.settings)

    async def start_haproxy(self) -> None:
        self.settings.control.unlink(missing_ok=True)
        argv: list[str | Path] = [find_haproxy(), "-db", "-f", self.settings.directory / "haproxy.cfg"]
        await asyncio.to_thread(self._processes.start, "haproxy", argv, ready=self._answers)

    def _answers(self) -> bool:
        try:
            return bool(self.haproxy.info())
        except OSError:
            return False

    async def kill_haproxy(self) -> None:
        await asyncio.to_thread(self._processes.kill, "haproxy")

    async def sync(
        self,
        sizes: dict[int, int],
        function: Function = WEB,
        others: dict[Function, Sequence[Pod]] | None = None,
        beside: Sequence[Pod] = (),
        overflow: str = "",
    ) -> None:
        """Tell HAProxy of one function's pods: number -> concurrency. The pods have room for more."""
        pods = [Pod(f"127.0.1.{number}", self._pod_port, size) for number, size in sizes.items()]
        functions = {**(others or {}), function: [*pods, *beside]}
        await asyncio.to_thread(self.balancer.sync, functions, {function: overflow} if overflow else {})

    @property
    def port(self) -> int:
        return int(self.settings.listen.rpartition(":")[2])

    def serve(self, number: int, room: int = 1000) -> ServedPod:
        """A pod that answers, `room` at once."""
        pod = ServedPod(
            f"uid-{number}", "shop", f"pod-{number}", "node", f"127.0.1.{number}",
            replace(self.model, concurrency=room),
        )  # fmt: skip
        self.server.add(pod)
        return pod

    def in_flight(self, pod: ServedPod) -> int:
        return self.server.model.in_flight(pod.uid)

    def target(self, function: Function = WEB) -> Target:
        return self.generator.target(function.host)

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"{what}: not within {timeout_s:g} s") from None

    async def until_answered(self, more: int, target: Target | None = None) -> None:
        target = target or self.target()
        wanted = target.statuses[200] + more
        await self.until(lambda: target.statuses[200] >= wanted, f"{more} answers")

    async def until_idle(self, target: Target | None = None) -> None:
        target = target or self.target()
        target.set_clients(0)
        await self.until(lambda: target.in_flight == 0, "the last requests")


@asynccontextmanager
async def world(
    service_s: float = 0.02, timeout_s: float = 10.0, started: bool = True, **limits: Any
) -> AsyncIterator[World]:
    loop = asyncio.get_running_loop()
    model = Model("web", 0.0, service_s, 1, 0.0, cpu_cores=1.0, memory_bytes=1 << 20, demand_cv=0.2)
    server = PodServer(loop)
    server.model.add_node("node", 64.0)
    listener = socket.create_server(("0.0.0.0", 0), backlog=512)  # noqa: S104  # several loopback addresses
    listening = await loop.create_server(server.protocol, sock=listener)
    with tempfile.TemporaryDirectory(prefix="lb") as directory:  # short: a socket's path is at most 107 long
        made = World(Path(directory), server, listener.getsockname()[1], timeout_s, model, **limits)
        try:
            await made.start_haproxy()
            yield made
        finally:
            made.generator.close()
            await made.kill_haproxy()
            listening.close()
            for pod in list(server.pods):
                server.kill(pod)
