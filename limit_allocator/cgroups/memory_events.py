"""Wait for containers that need memory: one epoll for all of them, no thread, no callback.

A watched container is armed: at its limit its processes wait (v1) or are slowed down (v2) until the limit is
raised, which the caller does when it gets the event. None waits for longer than `longest_pause_s`: then it
is disarmed and the kernel decides, until its limit changes.

What cannot be saved, with a headroom H (`container.high_for`, here 4 MiB):
- v2: n threads that grow at once, if n * 256 KiB > H and the agent is late. Each is charged 64 pages before
  the kernel stops it. Kills in 4 runs each in the guest (2 cores, emulated), 128 MiB of growth: 8 threads 0
  with a reaction of 0, 50 and 200 ms; 32 threads 0 with 0 ms, 4 with 50 ms, 4 with 200 ms.
- v2: time. A slowed process sleeps for up to 2 s at a time, and raising the limit does not wake it. Growth
  by 132 MiB took 7 s with MAP_POPULATE, 0.8 s with memset (one run each in the guest), without a kill.
- v1: a system call that touches more new memory than H within one reaction of the agent gets EFAULT. read(2)
  at 1.2 GiB/s: 18 of 20 processes; when the machine was busier and slower, 2 of 6.
"""

from __future__ import annotations

import math
import select
from contextlib import suppress
from dataclasses import dataclass

from limit_allocator.cgroups.container import GONE, WRITTEN, Container, EventKind, Result
from limit_allocator.cgroups.layout import ContainerCgroup

__all__ = ["MemoryEvent", "MemoryEvents"]

_REMIND_S = 0.02  # a raised limit wakes processes within about 10 ms
# Between two containers that waited too long: what one that is killed gave back may be enough for the others.
_BETWEEN_RELEASES_S = 0.25


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    cgroup: ContainerCgroup
    kind: EventKind


@dataclass(slots=True)
class _Watched:
    container: Container
    files: tuple[int, ...]
    paused_s: float = math.inf  # since when it waits at this limit
    limit_bytes: int | None = None  # while it waits, or when it was disarmed


class MemoryEvents:
    def __init__(self, longest_pause_s: float = 2.0) -> None:
        self._longest_pause_s = longest_pause_s
        self._epoll = select.epoll()
        self._watched: dict[ContainerCgroup, _Watched] = {}
        self._by_file: dict[int, _Watched] = {}
        self._waiting: set[ContainerCgroup] = set()
        self._disarmed: set[ContainerCgroup] = set()
        self._released_s = -math.inf  # the last one

    def fileno(self) -> int:
        """Readable when there are events: the agent's own loop can wait on it."""
        return self._epoll.fileno()

    def close(self) -> None:
        for cgroup in list(self._watched):
            self.forget(cgroup)
        self._epoll.close()

    def watch(self, container: Container) -> Result:
        """Arm a container and wait for its events. It must stay open until it is forgotten."""
        files = container.event_files()  # first, so that no event is missed
        result = container.arm()
        if result == WRITTEN and container.cgroup not in self._watched:
            watched = _Watched(container, tuple(file for file, _ in files))
            self._watched[container.cgroup] = watched
            for file, mask in files:
                self._by_file[file] = watched
                self._epoll.register(file, mask)
        return result

    def forget(self, cgroup: ContainerCgroup) -> None:
        """Stop waiting. The container stays armed until it is written back or disarmed."""
        watched = self._watched.pop(cgroup, None)
        for file in watched.files if watched else ():
            del self._by_file[file]
            with suppress(OSError):  # closed before: then epoll has dropped it
                self._epoll.unregister(file)
        self._waiting.discard(cgroup)
        self._disarmed.discard(cgroup)

    def wait(self, timeout_s: float) -> bool:
        """Whether there are events, or processes that have waited for too long."""
        return bool(self._epoll.poll(timeout_s, 1))

    def settle(self) -> bool:
        """v1: move one early warning to its container's present limit, if there is one to move.

        Call it when there is time: the kernel makes the caller wait for a grace period of RCU.
        """
        moved = next((cgroup for cgroup in self._watched if self._watched[cgroup].container.settle()), None)
        if moved is not None:  # next time, begin with others
            self._watched[moved] = self._watched.pop(moved)
        return moved is not None

    def next_deadline_s(self) -> float:
        """When `collect` is due, events or not; infinity if nothing waits."""
        since_s = min((self._watched[cgroup].paused_s for cgroup in self._waiting), default=math.inf)
        return max(since_s + self._longest_pause_s, self._released_s + _BETWEEN_RELEASES_S)

    def collect(self, now_s: float) -> list[MemoryEvent]:
        """Everything that happened. Call it when `wait` says so, and at every tick."""
        events: list[MemoryEvent] = []
        for file, _ in self._epoll.poll(0):
            if watched := self._by_file.get(file):  # forgotten by an earlier event otherwise
                events += self._read(watched, file, now_s)
        for cgroup in sorted(self._waiting, key=lambda cgroup: self._watched[cgroup].paused_s):
            events += self._look_again(self._watched[cgroup], now_s)
        for cgroup in list(self._disarmed):
            self._rearm(self._watched[cgroup])
        return events

    def _read(self, watched: _Watched, file: int, now_s: float) -> list[MemoryEvent]:
        container = watched.container
        kinds = container.read_event(file)
        if EventKind.GONE in kinds:
            self.forget(container.cgroup)
        elif EventKind.NEEDS_MEMORY in kinds and container.armed:
            if container.cgroup not in self._waiting or self._raised(watched):
                watched.paused_s, watched.limit_bytes = now_s, _limit(container)
            self._waiting.add(container.cgroup)
        return [MemoryEvent(container.cgroup, kind) for kind in kinds]

    def _look_again(self, watched: _Watched, now_s: float) -> list[MemoryEvent]:
        """Raised and going, raised by too little, or not raised in time."""
        container, cgroup = watched.container, watched.container.cgroup
        paused = container.paused()
        if paused == GONE:
            self.forget(cgroup)
            return [MemoryEvent(cgroup, EventKind.GONE)]
        waited_s = now_s - watched.paused_s
        if not paused:
            self._waiting.discard(cgroup)
        elif self._raised(watched) and waited_s >= _REMIND_S:
            watched.paused_s, watched.limit_bytes = now_s, _limit(container)
            return [MemoryEvent(cgroup, EventKind.NEEDS_MEMORY)]
        elif container.original and waited_s >= self._longest_pause_s and now_s >= self.next_deadline_s():
            self._released_s = now_s
            container.disarm(container.original)
            self._waiting.discard(cgroup)
            self._disarmed.add(cgroup)
            return [MemoryEvent(cgroup, EventKind.RELEASED)]
        return []

    def _rearm(self, watched: _Watched) -> None:
        if self._raised(watched) and watched.container.arm() != GONE:
            self._disarmed.discard(watched.container.cgroup)

    def _raised(self, watched: _Watched) -> bool:
        return _limit(watched.container) != watched.limit_bytes


def _limit(container: Container) -> int | None:
    return container.wanted_memory_bytes
