"""Containers that are ready for a start, and the work that keeps them ready.

One function after the other is filled up in the background, at a lower priority, and not while a start is
going on. A function whose containers cannot be made is tried again after a time that grows.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field

import structlog
from msgspec.structs import replace

from burst_plane.agent.container import Container, ContainerFault, ImageLostError, Workshop
from burst_plane.agent.images import Image, ImageFault, Images
from burst_plane.agent.networks import Network, NetworkFault, Networks
from burst_plane.instance.readiness import Held, Kind, Make, next_to_make, surplus
from burst_plane.instance.share import Amount, Share
from burst_plane.model import Function, Preparation, Prepared
from surgekit.process.back_off import back_off_s

__all__ = ["Order", "Stock"]

log = structlog.get_logger(__name__)

_FIRST_S, _LONGEST_S = 2.0, 120.0  # of the back-off
_INITIALISED_S = 30.0  # within which a process must open its port, to be frozen
# While a start is going on nothing is made, but starts that never end must not stop it.
_BUSY_S, _LONGEST_BUSY_S = 0.02, 0.2
_IDLE_S = 1.0
_AT_ONCE = 2  # containers being made
_LONGEST_ERROR = 300
# Of the share's memory, for created containers. Unlike frozen ones they are not given up for a start, so
# without a bound many functions' containers would leave no memory to start any of them.
_CREATED_SHARE = 0.25


@dataclass(frozen=True)
class Order:
    """What is to be ready for a function, and its image if that is here."""

    preparation: Preparation
    image: Image | None


@dataclass(eq=False)
class _Shelf:
    """What is ready for one function."""

    preparation: Preparation
    image: Image | None = None
    looking: bool = False  # for the image
    created: list[Container] = field(default_factory=list)
    frozen: list[Container] = field(default_factory=list)
    making: dict[Kind, int] = field(default_factory=lambda: {Kind.CREATED: 0, Kind.FROZEN: 0})
    error: str = ""
    failures: int = 0
    not_before_s: float = 0.0

    def held(self, now_s: float) -> Held:
        return Held(
            len(self.created) + self.making[Kind.CREATED],
            len(self.frozen) + self.making[Kind.FROZEN],
            blocked=self.image is None or now_s < self.not_before_s,
        )


class Stock:
    """All of it belongs to the loop's thread."""

    def __init__(
        self, workshop: Workshop, images: Images, networks: Networks, share: Share, ready_bytes: int,
        created_bytes: int, spare_networks: int, changed: Callable[[], None],
    ) -> None:  # fmt: skip
        self._workshop, self._images, self._networks, self._share = workshop, images, networks, share
        self._ready_bytes, self._created_bytes = ready_bytes, created_bytes
        self._spare_networks, self._changed = spare_networks, changed
        self._shelves: dict[Function, _Shelf] = {}
        self._by_name: dict[str, tuple[_Shelf, Container]] = {}
        self._at_work = 0  # containers being made
        self._initialising: Counter[str] = Counter()  # frozen ones whose port is not open yet, by namespace
        self._wake = asyncio.Event()
        self._network_fault, self._network_not_before_s, self._network_failures = "", 0.0, 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.ended: Callable[[str], None] = self.on_end  # told the name of a container whose process ended
        self.starting = 0  # starts going on: the background waits
        self._stepped_s = 0.0
        self.stopped = False
        self.leaving_bytes = 0  # of containers that are being removed
        # For metrics. What was made and neither used nor is there any more was made in vain.
        self.made, self.used, self.given_up = (Counter[Kind]() for _ in range(3))
        self.lost_total = 0  # ready containers that ended by themselves
        self.ready_byte_seconds = 0.0  # held by what waits
        self._counted_s = 0.0

    # --- for starts ---

    def find(self, function: Function) -> Order | None:
        shelf = self._shelves.get(function)
        return Order(shelf.preparation, shelf.image) if shelf else None

    def take(self, function: Function) -> Container | None:
        """The readiest container: frozen before created. It is the caller's now."""
        shelf = self._shelves[function]
        pile = shelf.frozen or shelf.created
        if not pile:
            return None
        container = pile.pop(0)
        del self._by_name[container.name]
        self.used[container.kind] += 1
        self.wake()
        return container

    def put_back(self, container: Container) -> None:
        """The caller has no use for what it just took."""
        shelf = self._shelves[container.function]
        (shelf.frozen if container.kind is Kind.FROZEN else shelf.created).insert(0, container)
        self._by_name[container.name] = (shelf, container)
        self.used[container.kind] -= 1

    def new_name(self) -> str:
        return f"b{secrets.token_hex(8)}"

    async def make_now(self, name: str, order: Order) -> Container:
        """A created container, made at once. Its caller holds its share. Raise ContainerFault."""
        assert order.image is not None  # noqa: S101  (find said so)
        try:
            return await self._make(name, order.preparation, order.image)
        except ImageLostError:
            if shelf := self._shelves.get(order.preparation.function):
                shelf.image = None
                self.wake()
            raise

    async def discard(self, container: Container) -> None:
        """Remove a container of any state, and its network."""
        held_bytes = self._share.held(container.name).memory_bytes
        self.leaving_bytes += held_bytes
        try:
            await self._workshop.remove(container)
        finally:
            self.leaving_bytes -= held_bytes
            self._share.give_back(container.name)
            self._changed()
            self.wake()
        for _ in range(10):  # plugins take a core for 20 to 50 ms, which a start may need, but not for ever
            if not self.starting:
                break
            await asyncio.sleep(_BUSY_S)
        await self._networks.remove(container.network)

    def frozen_bytes(self) -> int:
        """What `make_room` could free."""
        return sum(
            len(shelf.frozen) * shelf.preparation.spec.memory_bytes for shelf in self._shelves.values()
        )

    def _ready_bytes_now(self) -> int:
        return self.frozen_bytes() + sum(map(len, (s.created for s in self._shelves.values()))) * (
            self._created_bytes
        )

    def make_room(self, memory_bytes: int) -> None:
        """Give up frozen containers, which only wait, for a request that waits. Their memory is free soon."""
        freed = 0
        for shelf in self._shelves.values():
            while shelf.frozen and freed < memory_bytes:
                container = shelf.frozen.pop()
                freed += container.spec.memory_bytes
                self._give_up(container)
        self._changed()

    def on_end(self, name: str) -> None:
        """A process ended. Its container was ready: it is no more."""
        shelf, container = self._by_name.pop(name, (None, None))
        if shelf is None or container is None:
            return
        for pile in (shelf.created, shelf.frozen):
            if container in pile:
                pile.remove(container)
        self.lost_total += 1
        self._run(self.discard(container))

    # --- for the controller's orders ---

    def order(self, preparations: tuple[Preparation, ...]) -> None:
        """What to be ready for from now on."""
        wanted = {each.function: each for each in preparations}
        for function, shelf in list(self._shelves.items()):
            new = wanted.get(function)
            if new is None or new.spec != shelf.preparation.spec:
                self._clear(self._shelves.pop(function))
        for function, preparation in wanted.items():
            self._shelves.setdefault(function, _Shelf(preparation)).preparation = preparation
        self.wake()

    def prepared(self) -> tuple[Prepared, ...]:
        return tuple(
            Prepared(
                function=function,
                template=shelf.preparation.spec.template,
                image_present=shelf.image is not None,
                created=len(shelf.created),
                frozen=len(shelf.frozen),
                error=shelf.error or self._network_fault,
            )
            for function, shelf in self._shelves.items()
        )

    def images(self) -> list[str]:
        return [shelf.preparation.spec.image for shelf in self._shelves.values()]

    # --- the background ---

    def wake(self) -> None:
        self._wake.set()

    async def keep(self) -> None:
        """Until it is cancelled."""
        while True:
            self._wake.clear()
            did = False
            try:
                did = self.stopped is False and await self._step(_now_s())
            except Exception:  # a fault of ours must not be the end of it
                log.exception("stock not kept")
            if not did:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_IDLE_S):  # wait_for may lose a cancellation
                        await self._wake.wait()

    async def stop(self) -> None:
        """Give up all that is ready."""
        self.stopped = True
        for shelf in self._shelves.values():
            self._clear(shelf)
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _step(self, now_s: float) -> bool:
        """One thing. Whether there was one to do."""
        if self.starting and now_s - self._stepped_s < _LONGEST_BUSY_S:
            await asyncio.sleep(_BUSY_S)
            return True
        self._stepped_s = now_s
        self.ready_byte_seconds += self._ready_bytes_now() * (now_s - (self._counted_s or now_s))
        self._counted_s = now_s
        for shelf in self._shelves.values():
            if shelf.image is None and not shelf.looking and now_s >= shelf.not_before_s:
                shelf.looking = True
                self._run(self._get_image(shelf))  # a registry may be slow
        for shelf in self._shelves.values():
            for _ in range(surplus(shelf.preparation.created, len(shelf.created))):
                self._give_up(shelf.created.pop())
            for _ in range(surplus(shelf.preparation.frozen, len(shelf.frozen))):
                self._give_up(shelf.frozen.pop())
        if now_s < self._network_not_before_s:
            return False
        if self._at_work < _AT_ONCE and (what := self._next(now_s)):
            self._begin(what)
            return True
        if self._shelves and self._networks.ready < self._spare_networks:
            await self._fill_networks()
            return True
        return False

    def _next(self, now_s: float) -> Make | None:
        held = {function: shelf.held(now_s) for function, shelf in self._shelves.items()}
        shelves, share = self._shelves.values(), self._share
        frozen_bytes = self.frozen_bytes() + sum(
            shelf.making[Kind.FROZEN] * shelf.preparation.spec.memory_bytes for shelf in shelves
        )
        created_bytes = sum(len(s.created) + s.making[Kind.CREATED] for s in shelves) * self._created_bytes
        most_created_bytes = int(share.total.memory_bytes * _CREATED_SHARE)
        return next_to_make(
            map(self._makeable, (shelf.preparation for shelf in shelves)),
            held,
            min(self._ready_bytes - frozen_bytes, share.free.memory_bytes),
            min(most_created_bytes - created_bytes, share.free.memory_bytes),
            self._created_bytes,
        )

    def _makeable(self, preparation: Preparation) -> Preparation:
        """How long a function takes to open its port is its author's doing: one at a time in a namespace."""
        busy = self._initialising[preparation.function.namespace]
        return replace(preparation, frozen=0) if busy else preparation

    def _begin(self, what: Make) -> None:
        shelf = self._shelves[what.function]
        shelf.making[what.kind] += 1
        self._at_work += 1
        self._initialising[what.function.namespace] += what.kind is Kind.FROZEN
        self._run(self._stock_up(shelf, what.kind))

    async def _stock_up(self, shelf: _Shelf, kind: Kind) -> None:
        """Make one container and put it on the shelf."""
        name, spec = self.new_name(), shelf.preparation.spec
        container: Container | None = None
        error = ""
        try:
            memory_bytes = spec.memory_bytes if kind is Kind.FROZEN else self._created_bytes
            container = await self._make_within(memory_bytes, name, shelf)
            if kind is Kind.FROZEN:
                await self._workshop.start(container, _now_s() + _INITIALISED_S)
                await self._workshop.freeze(container)
            if container.process.ended.done():
                error = "its process ended at once"
        except TimeoutError:
            error = f"its port was not open after {_INITIALISED_S:g} s"
        except ContainerFault as fault:
            error = str(fault)
            if isinstance(fault, ImageLostError):
                shelf.image = None
        except Exception as fault:  # a fault of ours must not leak the share
            log.exception("not made ready")
            error = type(fault).__name__
        shelf.making[kind] -= 1
        self._initialising[shelf.preparation.function.namespace] -= kind is Kind.FROZEN
        if error:
            self._failed(shelf, error)
        else:
            shelf.failures, shelf.error = 0, ""
        if container is None:
            self._share.give_back(name)
        elif error or self._shelves.get(container.function) is not shelf or self.stopped:
            await self.discard(container)
        else:
            (shelf.frozen if kind is Kind.FROZEN else shelf.created).append(container)
            self._by_name[name] = (shelf, container)
            self.made[kind] += 1
        self._changed()
        self.wake()

    async def _make_within(self, memory_bytes: int, name: str, shelf: _Shelf) -> Container:
        """Raise ContainerFault."""
        try:
            if not self._share.set(name, Amount(memory_bytes=memory_bytes)):
                raise ContainerFault("no memory is left of the share")
            assert shelf.image is not None  # noqa: S101  (a shelf without one is blocked)
            return await self._make(name, shelf.preparation, shelf.image)
        finally:
            self._at_work -= 1

    async def _make(self, name: str, preparation: Preparation, image: Image) -> Container:
        """Raise ContainerFault; then nothing is left of it."""
        network: Network | None = None
        try:
            network = self._networks.take() or await self._networks.make()
            return await self._workshop.make(
                name, preparation.function, preparation.spec, image, network, self.ended
            )
        except NetworkFault as error:
            raise ContainerFault(str(error)) from error
        except Exception:
            if network is not None:
                await self._networks.remove(network)
            raise

    async def _get_image(self, shelf: _Shelf) -> None:
        spec = shelf.preparation.spec
        try:
            shelf.image = await self._images.get(spec.image, spec.pull_auth, spec.always_pull)
        except ImageFault as error:
            self._failed(shelf, str(error))
        else:
            shelf.failures, shelf.error = 0, ""
        shelf.looking = False
        self._changed()
        self.wake()

    async def _fill_networks(self) -> None:
        try:
            await self._networks.fill()
        except NetworkFault as error:
            if str(error) != self._network_fault:
                log.error("no network for instances", error=str(error))
            self._network_failures += 1
            self._network_fault = str(error)[:_LONGEST_ERROR]
            wait_s = back_off_s(self._network_failures, _FIRST_S, _LONGEST_S)
            self._network_not_before_s = _now_s() + wait_s
        else:
            self._network_fault, self._network_failures = "", 0

    def _failed(self, shelf: _Shelf, error: str) -> None:
        if error != shelf.error:
            function = shelf.preparation.function
            log.warning("not prepared", namespace=function.namespace, function=function.name, error=error)
        shelf.failures += 1
        shelf.error = error[:_LONGEST_ERROR]
        shelf.not_before_s = _now_s() + back_off_s(shelf.failures, _FIRST_S, _LONGEST_S)

    def _clear(self, shelf: _Shelf) -> None:
        for container in (*shelf.created, *shelf.frozen):
            self._give_up(container)
        shelf.created.clear()
        shelf.frozen.clear()

    def _give_up(self, container: Container) -> None:
        self._by_name.pop(container.name, None)
        self.given_up[container.kind] += 1
        self._run(self.discard(container))

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
