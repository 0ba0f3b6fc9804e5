"""One container's cgroup: what it uses and what it may use.

`v1.py` and `v2.py` implement it, `opening.py` chooses. Files stay open: opening them for each reading takes
ten times as long. Every answer is a value: a container that is gone or a kernel that refuses is no
exception. Nothing can be written before `originals.py` has kept what was there.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import NamedTuple, TypeVar

from limit_allocator.cgroups.layout import ContainerCgroup

__all__ = [
    "GONE",
    "WRITTEN",
    "Container",
    "Cpu",
    "CpuUse",
    "EventKind",
    "Gone",
    "Limits",
    "Memory",
    "Refused",
    "Result",
    "Written",
    "counters",
    "high_for",
    "is_gone",
    "or_gone",
    "refusal",
]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_READ = 8192  # memory.stat has about 1,500 characters
# Of the limit. On v2, a process that passes memory.high by as much sleeps for 250 ms for each 64 pages.
_HEADROOM = 1 / 16
_LEAST_HEADROOM = 4 << 20


@dataclass(frozen=True, slots=True)
class Written:
    """The kernel took the value."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The limit is what it was. `file` is the one that was not written."""

    errno: int
    file: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The cgroup no longer exists."""


Result = Written | Refused | Gone
WRITTEN, GONE = Written(), Gone()


class EventKind(StrEnum):
    NEEDS_MEMORY = "needs_memory"  # its processes wait, or soon will, until the limit is raised
    PRESSURE = "pressure"  # v2: processes lose time because memory is short
    KILLED = "killed"  # the kernel killed a process for memory
    RELEASED = "released"  # it waited for too long: now the kernel decides
    GONE = "gone"


class Cpu(NamedTuple):  # which is made in half the time of a frozen dataclass
    """Counters since the container began. A tick can see 0 or 2 periods: count by `nr_periods`."""

    quota_us: int | None  # None: no limit
    period_us: int
    used_us: int
    nr_periods: int
    nr_throttled: int
    throttled_us: int


class CpuUse(NamedTuple):
    """The same counters, without the limit."""

    used_us: int
    nr_periods: int
    nr_throttled: int
    throttled_us: int


class Memory(NamedTuple):
    """`usage_bytes` is what the limit counts, page cache included (see `Container.memory_without_cache`)."""

    usage_bytes: int
    limit_bytes: int | None
    high_bytes: int | None = None  # v2


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that we may change. None: no limit, or no such file."""

    quota_us: int | None
    burst_us: int
    memory_bytes: int | None
    memsw_bytes: int | None = None  # v1
    oom_kill_disable: bool = False  # v1
    high_bytes: int | None = None  # v2


class Container(ABC):
    """A container's open files. Close it when the container is gone."""

    BURST: str  # the file's name

    def __init__(self, cgroup: ContainerCgroup) -> None:
        self.cgroup = cgroup
        self.original: Limits | None = None  # set by `originals.py`
        self.burst = 0.0  # how much unused time may be saved up, as a share of each quota
        self.wanted_quota_us: int | None = None  # what we wrote last; None: nothing
        self.wanted_burst_us: int | None = None
        self.wanted_memory_bytes: int | None = None
        self.armed = False
        self._files: dict[str, int] = {}

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])

    # Readings

    @abstractmethod
    def cpu(self) -> Cpu | Gone: ...

    @abstractmethod
    def cpu_use(self) -> CpuUse | Gone:
        """What a tick needs of `cpu`, in half the time."""

    def burst_us(self) -> int | None:
        """None: the kernel has no such file."""
        return int(self._read_or(self.BURST, b"0")) if self.BURST in self._files else None

    @abstractmethod
    def limit_files(self) -> Iterable[int]:
        """Descriptors of the files that others may write (`changes.py` watches them)."""

    @abstractmethod
    def memory(self) -> Memory | Gone: ...

    @abstractmethod
    def memory_without_cache(self) -> int | Gone:
        """Bytes that dropping page cache cannot free. Slower to read than `memory`."""

    @abstractmethod
    def limits(self) -> Limits | Gone: ...

    @abstractmethod
    def oom_kills(self) -> int | Gone:
        """How many processes of this container the kernel has killed for memory."""

    @abstractmethod
    def paused(self) -> bool | Gone:
        """Whether processes wait for a higher memory limit."""

    @abstractmethod
    def event_files(self) -> Iterable[tuple[int, int]]:
        """Descriptors to wait on, each with its epoll mask."""

    @abstractmethod
    def read_event(self, file: int) -> tuple[EventKind, ...]:
        """What happened, after one of `event_files` became ready."""

    def settle(self) -> bool:
        """v1: move the early warning to the present limit. Waits for the kernel, 10 ms or so, if it must."""
        return False

    # Limits

    def set_quota(self, quota_us: int) -> Result:
        """Limit CPU time per period. EINVAL: under 1 ms, or (v1) above the pod's quota."""
        if self.original is None:
            return Refused(errno.EPERM, "no original")
        burst_us = min(max(self.original.burst_us, int(self.burst * quota_us)), quota_us)
        result = self._write_quota(quota_us, burst_us)
        if result == WRITTEN:
            self.wanted_quota_us = quota_us
            self.wanted_burst_us = burst_us if self.BURST in self._files else None
        return result

    def set_memory_limit(self, limit_bytes: int) -> Result:
        """Limit memory. EBUSY: more than that is in use. Nothing is killed to make room."""
        if self.original is None:
            return Refused(errno.EPERM, "no original")
        limit_bytes -= limit_bytes % _PAGE  # as the kernel does
        result = self._write_memory(limit_bytes)
        if result == WRITTEN:
            self.wanted_memory_bytes = limit_bytes
        return result

    def arm(self) -> Result:
        """Make the kernel hold processes up and tell us, instead of killing one at the limit."""
        if self.original is None:
            return Refused(errno.EPERM, "no original")
        result = self._write_arm()
        self.armed = result == WRITTEN
        return result

    def disarm(self, original: Limits) -> Result:
        """Let the kernel kill at the limit, as it did before us."""
        self.armed = False
        return self._write_disarm(original)

    def high_wanted(self, limit_bytes: int | None) -> int | None:  # noqa: ARG002 (v2's argument)
        """v2: where memory.high belongs while the limit is `limit_bytes`."""
        return None

    def write_back(self, original: Limits) -> Result:
        """Restore everything. After a refusal the rest is written nevertheless."""
        self.original = original
        results = (
            self._write_memory(original.memory_bytes),
            self.disarm(original),  # after the limit: a paused process goes on instead of being killed
            self._write_quota(original.quota_us, original.burst_us),
        )
        self.wanted_quota_us = self.wanted_burst_us = self.wanted_memory_bytes = None
        return next((result for result in results if result != WRITTEN), WRITTEN)

    def _write_quota(self, quota_us: int | None, burst_us: int) -> Result:
        """The kernel wants burst <= quota at all times: lower the burst first, raise it last."""
        has_burst = self.BURST in self._files
        try:
            burst_now_us = int(self._read(self.BURST)) if has_burst else 0
        except OSError as error:
            return refusal(error, self.BURST)
        if quota_us is not None and burst_now_us > quota_us:
            self._write(self.BURST, str(burst_us))
        result = self._write_bare_quota(quota_us)
        wanted_us = burst_us if result == WRITTEN else burst_now_us
        if has_burst and wanted_us != int(self._read_or(self.BURST, b"0")):
            self._write(self.BURST, str(wanted_us))
        return result

    @abstractmethod
    def _write_bare_quota(self, quota_us: int | None) -> Result: ...

    @abstractmethod
    def _write_memory(self, limit_bytes: int | None) -> Result: ...

    @abstractmethod
    def _write_arm(self) -> Result: ...

    @abstractmethod
    def _write_disarm(self, original: Limits) -> Result: ...

    # Files

    def _open(self, directory: str, names: Iterable[str], optional: Iterable[str] = ()) -> None:
        """Open files of the container's own directory for reading and writing, or only reading."""
        place = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in (*names, *optional):
                try:
                    self._files[name] = _open_file(name, place)
                except (FileNotFoundError, PermissionError):  # pressure wants CAP_SYS_RESOURCE
                    if name not in optional:
                        raise
        finally:
            os.close(place)

    def _read(self, name: str) -> bytes:
        return os.pread(self._files[name], _READ, 0)

    def _read_or(self, name: str, otherwise: bytes) -> bytes:
        try:
            return self._read(name)
        except OSError:
            return otherwise

    def _write(self, name: str, value: str) -> Result:
        """Write without a buffer, so that the kernel's answer is seen here."""
        try:
            os.write(self._files[name], value.encode())
        except OSError as error:
            return refusal(error, name)
        return WRITTEN


def high_for(limit_bytes: int) -> int:
    """From which usage on an armed container asks for more memory."""
    return limit_bytes - min(max(int(limit_bytes * _HEADROOM), _LEAST_HEADROOM), limit_bytes // 2)


def _open_file(name: str, place: int) -> int:
    """The file's own mode tells what it is for: cpu.stat cannot be written, cgroup.event_control not read."""
    mode = os.stat(name, dir_fd=place).st_mode
    flags = {0o600: os.O_RDWR, 0o200: os.O_WRONLY}.get(mode & 0o600, os.O_RDONLY)
    return os.open(name, flags | os.O_CLOEXEC, dir_fd=place)


def is_gone(error: OSError) -> bool:
    """ENODEV is the answer of a removed cgroup's open file, ENOENT of its path."""
    return error.errno in (errno.ENODEV, errno.ENOENT)


def refusal(error: OSError, file: str) -> Refused | Gone:
    return GONE if is_gone(error) else Refused(error.errno or 0, file)


C = TypeVar("C")
T = TypeVar("T")


def or_gone(read: Callable[[C], T]) -> Callable[[C], T | Gone]:
    """Turn a reading of a removed cgroup into `GONE`."""

    @wraps(read)
    def wrapped(container: C) -> T | Gone:
        try:
            return read(container)
        except OSError as error:
            if is_gone(error):
                return GONE
            raise

    return wrapped


def counters(text: bytes) -> dict[bytes, int]:
    """Read lines of `name value`."""
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=False))
