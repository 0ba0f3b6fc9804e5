"""A container's cgroup of version 2: one directory.

Two limits work together. At memory.high the kernel reclaims, reports and slows processes down; at memory.max
it kills. An armed container has memory.high a headroom below its limit, so that the limit can be raised in
time. The kernel makes a task sleep for about 64 s times the square of usage/high - 1 per 64 pages, and not at
all under 10 ms, so for the first 1.25 % (mem_cgroup_handle_over_high): the headroom is a part of the limit.
"""

from __future__ import annotations

import errno
import select
from collections.abc import Iterable

from limit_allocator.cgroups.container import (
    GONE,
    WRITTEN,
    Container,
    Cpu,
    CpuUse,
    EventKind,
    Gone,
    Limits,
    Memory,
    Refused,
    Result,
    counters,
    high_for,
    is_gone,
    or_gone,
)
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy

__all__ = ["ContainerV2"]

_CPU_MAX, _STAT = "cpu.max", "cpu.stat"
_USAGE, _MAX, _HIGH = "memory.current", "memory.max", "memory.high"
_MEMORY_STAT, _EVENTS, _PRESSURE = "memory.stat", "memory.events", "memory.pressure"
_TRIGGER = "some 20000 500000"  # 20 ms of stall in the shortest window there is, in microseconds


class ContainerV2(Container):
    BURST = "cpu.max.burst"  # from Linux 5.14

    def __init__(self, hierarchy: Hierarchy, cgroup: ContainerCgroup) -> None:
        super().__init__(cgroup)
        names = (_CPU_MAX, _STAT, _USAGE, _MAX, _HIGH, _MEMORY_STAT, _EVENTS)
        try:
            self._open(f"{hierarchy.tree('')}/{cgroup.path}", names, (self.BURST, _PRESSURE))
            self._seen = counters(self._read(_EVENTS))
        except OSError:
            self.close()
            raise

    @or_gone
    def cpu(self) -> Cpu:
        quota, period = self._read(_CPU_MAX).split()
        return Cpu(_number(quota), int(period), *self._cpu_use())

    @or_gone
    def cpu_use(self) -> CpuUse:
        return self._cpu_use()

    def _cpu_use(self) -> CpuUse:
        stat = counters(self._read(_STAT))
        return CpuUse(
            stat[b"usage_usec"], stat[b"nr_periods"], stat[b"nr_throttled"], stat[b"throttled_usec"]
        )

    def limit_files(self) -> Iterable[int]:
        return [self._files[name] for name in (_CPU_MAX, _MAX, _HIGH, self.BURST) if name in self._files]

    @or_gone
    def memory(self) -> Memory:
        return Memory(int(self._read(_USAGE)), _number(self._read(_MAX)), _number(self._read(_HIGH)))

    @or_gone
    def memory_without_cache(self) -> int:
        stat = counters(self._read(_MEMORY_STAT))  # `file` includes shmem, which cannot be dropped
        return max(int(self._read(_USAGE)) - (stat[b"file"] - stat[b"shmem"]), 0)

    @or_gone
    def limits(self) -> Limits:
        return Limits(
            quota_us=_number(self._read(_CPU_MAX).split()[0]),
            burst_us=int(self._read_or(self.BURST, b"0")) if self.BURST in self._files else 0,
            memory_bytes=_number(self._read(_MAX)),
            high_bytes=_number(self._read(_HIGH)),
        )

    @or_gone
    def oom_kills(self) -> int:
        return counters(self._read(_EVENTS))[b"oom_kill"]

    @or_gone
    def paused(self) -> bool:
        high_bytes = _number(self._read(_HIGH))
        return high_bytes is not None and int(self._read(_USAGE)) > high_bytes

    def event_files(self) -> Iterable[tuple[int, int]]:
        files = [(self._files[_EVENTS], select.EPOLLPRI)]
        # Refused where the kernel does not measure pressure (psi=0).
        if _PRESSURE in self._files and self._write(_PRESSURE, _TRIGGER) == WRITTEN:
            files.append((self._files[_PRESSURE], select.EPOLLPRI))
        return files

    def read_event(self, file: int) -> tuple[EventKind, ...]:
        try:
            now = counters(self._read(_EVENTS))  # which also makes the file wait for the next event
        except OSError as error:
            if is_gone(error):
                return (EventKind.GONE,)
            raise
        more = {name for name, count in now.items() if count > self._seen.get(name, 0)}
        self._seen = now
        kinds = []
        if b"oom_kill" in more:
            kinds.append(EventKind.KILLED)
        if more & {b"high", b"max", b"oom"}:
            kinds.append(EventKind.NEEDS_MEMORY)
        if file == self._files.get(_PRESSURE):
            kinds.append(EventKind.PRESSURE)
        return tuple(kinds)

    def _write_bare_quota(self, quota_us: int | None) -> Result:
        return self._write(_CPU_MAX, _text(quota_us))

    def _write_memory(self, limit_bytes: int | None) -> Result:
        now = self.memory()
        if isinstance(now, Gone):
            return GONE
        high_bytes = self.high_wanted(limit_bytes)
        if limit_bytes is None or (now.limit_bytes is not None and limit_bytes >= now.limit_bytes):
            result = self._write(_MAX, _text(limit_bytes))
            return self._write(_HIGH, _text(high_bytes)) if result == WRITTEN else result
        return self._lower_memory(limit_bytes, high_bytes, now)

    def _lower_memory(self, limit_bytes: int, high_bytes: int | None, now: Memory) -> Result:
        """Push usage below the new limit before there is one: the kernel kills who is above memory.max.

        memory.high drops page cache and then holds growth back, also between our reading and our write.
        """
        below_bytes = high_for(limit_bytes)
        used = self.memory_without_cache()
        if isinstance(used, Gone):
            return GONE
        if used > below_bytes:
            return Refused(errno.EBUSY, _MAX)
        result = self._write(_HIGH, str(below_bytes))
        if result == WRITTEN:
            after = self.memory()
            if isinstance(after, Gone):
                return GONE
            fits = after.usage_bytes <= below_bytes
            result = self._write(_MAX, str(limit_bytes)) if fits else Refused(errno.EBUSY, _MAX)
            left = high_bytes if result == WRITTEN else now.high_bytes
            if left != below_bytes:
                self._write(_HIGH, _text(left))
        return result

    def high_wanted(self, limit_bytes: int | None) -> int | None:
        if self.armed and limit_bytes is not None:
            return high_for(limit_bytes)
        return self.original.high_bytes if self.original else None

    def _write_arm(self) -> Result:
        now = self.memory()
        if isinstance(now, Gone):
            return GONE
        return WRITTEN if now.limit_bytes is None else self._write(_HIGH, str(high_for(now.limit_bytes)))

    def _write_disarm(self, original: Limits) -> Result:
        return self._write(_HIGH, _text(original.high_bytes))


def _number(text: bytes) -> int | None:
    text = text.strip()
    return None if text == b"max" else int(text)


def _text(number: int | None) -> str:
    return "max" if number is None else str(number)
