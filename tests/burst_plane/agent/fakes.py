"""A workshop, images and networks that only pretend, and count what is there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burst_plane.agent.container import Container, ContainerFault, ImageLostError
from burst_plane.agent.images import Image, ImageFault
from burst_plane.agent.networks import Network, NetworkFault
from burst_plane.agent.pulselet import Pulselet
from burst_plane.agent.stock import Stock
from burst_plane.instance.image import ImageConfig
from burst_plane.instance.readiness import Kind
from burst_plane.instance.share import Amount, Share
from burst_plane.model import Function, InstanceSpec
from burst_plane.wire.messages import (
    EndRequest,
    PrepareRequest,
    StartReply,
    StartRequest,
)  # fmt: skip
from surgekit.wire.server import Caller

__all__ = ["MIB", "FakeNode"]

MIB = 1 << 20
_CALLER = Caller("placement", "10.0.0.1")


class _Process:
    def __init__(self, on_end: Callable[[], None]) -> None:
        self.pid = 0
        self._on_end = on_end
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def end(self, code: int = 0) -> None:
        if not self.ended.done():
            self.ended.set_result(code)
            asyncio.get_running_loop().call_soon(self._on_end)

    def kill(self) -> None:
        self.end(-9)


@dataclass
class World:
    """What there is. `chance` decides how long things take, and whether they fail."""

    chance: random.Random
    fails: float = 0.0
    hangs: set[Function] = field(default_factory=set)  # functions that never open their port
    containers: dict[str, Container] = field(default_factory=dict)
    running: dict[str, Container] = field(default_factory=dict)  # not waiting, not frozen
    networks: set[str] = field(default_factory=set)
    most_cpu_millis = most_memory_bytes = 0
    connected: bool = True

    async def pass_time(self) -> None:
        await asyncio.sleep(self.chance.choice((0, 0, 0.003, 0.05, 0.4)))

    def fails_now(self) -> bool:
        return self.chance.random() < self.fails


class FakeWorkshop:
    def __init__(self, world: World) -> None:
        self.world = world

    async def make(
        self, name: str, function: Function, spec: InstanceSpec, _image: Image, network: Network,
        on_end: Callable[[str], None],
    ) -> Container:  # fmt: skip
        await self.world.pass_time()
        if self.world.fails_now():
            raise (ContainerFault if self.world.chance.random() < 0.5 else ImageLostError)("make")
        if self.world.fails_now():
            raise RuntimeError("a fault of ours")
        process: Any = _Process(lambda: on_end(name))
        output: Any = None
        made = Container(name, function, spec, network, Kind.CREATED, output, process)
        self.world.containers[name] = made
        return made

    async def start(self, container: Container, deadline_s: float) -> None:
        self._run(container)
        await self.world.pass_time()
        if container.function in self.world.hangs:
            await asyncio.sleep(deadline_s - asyncio.get_running_loop().time())
            raise TimeoutError
        if self.world.fails_now():
            raise ContainerFault("start")
        if asyncio.get_running_loop().time() > deadline_s:
            raise TimeoutError
        if container.process.ended.done():
            raise ContainerFault("ended")

    async def freeze(self, container: Container) -> None:
        await self.world.pass_time()
        if self.world.fails_now():
            raise ContainerFault("freeze")
        container.kind = Kind.FROZEN
        self.world.running.pop(container.name, None)

    def thaw(self, container: Container) -> None:
        if self.world.fails_now():
            raise ContainerFault("thaw")
        self._run(container)

    def connected(self, _container: Container) -> bool:
        return self.world.connected

    async def remove(self, container: Container) -> None:
        container.process.kill()
        await self.world.pass_time()
        self.world.running.pop(container.name, None)
        del self.world.containers[container.name]

    def _run(self, container: Container) -> None:
        self.world.running[container.name] = container


class FakeImages:
    def __init__(self, world: World) -> None:
        self.world = world

    async def get(self, name: str, _pull_auth: str, _always_pull: bool) -> Image:
        await self.world.pass_time()
        if self.world.fails_now():
            raise ImageFault(name)
        return Image(("/layer",), ImageConfig())


class FakeNetworks:
    def __init__(self, world: World) -> None:
        self.world = world
        self._ready: list[Network] = []
        self._numbers = iter(range(1 << 30))
        self.gateways: list[str] = []

    @property
    def ready(self) -> int:
        return len(self._ready)

    def take(self) -> Network | None:
        return self._ready.pop() if self._ready else None

    async def fill(self) -> None:
        self._ready.append(await self.make())

    async def make(self) -> Network:
        await self.world.pass_time()
        if self.world.fails_now():
            raise NetworkFault("network")
        name = f"n{next(self._numbers)}"
        self.world.networks.add(name)
        return Network(name, Path(name), "10.0.0.2")

    async def remove(self, network: Network) -> None:
        await self.world.pass_time()
        self.world.networks.remove(network.name)

    async def admit(self, gateway: str) -> None:
        self.gateways.append(gateway)

    async def dismiss(self, gateway: str) -> None:
        self.gateways.remove(gateway)


class FakeNode:
    """Use it as an asynchronous context, in virtual time."""

    def __init__(
        self, seed: int = 0, fails: float = 0.0, cpu_millis: int = 2000, memory_mib: int = 1024,
        spare_networks: int = 2,
    ) -> None:  # fmt: skip
        self.world = World(random.Random(seed), fails)
        self.share = Share(Amount(cpu_millis, memory_mib * MIB))
        workshop: Any = FakeWorkshop(self.world)
        images: Any = FakeImages(self.world)
        self.networks = FakeNetworks(self.world)
        networks: Any = self.networks
        self.stock = Stock(
            workshop, images, networks, self.share, ready_bytes=memory_mib * MIB // 2, created_bytes=8 * MIB,
            spare_networks=spare_networks, changed=lambda: None,
        )  # fmt: skip
        self.pulselet = Pulselet(
            "node", workshop, self.stock, networks, self.share, most=8, lost_after_s=5.0,
            placements=["placement"],
        )  # fmt: skip
        self._sequence = 0

    async def __aenter__(self) -> FakeNode:
        self._tasks = [asyncio.create_task(each) for each in (self.stock.keep(), self.pulselet.sweep())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self.pulselet.stop()

    async def prepare(self, *preparations: Any) -> bool:
        self._sequence += 1
        request = PrepareRequest(term=1, sequence=self._sequence, preparations=preparations)
        return (await self.pulselet.prepare(request, _CALLER)).accepted

    async def start(
        self, function: Function, spec: InstanceSpec, request: str, placement: str = "p", budget_s: float = 3
    ) -> StartReply:
        message = StartRequest(
            request=request, placement=placement, function=function, template=spec.template,
            budget_s=budget_s,
        )  # fmt: skip
        return await self.pulselet.start(message, _CALLER)

    async def end(self, *instances: str, requests: tuple[str, ...] = (), placement: str = "p") -> None:
        message = EndRequest(placement=placement, instances=instances, requests=requests)
        await self.pulselet.end(message, _CALLER)

    async def until(self, holds: Callable[[], bool], within_s: float = 60.0, alive: str = "p") -> None:
        """Wait, while the placement says each second that it is alive."""
        loop = asyncio.get_running_loop()
        limit_s = loop.time() + within_s
        while not holds():
            assert loop.time() < limit_s, "never"
            if alive:
                await self.end(placement=alive)
            await asyncio.sleep(0.1)

    def check(self) -> None:
        """What must always hold."""
        held = [self.share.held(name) for name in self.world.containers]
        total = self.share.total
        assert sum(each.cpu_millis for each in held) <= total.cpu_millis
        assert sum(each.memory_bytes for each in held) <= total.memory_bytes
        assert min(self.share.free.cpu_millis, self.share.free.memory_bytes) >= 0
        for name, container in self.world.running.items():
            assert self.share.held(name).memory_bytes == container.spec.memory_bytes, "unaccounted memory"
