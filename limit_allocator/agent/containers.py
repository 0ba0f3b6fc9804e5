"""The containers that the agent looks after: found, read, given back.

A tick reads two files of each; inotify tells where to look for more (`limit_allocator.cgroups.changes`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

import structlog

from limit_allocator.agent.container import Held, amended
from limit_allocator.agent.discovery import DIRECTORIES, Discovery
from limit_allocator.agent.limits import LimitWriter
from limit_allocator.cgroups.changes import Changes
from limit_allocator.cgroups.container import Container, Gone, Limits, Refused, Result, high_for
from limit_allocator.cgroups.layout import ContainerCgroup
from limit_allocator.cgroups.originals import Originals
from limit_allocator.wire.messages import Pod

__all__ = ["Containers", "Counts"]

log = structlog.get_logger(__name__)

# Reading memory without page cache costs three times as much as everything else of a container: each is
# read in every tenth tick, and in every tick while it is near its limit.
_MEMORY_EVERY = 10
_LIMITS_EVERY = 20  # ticks between two looks for foreign writes that nobody told of
_AGAIN_S = 1.0  # between two tries to write back what the kernel refused


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


class Containers:
    def __init__(self, originals: Originals, limits: LimitWriter) -> None:
        self.counts = Counts()
        self.held: dict[int, Held] = {}
        self._originals, self._limits, self._outbox = originals, limits, limits.outbox
        self._changes = Changes()
        self._changed: frozenset[object] | None = None
        self._discovery = Discovery(originals.hierarchy, originals, self._changes)
        self._pods: dict[str, Pod] = {}
        self._by_path: dict[str, Held] = {}
        self._keys = count(1)
        self._ticks = 0
        self._refused_back: list[Container] = []  # not ours any more, but not as they were
        self._refused_back_due_s = -math.inf
        self._note_written_back(originals.write_back_all().values())

    def of(self, cgroup: ContainerCgroup) -> Held | None:
        return self._by_path.get(cgroup.path)

    def tick(self, now_s: float) -> None:
        """Read all, find new ones, and try again to give back."""
        self._ticks += 1
        self._changed = self._changes.take()
        for held in list(self.held.values()):
            self.guarded(held, self._read)
        appeared = self._changed is None or DIRECTORIES in self._changed
        for pod, container, limits in self._discovery.look(self._pods, self._by_path.keys(), now_s, appeared):
            self._open(pod, container, limits)
        self._write_back_again(now_s)

    def take_pods(self, pods: Iterable[Pod]) -> None:
        """All pods of the node that opted in. What else we hold gets its own limits back."""
        self._pods = {pod.uid: pod for pod in pods}
        for held in list(self.held.values()):
            pod = self._pods.get(held.pod.uid)
            if pod is None or (pod.enforce, pod.application) != (held.pod.enforce, held.pod.application):
                self._release(held)  # if it is to be held in another way, the next tick finds it
                continue
            held.pod = pod
            held.container.burst = pod.burst  # from the next quota on
            self._set_ceiling(held)

    def stop(self) -> None:
        """Write all originals back, and close everything."""
        for held in list(self.held.values()):
            self._release(held)
        for container in self._refused_back:  # the next agent tries again
            container.close()
        self._refused_back.clear()
        self._changes.close()

    def guarded(self, held: Held, act: Callable[[Held], bool]) -> bool:
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
        self.vanished(held)
        return False

    def _read(self, held: Held) -> bool:
        container = held.container
        use = container.cpu_use()
        if isinstance(use, Gone):
            return False
        used_us, periods, throttled, throttled_us = use
        turn = self._ticks + held.key
        look = self._changed is None or held.key in self._changed or turn % _LIMITS_EVERY == 0
        if look and not self._limits.correct(held):
            return False
        quota_us = container.wanted_quota_us or held.quota_us
        self._outbox.cpu_rows.append((held.key, periods, used_us, throttled, throttled_us, quota_us))
        return self.read_memory(held) if held.near or turn % _MEMORY_EVERY == 0 else True

    def read_memory(self, held: Held) -> bool:
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
        return self._limits.fit(held)  # the kernel may have refused to before

    def _open(self, pod: Pod, container: Container, limits: Limits) -> None:
        held = Held(next(self._keys), pod, container, limits.quota_us or 0, limits.memory_bytes or 0)
        held.near = True  # read its memory now
        container.burst = pod.burst
        self.held[held.key] = self._by_path[held.cgroup.path] = held
        if pod.enforce:
            for account in (self._outbox.cpu, self._outbox.memory):
                account.open(held.name, pod.application, None)
            held.watches = tuple(self._changes.watch_file(f, held.key) for f in container.limit_files())
        self._set_ceiling(held)
        self.guarded(held, self._read)
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
            self.guarded(held, self._limits.fit)

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

    def vanished(self, held: Held) -> None:
        self._discovery.forget(held.cgroup)
        self._close(held)
        if held.enforced:
            self._originals.drop(held.cgroup)
        held.container.close()

    def _close(self, held: Held) -> None:
        self._limits.events.forget(held.cgroup)
        for watch in held.watches:
            self._changes.forget(watch)
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
