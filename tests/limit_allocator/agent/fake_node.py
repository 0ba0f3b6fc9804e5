"""A node without a kernel: containers whose files are a few numbers, in a tree of real directories.

The agent's own code runs on it, with the real finder, journal and memory events. What the kernel would refuse
is refused here, too.
"""

from __future__ import annotations

import errno
import os
import secrets
import select
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from limit_allocator.agent.node_agent import NodeAgent
from limit_allocator.agent.node_memory import NodeMemory
from limit_allocator.agent.starts import Starts
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
)
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.originals import Originals
from limit_allocator.wire.messages import Orders

__all__ = ["GIB", "MIB", "FakeInbox", "FakeNode", "Kernel"]

MIB, GIB = 1 << 20, 1 << 30


@dataclass
class Kernel:
    """What the kernel knows of one container."""

    quota_us: int | None = 50_000
    memory_bytes: int | None = 256 * MIB
    period_us: int = 100_000
    pod_quota_us: int = 1_000_000
    used_bytes: int = 10 * MIB
    wants_bytes: int = 0  # its process grows to that as soon as it may
    used_us: int = 0
    oom_kill_disable: bool = False
    kills: int = 0
    there: bool = True
    broken: bool = False  # reading fails
    events: list[int] = field(default_factory=list)  # eventfds

    @property
    def paused(self) -> bool:
        return self.there and self.oom_kill_disable and self.wants_bytes > self.used_bytes

    def go_on(self) -> None:
        """Let the process grow as far as it may; at its limit it waits, or is killed."""
        if self.wants_bytes <= self.used_bytes:
            return
        self.used_bytes = min(self.wants_bytes, self.memory_bytes or 1 << 60)
        if self.wants_bytes > self.used_bytes:
            if self.oom_kill_disable:
                for file in self.events:
                    os.eventfd_write(file, 1)
            else:
                self.kills, self.used_bytes, self.wants_bytes = self.kills + 1, 0, 0


class FakeContainer(Container):
    BURST = "no burst"

    def __init__(self, cgroup: ContainerCgroup, kernel: Kernel) -> None:
        super().__init__(cgroup)
        self._kernel = kernel
        self._event: int | None = None

    def close(self) -> None:
        if self._event is not None:
            self._kernel.events.remove(self._event)
            os.close(self._event)
            self._event = None

    def cpu(self) -> Cpu | Gone:
        if self._kernel.broken:
            raise OSError(errno.EIO, "broken")
        k = self._kernel
        return Cpu(k.quota_us, k.period_us, k.used_us, 7, 3, 99) if k.there else GONE

    def cpu_use(self) -> CpuUse | Gone:
        cpu = self.cpu()
        return cpu if isinstance(cpu, Gone) else CpuUse(*cpu[2:])

    def limit_files(self) -> Iterable[int]:
        return ()

    def memory(self) -> Memory | Gone:
        k = self._kernel
        return Memory(k.used_bytes, k.memory_bytes) if k.there else GONE

    def memory_without_cache(self) -> int | Gone:
        return self._kernel.used_bytes if self._kernel.there else GONE

    def limits(self) -> Limits | Gone:
        k = self._kernel
        if not k.there:
            return GONE
        return Limits(k.quota_us, 0, k.memory_bytes, k.memory_bytes, k.oom_kill_disable)

    def oom_kills(self) -> int | Gone:
        return self._kernel.kills if self._kernel.there else GONE

    def paused(self) -> bool | Gone:
        return self._kernel.paused if self._kernel.there else GONE

    def event_files(self) -> Iterable[tuple[int, int]]:
        if self._event is None:
            self._event = os.eventfd(0, os.EFD_NONBLOCK)
            self._kernel.events.append(self._event)
        return ((self._event, select.EPOLLIN),)

    def read_event(self, file: int) -> tuple[EventKind, ...]:
        with suppress(BlockingIOError):
            os.eventfd_read(file)
        if not self._kernel.there:
            return (EventKind.GONE,)
        return (EventKind.NEEDS_MEMORY,) if self._kernel.paused else ()

    def _write_bare_quota(self, quota_us: int | None) -> Result:
        k = self._kernel
        if not k.there:
            return GONE
        if quota_us is not None and not 1000 <= quota_us <= k.pod_quota_us:
            return Refused(errno.EINVAL, "quota")
        k.quota_us = quota_us
        return WRITTEN

    def _write_memory(self, limit_bytes: int | None) -> Result:
        k = self._kernel
        if not k.there:
            return GONE
        if limit_bytes is not None and limit_bytes < k.used_bytes:
            return Refused(errno.EBUSY, "memory")
        k.memory_bytes = limit_bytes
        k.go_on()
        return WRITTEN

    def _write_arm(self) -> Result:
        self._kernel.oom_kill_disable = True
        return WRITTEN if self._kernel.there else GONE

    def _write_disarm(self, original: Limits) -> Result:
        self._kernel.oom_kill_disable = original.oom_kill_disable
        self._kernel.go_on()
        return WRITTEN if self._kernel.there else GONE

    def _write_quota(self, quota_us: int | None, burst_us: int) -> Result:
        return self._write_bare_quota(quota_us)


@dataclass
class FakeInbox:
    waiting: list[Orders] = field(default_factory=list)
    file: int = field(default_factory=lambda: os.eventfd(0, os.EFD_NONBLOCK))

    def put(self, orders: Orders) -> None:
        self.waiting.append(orders)
        os.eventfd_write(self.file, 1)

    def fileno(self) -> int:
        return self.file

    def take(self) -> Sequence[Orders]:
        with suppress(BlockingIOError):
            os.eventfd_read(self.file)
        taken, self.waiting = self.waiting, []
        return taken


class FakeNode:
    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.hierarchy = Hierarchy(directory / "cgroup")
        self.journal = directory / "journal"
        self.kernels: dict[str, Kernel] = {}
        self.inbox = FakeInbox()
        self._meminfo = directory / "meminfo"
        self._meminfo.write_text("MemTotal: 9 kB\nMemAvailable:    2097152 kB\n")
        (directory / "cgroup" / "memory" / "kubepods").mkdir(parents=True)
        # As where there is no inotify: anything may have changed. (There are 128 of them on a machine, and
        # kubelets beside us need some.)
        patch.setattr("limit_allocator.cgroups.changes._libc.inotify_init1", lambda _: -1)
        for module in ("agent.discovery", "cgroups.originals"):
            patch.setattr(f"limit_allocator.{module}.open_container", self._open)

    @staticmethod
    def uid() -> str:
        return f"{secrets.token_hex(4)}-0000-4000-8000-{secrets.token_hex(6)}"

    def add(self, pod_uid: str, kernel: Kernel | None = None) -> ContainerCgroup:
        cgroup = ContainerCgroup(f"kubepods/pod{pod_uid}/{secrets.token_hex(32)}")
        self.kernels[cgroup.path] = kernel or Kernel()
        (self.hierarchy.tree("memory") / cgroup.path).mkdir(parents=True)
        return cgroup

    def end(self, cgroup: ContainerCgroup) -> None:
        kernel = self.kernels.pop(cgroup.path)
        kernel.there = False
        (self.hierarchy.tree("memory") / cgroup.path).rmdir()

    def agent(self, boot_id: str = "boot") -> NodeAgent:
        """Start one, as after the end of another."""
        originals = Originals(self.journal, self.hierarchy)
        memory = NodeMemory(100 * MIB, self._meminfo)
        return NodeAgent("node", originals, Starts.begin(self.journal, boot_id), self.inbox, memory)

    @staticmethod
    def kill(agent: NodeAgent) -> None:
        """As SIGKILL: its descriptors are closed, and nothing is written."""
        agent._events.close()
        agent._containers._changes.close()
        agent._epoll.close()
        for held in agent.held.values():
            held.container.close()

    def _open(self, _: Hierarchy, cgroup: ContainerCgroup) -> Container | Gone:
        kernel = self.kernels.get(cgroup.path)
        return FakeContainer(cgroup, kernel) if kernel else GONE
