"""The agent's work, without its process and its connection: one tick, one wait, and what orders do.

One thread. A tick reads every container, corrects what others wrote, and finds what is new. Between ticks the
agent waits for memory events and orders, and answers both at once: an event raises the limit out of the
reserve that was granted ahead (`NodeAccount.grow`), so it needs no controller.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import structlog

from limit_allocator.agent.container import Held
from limit_allocator.agent.containers import Containers
from limit_allocator.agent.limits import LimitWriter
from limit_allocator.agent.node_memory import NodeMemory
from limit_allocator.agent.outbox import Outbox
from limit_allocator.agent.starts import Starts
from limit_allocator.allocation.node_account import Command, NodeAccount
from limit_allocator.cgroups.container import (
    EventKind,
    high_for,
)  # fmt: skip
from limit_allocator.cgroups.memory_events import MemoryEvent, MemoryEvents
from limit_allocator.cgroups.originals import Originals
from limit_allocator.wire.messages import (
    CPU_ORDER_ROWS,
    MEMORY_ORDER_ROWS,
    Hello,
    MessageError,
    Orders,
    Report,
    table,
)  # fmt: skip

__all__ = ["Inbox", "NodeAgent"]

log = structlog.get_logger(__name__)

_PAUSED_LOOK_S = 0.02  # while a container waits for memory (`MemoryEvents.collect` notices a small raise)
_SETTLE_S = 0.03  # the time that moving one early warning may take (`MemoryEvents.settle`)


class Inbox(Protocol):
    """Where orders arrive."""

    def fileno(self) -> int:
        """Readable when there are orders."""

    def take(self) -> Sequence[Orders]: ...


class NodeAgent:
    """Hold the journal's lock (`guard.hold`) as long as this lives."""

    def __init__(
        self,
        node: str,
        originals: Originals,
        starts: Starts,
        inbox: Inbox,
        node_memory: NodeMemory,
        longest_pause_s: float = 2.0,
    ) -> None:
        self.node = node
        self._starts, self._inbox, self._room = starts, inbox, node_memory
        self._version = originals.hierarchy.version
        self._events = MemoryEvents(longest_pause_s)
        cpu, memory = (NodeAccount(starts.start, starts.term) for _ in range(2))
        self._outbox = Outbox(cpu, memory)
        self.limits = LimitWriter(self._outbox, self._events)
        self._containers = Containers(originals, self.limits)
        self.held, self.counts = self._containers.held, self._containers.counts
        self._streaming = False
        self._epoll = select.epoll()
        for file in (self._events.fileno(), inbox.fileno()):
            self._epoll.register(file, select.EPOLLIN)

    # The stream

    def hello(self) -> Hello:
        """The first message on a stream."""
        starts = self._starts
        return Hello(node=self.node, boot_id=starts.boot_id, start=starts.start, term=starts.term)

    def begin_stream(self) -> None:
        """The controller, perhaps another one, knows nothing: send everything again."""
        self._streaming = True
        self._outbox.all_again(self.held.values())

    def end_stream(self) -> None:
        """Limits stay, and memory still grows out of the reserve."""
        self._streaming = False
        self._outbox.clear()

    def give_up(self) -> None:
        """There was no controller for too long: limits are as in the pods' specs until one lists the pods."""
        self._containers.take_pods(())

    # Life

    def step(self, now_s: float) -> Report | None:
        """One tick; what to report, if there is a stream."""
        self._outbox.cpu_rows.clear()  # there are some if the last tick failed
        self._handle(self._events.collect(now_s))
        self._containers.tick(now_s)
        return self._report(now_s)

    def wait(self, until_s: float) -> Report | None:
        """Wait for memory events and orders, and do what they want. Returns early with what that changed."""
        now_s = time.monotonic()
        if until_s - now_s > _SETTLE_S:
            self._events.settle()
        while True:
            due_s = until_s
            if paused := self._events.next_deadline_s() < math.inf:
                due_s = min(until_s, self._events.next_deadline_s(), now_s + _PAUSED_LOOK_S)
            ready = {file for file, _ in self._epoll.poll(max(due_s - time.monotonic(), 0.0))}
            now_s = time.monotonic()
            if self._inbox.fileno() in ready:
                for orders in self._inbox.take():
                    self.obey(orders)
            if paused or self._events.fileno() in ready:
                self._handle(self._events.collect(now_s))
            if self._streaming and self._outbox.urgent:
                return self._report(now_s)
            if now_s >= until_s:
                return None

    def stop(self) -> None:
        """Write all originals back, and close everything."""
        self._containers.stop()
        self._events.close()
        self._epoll.close()

    # Orders

    def obey(self, orders: Orders) -> None:
        """Carry out what is new. Orders of an earlier term, or for another start of this agent, are void."""
        starts = self._starts
        if orders.start != starts.start or orders.term < starts.term:
            self.counts.void_orders += 1
            return
        try:
            cpu = table(orders.cpu, CPU_ORDER_ROWS).T.tolist()
            memory = table(orders.memory, MEMORY_ORDER_ROWS).T.tolist()
        except MessageError as error:
            self.counts.unreadable_orders += 1
            log.warning("orders not readable", error=str(error))
            return
        starts.greet(orders.term)
        for account in (self._outbox.cpu, self._outbox.memory):
            account.greet(orders.term)
        if orders.pods is not None:
            self._containers.take_pods(orders.pods)
        for key, sequence, quota_us in cpu:
            command = Command(str(key), starts.start, sequence, quota_us)
            self._each_enforced(key, partial(self.limits.obey_cpu, command=command))
        for reserve in orders.reserves:
            command = Command(reserve.application, starts.start, reserve.sequence, reserve.value_bytes)
            self._outbox.memory.set_reserve(reserve.application, command)
            self._outbox.reserve_changed(reserve.application)
        for key, sequence, limit_bytes, grown_seen in memory:
            command = Command(str(key), starts.start, sequence, limit_bytes, grown_seen)
            self._each_enforced(key, partial(self.limits.obey_memory, command=command))
        for held in [held for held in self.held.values() if held.hungry]:
            self._containers.guarded(held, self.limits.grow)

    def _each_enforced(self, key: int, act: Callable[[Held], bool]) -> None:
        held = self.held.get(key)
        if held is not None and held.enforced:
            self._containers.guarded(held, act)

    # Memory events

    def _handle(self, events: Iterable[MemoryEvent]) -> None:
        for event in events:
            held = self._containers.of(event.cgroup)
            if held is None:
                continue
            if event.kind is EventKind.GONE:
                self._containers.vanished(held)
            elif event.kind is EventKind.NEEDS_MEMORY:
                self._needs_memory(held)
            elif event.kind is EventKind.RELEASED:
                held.hungry = False
                self.counts.released += 1
                log.warning("container waited too long for memory", container=held.cgroup.container_id)

    def _needs_memory(self, held: Held) -> None:
        """Page cache that the kernel can drop is no need. v1 has tried to drop it before a process waits."""
        limit_bytes = held.container.wanted_memory_bytes
        if limit_bytes is None or not self._containers.guarded(held, self._containers.read_memory):
            return
        paused = self._version == 1 and held.container.paused() is True
        if not paused and held.used_bytes <= 2 * high_for(limit_bytes) - limit_bytes:
            return
        held.events += 1
        self.counts.memory_events += 1
        held.stuck_at_bytes = limit_bytes
        self._containers.guarded(held, self.limits.grow)

    def _report(self, now_s: float) -> Report | None:
        if not self._streaming:
            self._outbox.clear()
            return None
        return self._outbox.take(int(now_s * 1e6), self._room.room_bytes(now_s), self.limits.foreign_writes)
