"""The leader hears placements, tells them who may overflow, and tells agents what to prepare.

gRPC runs in its own thread with an asyncio loop. `lock` guards the accounts, which the reconciler's thread
reads and scales by.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

import msgspec
import structlog

from burst_plane.burst_function import BurstFunction
from burst_plane.knative.route import Route
from burst_plane.knative.statistics import Excess
from burst_plane.link import AgentLinks
from burst_plane.model import Function, Preparation
from burst_plane.traffic import Account, excess_of
from burst_plane.wire.messages import AgentAddress, Directory, Listed, TrafficReport
from surgekit.wire.messages import MessageError
from surgekit.wire.server import Caller, Unavailable

__all__ = ["LeaderSession", "Placements"]

log = structlog.get_logger(__name__)

_TICK_S = 1.0
_MOST_REPORTED = 20_000  # functions in one report
_MOST_PLACEMENTS = 1_000


class Placements:
    """The service Director: attached placements, of whichever session leads. Its methods run in the loop."""

    def __init__(self, session: Callable[[], LeaderSession | None]) -> None:
        self._session = session
        self.attached: set[asyncio.Queue[Directory | None]] = set()
        self.reports_total = 0

    async def attach(self, reports: AsyncIterator[TrafficReport], caller: Caller) -> AsyncIterator[Directory]:
        session = self._session()
        if session is None:
            raise Unavailable("not the leader")
        if len(self.attached) >= _MOST_PLACEMENTS:
            raise Unavailable("too many placements")
        changes: asyncio.Queue[Directory | None] = asyncio.Queue()
        self.attached.add(changes)
        session.placements_changed()
        changes.put_nowait(session.directory)
        reader = asyncio.create_task(self._read(session, reports, changes, caller))
        try:
            while (directory := await changes.get()) is not None:
                while not changes.empty():  # the latest is enough
                    directory = changes.get_nowait() or directory
                yield directory
        finally:
            reader.cancel()
            self.attached.discard(changes)
            session.placements_changed()
        raise Unavailable("the stream ended")

    async def _read(
        self,
        session: LeaderSession,
        reports: AsyncIterator[TrafficReport],
        changes: asyncio.Queue[Directory | None],
        caller: Caller,
    ) -> None:
        name = ""
        try:
            async for report in reports:
                self.reports_total += 1
                name = name or report.placement
                if report.placement != name:
                    raise MessageError("a stream is one placement's")
                session.take(report)
        except MessageError as error:
            log.warning("report refused", address=caller.address, error=str(error))
        finally:
            changes.put_nowait(None)


class LeaderSession:
    """From taking the Lease to losing it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        placements: Placements,
        term: int,
        links: AgentLinks,
        *,
        most_in_namespace: int,
        on_stop: Callable[[], None],
        say: Callable[[Sequence[Excess]], None] = lambda _: None,
    ) -> None:
        """`say` tells Knative's autoscaler of each second's excess traffic."""
        self.lock = threading.Lock()
        self.accounts: dict[Function, Account] = {}
        self.links, self.term = links, term
        self._loop, self._placements, self._on_stop = loop, placements, on_stop
        self._say = say
        self._revisions: Mapping[Function, Route] = {}
        self.directory = Directory(term=term, sequence=1, most_in_namespace=most_in_namespace)
        self._next_s = 0.0

    # --- the shell's loop: ticks ---

    def step(self) -> float:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            # Without drift: a second without a tick is one of no traffic in Knative's window.
            self._next_s = max(self._next_s + _TICK_S, now_s)
            with self.lock:
                for account in self.accounts.values():
                    account.tick(now_s)
                excess = [
                    excess_of(route, self.accounts[function], now_s)
                    for function, route in self._revisions.items()
                    if function in self.accounts
                ]
            self._say(excess)
        return max(self._next_s - time.monotonic(), 0.01)

    def stop(self) -> None:
        self._on_stop()
        self.links.stop()
        self._loop.call_soon_threadsafe(self._end_all)

    # --- the reconciler's thread ---

    def follow(self, functions: Iterable[BurstFunction], restore: Callable[[Account], None]) -> None:
        """Keep one account for each function; `restore` gives a new one its history."""
        with self.lock:
            wanted = {function.function: function for function in functions}
            for gone in self.accounts.keys() - wanted.keys():
                del self.accounts[gone]
            for name, function in wanted.items():
                if name in self.accounts:
                    self.accounts[name].follow(function)
                else:
                    self.accounts[name] = account = Account(function)
                    restore(account)

    def tell_knative_of(self, revisions: Mapping[Function, Route]) -> None:
        """Of the excess traffic of these functions; each has a revision."""
        with self.lock:
            self._revisions = dict(revisions)

    def weigh(self, memory_bytes: Mapping[Function, int]) -> None:
        """What an instance of these functions takes."""
        with self.lock:
            for function, amount in memory_bytes.items():
                if account := self.accounts.get(function):
                    account.weigh(amount)

    def announce(
        self,
        functions: tuple[Listed, ...],
        agents: tuple[AgentAddress, ...],
        every_agent: tuple[AgentAddress, ...],
        prepared: Mapping[str, tuple[Preparation, ...]],
    ) -> None:
        """Tell placements and agents what holds now. Instances may be started at `agents`."""
        self.links.follow(every_agent)
        self.links.prepare(prepared)
        self._loop.call_soon_threadsafe(self._announce, functions, agents)

    # --- gRPC's loop ---

    def take(self, report: TrafficReport) -> None:
        """Raise MessageError. Functions that have no BurstFunction are left out."""
        if len(report.functions) > _MOST_REPORTED:
            raise MessageError(f"{len(report.functions)} functions; at most {_MOST_REPORTED} are read")
        for seen in report.functions:
            counted = (seen.arrivals, seen.started, seen.hits, seen.refused, seen.failed)
            amounts = (seen.in_regular, seen.queued, seen.in_emergency)
            if not all(0 <= n < 1 << 32 for n in counted) or not all(0 <= n < 1e9 for n in amounts):
                raise MessageError("a number is out of range")
        now_s = time.monotonic()
        with self.lock:
            for seen in report.functions:
                if account := self.accounts.get(seen.function):
                    account.take(report.placement[:100], seen, now_s)

    def placements_changed(self) -> None:
        self._announce(self.directory.functions, self.directory.agents)

    def _announce(self, functions: tuple[Listed, ...], agents: tuple[AgentAddress, ...]) -> None:
        count = max(len(self._placements.attached), 1)
        before = self.directory
        if (functions, agents, count) == (before.functions, before.agents, before.placements):
            return
        self.directory = msgspec.structs.replace(
            before, sequence=before.sequence + 1, functions=functions, agents=agents, placements=count
        )
        for queue in self._placements.attached:
            queue.put_nowait(self.directory)

    def _end_all(self) -> None:
        for queue in self._placements.attached:
            queue.put_nowait(None)
