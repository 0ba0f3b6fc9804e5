"""The agent's work, without its process and its connection: one tick, one wait, and what orders do.

One thread. A tick reads every container, corrects what others wrote, and finds what is new. Between ticks the
agent waits for memory events and orders, and answers both at once: an event raises the limit out of the
reserve that was granted ahead (`NodeAccount.grow`), so it needs no controller.
"""

from __future__ import annotations

import math
import select
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

import structlog

from limit_allocator.agent.container import Held, amended
from limit_allocator.agent.discovery import Discovery
from limit_allocator.agent.limits import LimitWriter
from limit_allocator.agent.node_memory import NodeMemory
from limit_allocator.agent.outbox import Outbox
from limit_allocator.agent.starts import Starts
from limit_allocator.allocation.node_account import Command, NodeAccount
from limit_allocator.cgroups.container import (
    Container,
    Cpu,
    EventKind,
    Gone,
    Limits,
    Memory,
    Refused,
    Result,
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
    Pod,
    Report,
    table,
)  # fmt: skip

__all__ = ["Counts", "Inbox", "NodeAgent"]

log = structlog.get_logger(__name__)

# Reading memory without page cache costs three times as much as everything else of a container: each is
# read in every fifth tick, and in every tick while it is near its limit.
_MEMORY_EVERY = 5
_PAUSED_LOOK_S = 0.02  # while a container waits for memory (`MemoryEvents.collect` notices a small raise)
_SETTLE_S = 0.03  # the time that moving one early warning may take (`MemoryEvents.settle`)
_AGAIN_S = 1.0  # between two tries to write back what the kernel refused


class Inbox(Protocol):
    """Where orders arrive."""

    def fileno(self) -> int:
        """Readable when there are orders."""

    def take(self) -> Sequence[Orders]: ...


@dataclass(slots=True)
class Counts:
    """Since the agent's start."""

    memory_events: int = 0
    released: int = 0  # containers that waited too long for memory
    oom_kills: int = 0
    void_orders: int = 0
    unreadable_orders: int = 0
    unreadable_containers: int = 0
    written_back: Counter[str] = field(default_factory=Counter)  # by result


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
        self.counts, self.node = Counts(), node
        self.held: dict[int, Held] = {}
        self._originals, self._starts, self._inbox, self._room = originals, starts, inbox, node_memory
        self._version = originals.hierarchy.version
        self._discovery = Discovery(originals.hierarchy, originals)
        self._events = MemoryEvents(longest_pause_s)
        cpu, memory = (NodeAccount(starts.start, starts.term) for _ in range(2))
        self._outbox = Outbox(cpu, memory)
        self.limits = LimitWriter(self._outbox, self._events)
        self._pods: dict[str, Pod] = {}
        self._by_path: dict[str, Held] = {}
        self._keys = count(1)
        self._ticks = 0
        self._streaming = False
        self._refused_back: list[Container] = []  # not ours any more, but not as they were
        self._refused_back_due_s = -math.inf
        self._epoll = select.epoll()
        for file in (self._events.fileno(), inbox.fileno()):
            self._epoll.register(file, select.EPOLLIN)
        self._note_written_back(originals.write_back_all().values())

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
        self._take_pods(())

    # Life

    def step(self, now_s: float) -> Report | None:
        """One tick; what to report, if there is a stream."""
        self._ticks += 1
        self._outbox.cpu_rows.clear()  # there are some if the last tick failed
        self._handle(self._events.collect(now_s))
        for held in list(self.held.values()):
            self._guarded(held, self._read)
        for pod, container, limits in self._discovery.look(self._pods, self._by_path.keys(), now_s):
            self._open(pod, container, limits)
        self._write_back_again(now_s)
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
        for held in list(self.held.values()):
            self._release(held)
        for container in self._refused_back:  # the next agent tries again
            container.close()
        self._refused_back.clear()
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
            self._take_pods(orders.pods)
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
            self._guarded(held, self.limits.grow)

    def _each_enforced(self, key: int, act: Callable[[Held], bool]) -> None:
        held = self.held.get(key)
        if held is not None and held.enforced:
            self._guarded(held, act)

    def _take_pods(self, pods: Iterable[Pod]) -> None:
        """All pods of the node that opted in. What else we hold gets its own limits back."""
        self._pods = {pod.uid: pod for pod in pods}
        for held in list(self.held.values()):
            pod = self._pods.get(held.pod.uid)
            if pod is None or (pod.enforce, pod.application) != (held.pod.enforce, held.pod.application):
                self._release(held)  # if it is to be held in another way, the next tick finds it
                continue
            held.pod = pod
            self._set_ceiling(held)

    # Containers come and go

    def _open(self, pod: Pod, container: Container, limits: Limits) -> None:
        held = Held(next(self._keys), pod, container, limits.quota_us or 0, limits.memory_bytes or 0)
        held.near = True  # read its memory now
        self.held[held.key] = self._by_path[held.cgroup.path] = held
        if pod.enforce:
            for account in (self._outbox.cpu, self._outbox.memory):
                account.open(held.name, pod.application, None)
        self._set_ceiling(held)
        self._guarded(held, self._read)
        if held.key in self.held:
            self._outbox.opened(held)

    def _set_ceiling(self, held: Held) -> None:
        """The pod's spec may say other limits than the cgroup had when it was found: a resize."""
        quota_us, memory_bytes = held.ceiling_in(held.pod)
        if (quota_us, memory_bytes) == (held.quota_us, held.memory_bytes):
            return
        held.quota_us, held.memory_bytes = quota_us, memory_bytes
        original = held.container.original
        if held.enforced and original is not None:
            try:
                self._originals.amend(held.container, amended(original, quota_us, memory_bytes))
            except OSError as error:
                log.warning("journal not written", container=held.cgroup.container_id, error=str(error))
            self._guarded(held, self.limits.fit)

    def _release(self, held: Held) -> None:
        """The pod opted out, or the agent stops: leave the container as it was."""
        self._close(held)
        result = self._originals.write_back(held.container) if held.enforced else None
        if result:
            self._note_written_back([result])
        if isinstance(result, Refused):
            self._refused_back.append(held.container)
        else:
            held.container.close()

    def _vanished(self, held: Held) -> None:
        self._discovery.forget(held.cgroup)
        self._close(held)
        if held.enforced:
            self._originals.drop(held.cgroup)
        held.container.close()

    def _close(self, held: Held) -> None:
        self._events.forget(held.cgroup)
        del self.held[held.key], self._by_path[held.cgroup.path]
        self._outbox.closed(held)
        if held.enforced:
            self._outbox.cpu.close(held.name)
            self._outbox.memory.close(held.name)

    def _write_back_again(self, now_s: float) -> None:
        if not self._refused_back or now_s < self._refused_back_due_s:
            return
        self._refused_back_due_s = now_s + _AGAIN_S
        refused, self._refused_back = self._refused_back, []
        for container in refused:
            opted_in_again = container.cgroup.path in self._by_path
            if not opted_in_again and isinstance(self._originals.write_back(container), Refused):
                self._refused_back.append(container)
            else:
                container.close()

    def _note_written_back(self, results: Iterable[Result]) -> None:
        self.counts.written_back.update(type(result).__name__.lower() for result in results)

    # Readings

    def _guarded(self, held: Held, act: Callable[[Held], bool]) -> bool:
        """Act on one container, whose trouble does not keep the others from their turn.

        `act` says whether the container is still there. Returns whether it is, and nothing failed.
        """
        try:
            if act(held):
                return True
        except OSError as error:
            self.counts.unreadable_containers += 1
            log.warning("container not readable", container=held.cgroup.container_id, error=str(error))
            return False
        self._vanished(held)
        return False

    def _read(self, held: Held) -> bool:
        container = held.container
        cpu = container.cpu()
        if not isinstance(cpu, Cpu):
            return False
        if container.wanted_quota_us is not None or container.wanted_memory_bytes is not None:
            memory = container.memory()
            if not isinstance(memory, Memory):
                return False
            self.limits.correct(held, cpu, memory)
        quota_us = container.wanted_quota_us or cpu.quota_us or held.quota_us
        self._outbox.cpu_rows.append(
            (held.key, cpu.nr_periods, cpu.used_us, cpu.nr_throttled, cpu.throttled_us, quota_us)
        )
        if held.near or (self._ticks + held.key) % _MEMORY_EVERY == 0:
            return self._read_memory(held)
        return True

    def _read_memory(self, held: Held) -> bool:
        container = held.container
        used, kills = container.memory_without_cache(), container.oom_kills()
        if isinstance(used, Gone) or isinstance(kills, Gone):
            return False
        if held.oom_kills is not None:  # else it is read for the first time
            self.counts.oom_kills += max(kills - held.oom_kills, 0)
        held.used_bytes, held.oom_kills = used, kills
        self._outbox.memory_read[held.key] = held
        limit_bytes = container.wanted_memory_bytes
        held.near = limit_bytes is not None and used > high_for(limit_bytes)
        held.hungry &= held.near
        if held.hungry:
            held.stuck_at_bytes = limit_bytes or 0
        return self.limits.fit(held)  # the kernel may have refused to before

    # Memory events

    def _handle(self, events: Iterable[MemoryEvent]) -> None:
        for event in events:
            held = self._by_path.get(event.cgroup.path)
            if held is None:
                continue
            if event.kind is EventKind.GONE:
                self._vanished(held)
            elif event.kind is EventKind.NEEDS_MEMORY:
                self._needs_memory(held)
            elif event.kind is EventKind.RELEASED:
                held.hungry = False
                self.counts.released += 1
                log.warning("container waited too long for memory", container=held.cgroup.container_id)

    def _needs_memory(self, held: Held) -> None:
        """Page cache that the kernel can drop is no need. v1 has tried to drop it before a process waits."""
        limit_bytes = held.container.wanted_memory_bytes
        if limit_bytes is None or not self._guarded(held, self._read_memory):
            return
        paused = self._version == 1 and held.container.paused() is True
        if not paused and held.used_bytes <= 2 * high_for(limit_bytes) - limit_bytes:
            return
        held.events += 1
        self.counts.memory_events += 1
        held.stuck_at_bytes = limit_bytes
        self._guarded(held, self.limits.grow)

    def _report(self, now_s: float) -> Report | None:
        if not self._streaming:
            self._outbox.clear()
            return None
        return self._outbox.take(int(now_s * 1e6), self._room.room_bytes(now_s), self.limits.foreign_writes)
