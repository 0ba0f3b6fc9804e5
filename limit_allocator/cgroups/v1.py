"""A container's cgroups of version 1: one directory in each controller's tree.

An armed container (oom_kill_disable) asks for memory twice: near the limit, by a threshold of its usage, and
at the limit, where its processes wait. Only page faults of user code wait: a system call that touches new
memory at the limit, such as read(2), fails with EFAULT and nobody is told. So the threshold matters.
"""

from __future__ import annotations

import errno
import os
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
    or_gone,
)
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy

__all__ = ["ContainerV1"]

_QUOTA, _PERIOD, _STAT, _USED = "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat", "cpuacct.usage"
_USAGE, _LIMIT, _MEMSW = "memory.usage_in_bytes", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
_MEMORY_STAT, _OOM, _REGISTER = "memory.stat", "memory.oom_control", "cgroup.event_control"
_AT_LIMIT, _NEAR_LIMIT = "at limit", "near limit"  # eventfds
_SAME = 3  # readings after which a container is idle: its period's timer has stopped
_NO_LIMIT = 1 << 62  # the kernel shows 2^63 less a page


class ContainerV1(Container):
    BURST = "cpu.cfs_burst_us"  # from Linux 5.14

    def __init__(self, hierarchy: Hierarchy, cgroup: ContainerCgroup) -> None:
        super().__init__(cgroup)
        self._ready: select.epoll | None = None  # of the two eventfds
        self._threshold_bytes = 0
        self._quota, self._period_us = b"", 0  # as last read
        self._used, self._use, self._same = b"", CpuUse(0, 0, 0, 0), 0
        try:
            self._open(f"{hierarchy.tree('cpu')}/{cgroup.path}", (_QUOTA, _PERIOD, _STAT), (self.BURST,))
            self._open(f"{hierarchy.tree('cpuacct')}/{cgroup.path}", (_USED,))
            # Without swap accounting there is no memsw.
            names = (_USAGE, _LIMIT, _MEMORY_STAT, _OOM, _REGISTER)
            self._open(f"{hierarchy.tree('memory')}/{cgroup.path}", names, (_MEMSW,))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._ready:
            self._ready.close()
        super().close()

    @or_gone
    def cpu(self) -> Cpu:
        quota = self._read(_QUOTA)
        if quota != self._quota:  # whoever changes the period writes the quota, too
            self._quota, self._period_us = quota, int(self._read(_PERIOD))
        return Cpu(_quota(quota), self._period_us, *self._cpu_use())

    @or_gone
    def cpu_use(self) -> CpuUse:
        return self._cpu_use()

    def _cpu_use(self) -> CpuUse:
        """Of an idle container only one file is read. Where nothing runs, nothing is throttled."""
        used = self._read(_USED)
        if self._same >= _SAME and used == self._used:
            return self._use
        # Always in this order (tg_get_cfs_bandwidth's callers in kernel/sched/core.c).
        _, periods, _, throttled, _, throttled_ns, *_ = self._read(_STAT).split()
        use = CpuUse(int(used) // 1000, int(periods), int(throttled), int(throttled_ns) // 1000)
        self._same = self._same + 1 if use == self._use else 0
        self._used, self._use = used, use
        return use

    def limit_files(self) -> Iterable[int]:
        return [self._files[name] for name in (_QUOTA, _LIMIT, self.BURST) if name in self._files]

    @or_gone
    def memory(self) -> Memory:
        return Memory(int(self._read(_USAGE)), _limit(self._read(_LIMIT)))

    @or_gone
    def memory_without_cache(self) -> int:
        # `cache` includes shmem, which cannot be dropped. `total_` is with the container's own children.
        stat = self._read(_MEMORY_STAT)
        dropped = _counter(stat, b"total_cache") - _counter(stat, b"total_shmem")
        return max(int(self._read(_USAGE)) - dropped, 0)

    @or_gone
    def limits(self) -> Limits:
        return Limits(
            quota_us=_quota(self._read(_QUOTA)),
            burst_us=int(self._read_or(self.BURST, b"0")) if self.BURST in self._files else 0,
            memory_bytes=_limit(self._read(_LIMIT)),
            memsw_bytes=_limit(self._read(_MEMSW)) if _MEMSW in self._files else None,
            oom_kill_disable=bool(self._oom_control()[b"oom_kill_disable"]),
        )

    @or_gone
    def oom_kills(self) -> int:
        return self._oom_control().get(b"oom_kill", 0)

    @or_gone
    def paused(self) -> bool:
        return bool(self._oom_control()[b"under_oom"])

    def event_files(self) -> Iterable[tuple[int, int]]:
        if self._ready is None:
            self._ready = select.epoll()
            self._register(_AT_LIMIT, str(self._files[_OOM]))
        return ((self._ready.fileno(), select.EPOLLIN),)

    def read_event(self, file: int) -> tuple[EventKind, ...]:  # noqa: ARG002 (there is only one)
        ready = {fd for fd, _ in self._ready.poll(0)} if self._ready else set()
        for fd in ready:
            os.eventfd_read(fd)
        paused, now = self.paused(), self.memory()
        if isinstance(now, Gone):  # removing a cgroup signals its eventfds, too
            return (EventKind.GONE,)
        near = now.limit_bytes is not None and now.usage_bytes > high_for(now.limit_bytes)
        if paused or (near and self.armed and self._files.get(_NEAR_LIMIT) in ready):
            return (EventKind.NEEDS_MEMORY,)
        return () if self.armed or self._files[_AT_LIMIT] not in ready else (EventKind.KILLED,)

    def _register(self, name: str, what: str) -> None:
        """Make the kernel signal a new eventfd; a former one of this name ends when it is closed."""
        if name in self._files:
            os.close(self._files.pop(name))
        self._files[name] = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._write(_REGISTER, f"{self._files[name]} {what}")
        if self._ready:
            self._ready.register(self._files[name], select.EPOLLIN)

    def settle(self) -> bool:
        wanted = self.wanted_memory_bytes
        if wanted is not None and high_for(wanted) == self._threshold_bytes:
            return False  # without a reading
        now = self.memory()
        if not (self._ready and self.armed and isinstance(now, Memory) and now.limit_bytes is not None):
            return False
        high_bytes = high_for(now.limit_bytes)
        if high_bytes == self._threshold_bytes:
            return False
        self._register(_NEAR_LIMIT, f"{self._files[_USAGE]} {high_bytes}")
        self._threshold_bytes = high_bytes
        if now.usage_bytes > high_bytes:  # the kernel signals only when usage passes it
            os.eventfd_write(self._files[_NEAR_LIMIT], 1)
        return True

    def _write_bare_quota(self, quota_us: int | None) -> Result:
        return self._write(_QUOTA, "-1" if quota_us is None else str(quota_us))

    def _write_memory(self, limit_bytes: int | None) -> Result:
        """limit <= memsw at all times: raise memsw first, lower it last. Keep the allowance of swap."""
        now = self.memory()
        if isinstance(now, Gone):
            return GONE
        memsw = self._memsw_for(limit_bytes)
        if limit_bytes is None or (now.limit_bytes is not None and limit_bytes >= now.limit_bytes):
            self._write_memsw(memsw)  # if this is refused, so is the limit
            return self._write(_LIMIT, _bytes(limit_bytes))
        used = self.memory_without_cache()
        if isinstance(used, Gone):
            return GONE
        if used > limit_bytes:  # the kernel says so, too, after it has tried to reclaim for a long time
            return Refused(errno.EBUSY, _LIMIT)
        result = self._write(_LIMIT, _bytes(limit_bytes))
        if result == WRITTEN:
            self._write_memsw(memsw)  # refused while swap is in use: it allows more, and the limit holds
        return result

    def _memsw_for(self, limit_bytes: int | None) -> int | None:
        original = self.original
        if limit_bytes is None or not original or not original.memory_bytes or not original.memsw_bytes:
            return None
        return limit_bytes + original.memsw_bytes - original.memory_bytes

    def _write_memsw(self, memsw_bytes: int | None) -> None:
        if _MEMSW in self._files:
            self._write(_MEMSW, _bytes(memsw_bytes))

    def _write_arm(self) -> Result:
        return self._write(_OOM, "1")

    def _write_disarm(self, original: Limits) -> Result:
        return self._write(_OOM, str(int(original.oom_kill_disable)))

    def _oom_control(self) -> dict[bytes, int]:
        return counters(self._read(_OOM))


def _counter(stat: bytes, name: bytes) -> int:
    """One of many lines; reading them all takes five times as long."""
    begin = stat.find(b"\n%b " % name)
    return int(stat[begin + len(name) + 2 : stat.index(b"\n", begin + 1)]) if begin >= 0 else 0


def _quota(text: bytes) -> int | None:
    quota_us = int(text)
    return None if quota_us < 0 else quota_us


def _limit(text: bytes) -> int | None:
    limit_bytes = int(text)
    return None if limit_bytes >= _NO_LIMIT else limit_bytes


def _bytes(limit_bytes: int | None) -> str:
    return "-1" if limit_bytes is None else str(limit_bytes)
