"""Instances: one for each request, started from what is ready, gone when the request has ended.

An instance ends when its placement says so or is not heard of any more, when nobody is connected to it,
when its longest time is over, or when its process ends. A Start that is sent twice finds the instance of the
first; one that arrives after the End of its request starts nothing.

What an instance takes of the share is held before anything is done for it, and until it is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass

import structlog

from burst_plane.agent.container import Container, ContainerFault, Workshop
from burst_plane.agent.networks import Networks
from burst_plane.agent.requests import LONGEST_BUDGET_S, Key, Requests, Run, ended
from burst_plane.agent.stock import Stock
from burst_plane.instance.readiness import Kind
from burst_plane.instance.share import Amount, Share
from burst_plane.model import NodeState, Started
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
_UNUSED_S = 5.0  # without a connection: its placement's End was lost, or nobody came
_STATE_EVERY_S, _STATE_AT_MOST_EVERY_S = 1.0, 0.05
_LEADER_S = 60.0  # a leader repeats its order; without it for so long, terms may have begun anew
_ROOM_S = 1.0  # for memory of frozen containers to become free


@dataclass
class Counts:
    """For metrics."""

    refused: dict[str, int]
    ended: dict[str, int]


class Pulselet:
    """All of it belongs to the loop's thread."""

    def __init__(
        self, node: str, workshop: Workshop, stock: Stock, networks: Networks, share: Share, most: int,
        lost_after_s: float, placements: Collection[str],
    ) -> None:  # fmt: skip
        self._node, self._workshop, self._stock, self._networks = node, workshop, stock, networks
        self._share, self._most, self._lost_after_s = share, most, lost_after_s
        self._placements = frozenset(placements)  # names of their certificates
        self._requests = Requests()
        self._by_name: dict[str, Run] = {}  # not gone
        self._heard_s: dict[str, float] = {}  # of placements
        self._order, self._ordered_s = (-1, -1), 0.0
        self._watchers: dict[asyncio.Event, str] = {}  # and the callers' addresses
        self._tasks: set[asyncio.Task[None]] = set()
        self.draining = False
        stock.ended = self.on_end
        self.counts = Counts({}, {})
        self.on_started: Callable[[str, float], None] = lambda _origin, _took_s: None

    # --- what callers ask ---

    async def prepare(self, request: PrepareRequest, _caller: Caller) -> PrepareReply:
        order = (request.term, request.sequence)
        now_s = _now_s()
        if order <= self._order and now_s - self._ordered_s < _LEADER_S:
            return PrepareReply(accepted=False)
        self._order, self._ordered_s = order, now_s
        unique = {each.function: each for each in request.preparations}
        self._stock.order(tuple(unique.values()))
        self.changed()
        return PrepareReply(accepted=True)

    async def start(self, request: StartRequest, _caller: Caller) -> StartReply:
        self._heard_s[request.placement] = _now_s()
        key = (request.placement, request.request)
        if over := self._requests.over(key):
            return over
        run = self._requests.runs.get(key)
        if run is None:
            admitted = self._admit(key, request)
            if isinstance(admitted, str):
                return self._refuse(admitted)
            run = admitted
            run.answer = asyncio.create_task(self._start(run))
        assert run.answer is not None  # noqa: S101  (set before anything is awaited)
        try:
            answer = await asyncio.shield(run.answer)
        except asyncio.CancelledError:
            # The caller left. It may ask again with the same name; if it does not, nobody will end this one.
            asyncio.get_running_loop().call_later(self._lost_after_s, self._end_unclaimed, run)
            raise
        run.claimed = True
        return self._requests.over(key) or answer

    async def end(self, request: EndRequest, _caller: Caller) -> EndReply:
        self._heard_s[request.placement] = _now_s()
        for name in request.instances:
            run = self._by_name.get(name)
            if run is not None and run.key[0] == request.placement:
                self._end(run, "request ended")
        for each in request.requests:
            key = (request.placement, each)
            if run := self._requests.runs.get(key):
                self._end(run, "request ended")
            else:
                self._requests.end(key, ended("request ended", True), _now_s())
        return EndReply()

    async def watch(self, _request: WatchRequest, caller: Caller) -> AsyncGenerator[NodeState, None]:
        changed = asyncio.Event()
        gateway = caller.address if caller.name in self._placements else ""
        self._watchers[changed] = gateway
        try:
            if gateway:  # placements share their address with their HAProxy
                await self._networks.admit(gateway)
            while True:
                changed.clear()
                yield self.state()
                await asyncio.sleep(_STATE_AT_MOST_EVERY_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_STATE_EVERY_S - _STATE_AT_MOST_EVERY_S):
                        await changed.wait()
        finally:
            del self._watchers[changed]
            if gateway:
                asyncio.get_running_loop().call_later(self._lost_after_s, self._dismiss, gateway)

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

    def _dismiss(self, gateway: str) -> None:
        """Its address may soon be somebody else's."""
        if gateway not in self._watchers.values():
            self._run(self._networks.dismiss(gateway))

    # --- one instance ---

    def _admit(self, key: Key, request: StartRequest) -> Run | str:
        """Hold what the instance needs, or say why not. Awaits nothing, so that of many starts at once each
        sees what the one before took."""
        if self.draining:
            return "draining"
        order = self._stock.find(request.function)
        if order is None:
            return "unknown"
        if order.preparation.spec.template != request.template or order.image is None:
            return "not-prepared"
        spec = order.preparation.spec
        if len(self._by_name) >= self._most or spec.cpu_millis > self._share.free.cpu_millis:
            return "no-budget"
        container = self._stock.take(request.function)
        name = container.name if container is not None else self._stock.new_name()
        held = self._share.held(name)
        short = spec.memory_bytes - held.memory_bytes - self._share.free.memory_bytes
        if short > self._stock.frozen_bytes() + self._stock.leaving_bytes:
            if container is not None:
                self._stock.put_back(container)
            return "no-budget"
        memory_bytes = spec.memory_bytes if short <= 0 else held.memory_bytes
        self._share.set(name, Amount(spec.cpu_millis, memory_bytes))
        now_s = _now_s()
        limit_s = now_s + min(max(0.0, request.budget_s), LONGEST_BUDGET_S)  # NaN is 0
        run = Run(key, order, name, container, now_s, limit_s)
        self._requests.runs[key] = self._by_name[name] = run
        return run

    async def _start(self, run: Run) -> StartReply:
        """Never raises: an instance that did not start is ended."""
        self._stock.starting += 1
        why, error = "", ""
        try:
            return StartReply(started=await self._start_one(run))
        except ContainerFault as fault:
            why, error = "failed", run.ended or str(fault)
        except TimeoutError:
            why = "too-late"
        except _NoRoomError:
            why = "no-budget"
        except Exception as fault:  # a fault of ours must not leak an instance
            log.exception("start failed", instance=run.name)
            why, error = "failed", type(fault).__name__
        finally:
            self._stock.starting -= 1
            self._stock.wake()
            self.changed()
        reply = self._refuse(why, error)
        self._end(run, f"start: {why}", reply)
        return reply

    async def _start_one(self, run: Run) -> Started:
        """Raise ContainerFault, TimeoutError or _NoRoomError."""
        spec = run.order.preparation.spec
        whole = Amount(spec.cpu_millis, spec.memory_bytes)
        if self._share.held(run.name) != whole:
            await self._make_room(run, whole)
        origin = run.container.kind if run.container is not None else Kind.COLD
        if run.container is None:
            run.container = await self._stock.make_now(run.name, run.order)
        container = run.container
        self._check(run, container)
        if origin is Kind.FROZEN:
            self._workshop.thaw(container)
        else:
            await self._workshop.start(container, run.limit_s)
        self._check(run, container)
        run.used_s = _now_s()
        run.deadline_s = run.used_s + spec.longest_s
        took_s = run.used_s - run.begun_s
        self.on_started(str(origin), took_s)
        return Started(
            instance=container.name,
            address=container.network.address,
            port=spec.port,
            origin=str(origin),
            start_s=took_s,
        )

    def _check(self, run: Run, container: Container) -> None:
        """Raise ContainerFault if it has ended while something was awaited."""
        if run.ended:
            raise ContainerFault(run.ended)
        if container.process.ended.done():
            raise ContainerFault(f"its process ended with code {container.process.ended.result()}")

    async def _make_room(self, run: Run, whole: Amount) -> None:
        """Frozen containers hold memory that this request needs. Raise _NoRoomError."""
        self._stock.make_room(whole.memory_bytes - self._share.held(run.name).memory_bytes)
        limit_s = min(_now_s() + _ROOM_S, run.limit_s)
        while not self._share.set(run.name, whole):
            if run.ended or _now_s() > limit_s:
                raise _NoRoomError
            await asyncio.sleep(0.005)

    def on_end(self, name: str) -> None:
        """The process of a container ended."""
        run = self._by_name.get(name)
        if run is None:
            self._stock.on_end(name)
        elif run.answer is not None and run.answer.done():
            self._end(run, "its process ended")
        # else: the start that is going on notices.

    def _end(self, run: Run, why: str, reply: StartReply | None = None) -> None:
        if run.ended:
            return
        run.ended = why
        self.counts.ended[why] = self.counts.ended.get(why, 0) + 1
        self._requests.end(run.key, reply or ended(why, not run.claimed), _now_s())
        if run.container is not None:
            run.container.process.kill()
        # Its CPU is free with the kill; its memory when it is gone.
        self._share.set(run.name, Amount(memory_bytes=self._share.held(run.name).memory_bytes))
        self._run(self._remove(run))

    async def _remove(self, run: Run) -> None:
        if run.answer is not None:
            await asyncio.wait([run.answer])  # it may be making the container
        if run.container is not None:
            await self._stock.discard(run.container)
        else:
            self._share.give_back(run.name)
        del self._by_name[run.name]

    def _end_unclaimed(self, run: Run) -> None:
        if not run.claimed:
            self._end(run, "its caller left")

    def _refuse(self, why: str, error: str = "", retryable: bool = True) -> StartReply:
        self.counts.refused[why] = self.counts.refused.get(why, 0) + 1
        return StartReply(refused=why, error=error[:500], retryable=retryable)

    # --- the life of the agent ---

    async def sweep(self) -> None:
        """End what has lasted too long, or whose placement is gone, until cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            now_s = _now_s()
            for run in list(self._requests.runs.values()):
                if why := self._overdue(run, now_s):
                    self._end(run, why)
            alive = {run.key[0] for run in self._by_name.values()}
            for placement, heard_s in list(self._heard_s.items()):
                if placement not in alive and now_s - heard_s > self._lost_after_s:
                    del self._heard_s[placement]

    def _overdue(self, run: Run, now_s: float) -> str:
        if now_s - self._heard_s.get(run.key[0], 0.0) > self._lost_after_s:
            return "placement lost"
        if not run.deadline_s or run.container is None:  # it starts
            return ""
        if now_s > run.deadline_s:
            return "longest time over"
        if now_s - run.used_s > _UNUSED_S / 2:  # looked at seldom: it costs
            if self._workshop.connected(run.container):
                run.used_s = now_s
            elif now_s - run.used_s > _UNUSED_S:
                return "nobody connected"
        return ""

    async def drain(self, longest_s: float) -> None:
        """Start nothing any more; return when no instance runs, or after this time."""
        self.draining = True
        self.changed()
        limit_s = _now_s() + longest_s
        while self._by_name and _now_s() < limit_s:
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        self.draining = True
        for run in list(self._requests.runs.values()):
            self._end(run, "agent stops")
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._stock.stop()

    @property
    def running(self) -> int:
        return len(self._by_name)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _NoRoomError(Exception):
    """Memory did not become free in time."""


def _now_s() -> float:
    return asyncio.get_running_loop().time()
