"""Instances: one for each request, started from what is ready, gone when the request has ended.

An instance ends when its placement says so, is not heard of any more, when its longest time is over, or when
its process ends. A Start that is sent twice finds the instance of the first.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass

import structlog

from burst_plane.agent.container import Container, ContainerFault, Workshop
from burst_plane.agent.networks import Networks
from burst_plane.agent.stock import Stock
from burst_plane.instance.readiness import Kind
from burst_plane.instance.share import Amount, Share
from burst_plane.model import NodeState, Preparation, Started
from burst_plane.wire.messages import (
    EndReply,
    EndRequest,
    PrepareReply,
    PrepareRequest,
    StartReply,
    StartRequest,
    WatchRequest,
)  # fmt: skip
from surgekit.wire.server import Caller

__all__ = ["Pulselet"]

log = structlog.get_logger(__name__)

_SWEEP_S = 0.5
_STATE_EVERY_S, _STATE_AT_MOST_EVERY_S = 1.0, 0.05
_REMEMBERED = 4096  # starts that have ended: a repeated one is answered, not carried out
_LONGEST_BUDGET_S = 60.0
_ROOM_S = 1.0  # for memory of frozen containers to become free


@dataclass(eq=False)
class _Run:
    """One request's instance, from the request to its end."""

    request: StartRequest
    preparation: Preparation
    begun_s: float
    answer: asyncio.Task[StartReply] | None = None
    container: Container | None = None
    deadline_s: float = 0.0
    ended: str = ""  # why
    claimed: bool = False  # the caller has the answer


@dataclass
class Counts:
    """For metrics."""

    refused: dict[str, int]
    ended: dict[str, int]


class Pulselet:
    """All of it belongs to the loop's thread."""

    def __init__(
        self, node: str, workshop: Workshop, stock: Stock, networks: Networks, share: Share, most: int,
        lost_after_s: float,
    ) -> None:  # fmt: skip
        self._node, self._workshop, self._stock, self._networks = node, workshop, stock, networks
        self._share, self._most, self._lost_after_s = share, most, lost_after_s
        self._runs: OrderedDict[tuple[str, str], _Run] = OrderedDict()
        self._by_instance: dict[str, _Run] = {}
        self._heard_s: dict[str, float] = {}  # of placements
        self._order = (-1, -1)
        self._watchers: set[asyncio.Event] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.draining = False
        stock.ended = self.on_end
        self.counts = Counts({}, {})
        self.on_started: Callable[[str, float], None] = lambda _origin, _took_s: None

    # --- what callers ask ---

    async def prepare(self, request: PrepareRequest, _caller: Caller) -> PrepareReply:
        order = (request.term, request.sequence)
        if order <= self._order:
            return PrepareReply(accepted=False)
        self._order = order
        unique = {each.function: each for each in request.preparations}
        self._stock.order(tuple(unique.values()))
        self.changed()
        return PrepareReply(accepted=True)

    async def start(self, request: StartRequest, caller: Caller) -> StartReply:
        self._heard_s[request.placement] = time.monotonic()
        key = (request.placement, request.request)
        run = self._runs.get(key)
        if run is None:
            refused, preparation = self._admit(request)
            if preparation is None:
                return self._refuse(refused)
            run = self._runs[key] = _Run(request, preparation, time.monotonic())
            run.answer = asyncio.create_task(self._start(run, caller))
            self._forget_old()
        assert run.answer is not None  # noqa: S101  (set before anything is awaited)
        try:
            answer = await asyncio.shield(run.answer)
        except asyncio.CancelledError:
            # The caller left. It may ask again with the same name; if it does not, nobody will end this one.
            asyncio.get_running_loop().call_later(self._lost_after_s, self._end_unclaimed, run)
            raise
        run.claimed = True
        if run.ended and answer.started is not None:
            return self._refuse("failed", f"the instance has ended: {run.ended}", retryable=False)
        return answer

    async def end(self, request: EndRequest, _caller: Caller) -> EndReply:
        self._heard_s[request.placement] = time.monotonic()
        for name in request.instances:
            run = self._by_instance.get(name)
            if run is not None and run.request.placement == request.placement:
                self._end(run, "request ended")
        return EndReply()

    async def watch(self, _request: WatchRequest, caller: Caller) -> AsyncIterator[NodeState]:
        await self._networks.admit(caller.address)  # placements share their address with their HAProxy
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            while True:
                changed.clear()
                yield self.state()
                await asyncio.sleep(_STATE_AT_MOST_EVERY_S)
                await _wait(changed, _STATE_EVERY_S - _STATE_AT_MOST_EVERY_S)
        finally:
            self._watchers.discard(changed)

    def state(self) -> NodeState:
        free = self._share.free
        return NodeState(
            node=self._node,
            cpu_millis=self._share.total.cpu_millis,
            memory_bytes=self._share.total.memory_bytes,
            cpu_millis_free=free.cpu_millis,
            memory_bytes_free=free.memory_bytes,
            draining=self.draining,
            prepared=self._stock.prepared(),
        )

    def changed(self) -> None:
        for event in self._watchers:
            event.set()

    # --- one instance ---

    def _admit(self, request: StartRequest) -> tuple[str, Preparation | None]:
        if self.draining:
            return "draining", None
        preparation = self._stock.find(request.function)
        if preparation is None:
            return "unknown", None
        if preparation.spec.template != request.template or not self._stock.is_ready(request.function):
            return "not-prepared", None
        if len(self._by_instance) >= self._most or not self._has_cpu(preparation.spec.cpu_millis):
            return "no-budget", None
        return "", preparation

    def _has_cpu(self, cpu_millis: int) -> bool:
        return cpu_millis <= self._share.free.cpu_millis

    async def _start(self, run: _Run, caller: Caller) -> StartReply:
        self._stock.starting += 1
        try:
            await self._networks.admit(caller.address)
            return await self._start_one(run)
        except ContainerFault as error:
            self._end(run, "failed")
            return self._refuse("failed", str(error))
        except TimeoutError:
            self._end(run, "too late")
            return self._refuse("too-late")
        finally:
            self._stock.starting -= 1
            self._stock.wake()
            self.changed()

    async def _start_one(self, run: _Run) -> StartReply:
        """Raise ContainerFault or TimeoutError."""
        request, spec = run.request, run.preparation.spec
        limit_s = run.begun_s + min(max(request.budget_s, 0.0), _LONGEST_BUDGET_S)
        container = self._stock.take(request.function)
        origin = container.kind if container is not None else Kind.COLD
        whole = Amount(spec.cpu_millis, spec.memory_bytes)
        if container is None:
            container = await self._stock.make_now(request.function)
        run.container = container
        self._by_instance[container.name] = run
        if container.process.ended.done():
            raise ContainerFault("its process had ended")
        if not self._share.set(container.name, whole) and not await self._make_room(container, whole):
            self._end(run, "no budget")
            return self._refuse("no-budget")
        if origin is Kind.FROZEN:
            self._workshop.thaw(container)
        else:
            await self._workshop.start(container, limit_s)
        now_s = time.monotonic()
        run.deadline_s = now_s + spec.longest_s
        took_s = now_s - run.begun_s
        self.on_started(str(origin), took_s)
        started = Started(
            instance=container.name,
            address=container.network.address,
            port=spec.port,
            origin=str(origin),
            start_s=took_s,
        )
        return StartReply(started=started)

    async def _make_room(self, container: Container, whole: Amount) -> bool:
        """Frozen containers of other functions hold memory that this request needs."""
        if whole.cpu_millis > self._share.free.cpu_millis:
            return False
        self._stock.make_room(whole.memory_bytes)
        limit_s = time.monotonic() + _ROOM_S
        while not self._share.set(container.name, whole):
            if time.monotonic() > limit_s:
                return False
            await asyncio.sleep(0.005)
        return True

    def on_end(self, name: str) -> None:
        """The process of a container ended."""
        run = self._by_instance.get(name)
        if run is None:
            self._stock.on_end(name)
        elif run.answer is not None and run.answer.done():
            self._end(run, "its process ended")
        # else: the start that is going on notices.

    def _end(self, run: _Run, why: str) -> None:
        if run.ended:
            return
        run.ended = why
        self.counts.ended[why] = self.counts.ended.get(why, 0) + 1
        if run.container is not None:
            # Its CPU is free with the kill; its memory when it is gone.
            self._share.set(run.container.name, Amount(memory_bytes=run.preparation.spec.memory_bytes))
            self._run(self._remove(run.container))

    async def _remove(self, container: Container) -> None:
        await self._stock.discard(container)
        self._by_instance.pop(container.name, None)

    def _end_unclaimed(self, run: _Run) -> None:
        if not run.claimed:
            self._end(run, "its caller left")

    def _refuse(self, why: str, error: str = "", retryable: bool = True) -> StartReply:
        self.counts.refused[why] = self.counts.refused.get(why, 0) + 1
        return StartReply(refused=why, error=error[:500], retryable=retryable)

    def _forget_old(self) -> None:
        """Runs in the order of their requests; those that still run stay."""
        if len(self._runs) > _REMEMBERED:
            for key, run in list(self._runs.items())[: len(self._runs) - _REMEMBERED]:
                if run.ended or (run.answer is not None and run.answer.done() and run.container is None):
                    del self._runs[key]

    # --- the life of the agent ---

    async def sweep(self) -> None:
        """End what has lasted too long, or whose placement is gone, until cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            now_s = time.monotonic()
            for run in list(self._by_instance.values()):
                if run.deadline_s and now_s > run.deadline_s:
                    self._end(run, "longest time over")
                elif now_s - self._heard_s.get(run.request.placement, 0.0) > self._lost_after_s:
                    self._end(run, "placement lost")
            alive = {run.request.placement for run in self._by_instance.values()}
            for placement, heard_s in list(self._heard_s.items()):
                if placement not in alive and now_s - heard_s > self._lost_after_s:
                    del self._heard_s[placement]

    async def drain(self, longest_s: float) -> None:
        """Start nothing any more; return when no instance runs, or after this time."""
        self.draining = True
        self.changed()
        limit_s = time.monotonic() + longest_s
        while self._by_instance and time.monotonic() < limit_s:
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        for run in list(self._by_instance.values()):
            self._end(run, "agent stops")
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._stock.stop()

    @property
    def running(self) -> int:
        return len(self._by_instance)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
