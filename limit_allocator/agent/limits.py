"""Writes the limits of containers: by commands, by memory events, and after somebody else wrote them.

What is enforced is a container's own limit in the pod's spec (its ceiling) or less. A container is armed
while its memory limit is below its ceiling. At the ceiling nobody could raise it, so the kernel does what it
would have done without us.

Methods return whether the container is still there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import structlog

from limit_allocator.agent.container import Held
from limit_allocator.agent.outbox import Outbox
from limit_allocator.allocation.model import PAGE_BYTES
from limit_allocator.allocation.node_account import Command
from limit_allocator.cgroups.container import GONE, WRITTEN, Gone, Refused, Result
from limit_allocator.cgroups.drift import Drift
from limit_allocator.cgroups.memory_events import MemoryEvents

__all__ = ["LimitWriter"]

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class LimitWriter:
    outbox: Outbox  # which has the accounts
    events: MemoryEvents
    drift: Drift = field(default_factory=Drift)
    foreign_writes: int = 0  # corrected
    refused: Counter[str] = field(default_factory=Counter)  # by file

    def obey_cpu(self, held: Held, command: Command) -> bool:
        limit = self.outbox.cpu.limit_after(command)
        if limit is None or limit <= 0:
            return True
        container, limit = held.container, min(limit, held.quota_us)
        if limit != container.wanted_quota_us and not self._noted(container.set_quota(limit)):
            return False
        if container.wanted_quota_us is not None:  # else its first limit was refused: it has not joined
            self.outbox.cpu.wrote(command, container.wanted_quota_us)
            self.outbox.cpu_changed(held)
        return True

    def obey_memory(self, held: Held, command: Command) -> bool:
        limit = self.outbox.memory.limit_after(command)
        if limit is None or limit < PAGE_BYTES:
            return True
        container, limit = held.container, min(limit, held.memory_bytes)
        before = container.wanted_memory_bytes
        if limit != before and not self._write_memory(held, limit):
            return False
        if container.wanted_memory_bytes is not None:
            self.outbox.memory.wrote(command, container.wanted_memory_bytes)
            self.outbox.memory_changed(held)
            if before is not None and container.wanted_memory_bytes > before:
                held.hungry = False
        return True

    def grow(self, held: Held) -> bool:
        """Raise the memory limit out of the reserve, as far as that goes."""
        before = held.container.wanted_memory_bytes
        if before is None:
            return True
        unspent = self.outbox.memory.unspent(held.pod.application)
        most = max(min(held.pod.growth_bytes, held.memory_bytes - before, unspent), 0)
        limit = min(self.outbox.memory.grow(held.name, most - most % PAGE_BYTES), held.memory_bytes)
        self.outbox.memory_changed(held)
        if limit > before and not self._write_memory(held, limit):
            return False
        held.hungry = held.container.wanted_memory_bytes == before and before < held.memory_bytes
        return True

    def fit(self, held: Held) -> bool:
        """Go below a ceiling that was lowered. Accounts say more until the next command: never less."""
        container = held.container
        quota_us, limit_bytes = container.wanted_quota_us, container.wanted_memory_bytes
        above = quota_us is not None and quota_us > held.quota_us
        if above and not self._noted(container.set_quota(held.quota_us)):
            return False
        if limit_bytes is not None and limit_bytes > held.memory_bytes:
            return self._write_memory(held, held.memory_bytes)
        return True

    def correct(self, held: Held) -> bool:
        """Write again what somebody else changed."""
        container = held.container
        if container.wanted_quota_us is None and container.wanted_memory_bytes is None:
            return True
        cpu, memory = container.cpu(), container.memory()
        if isinstance(cpu, Gone) or isinstance(memory, Gone):
            return False
        for foreign in self.drift.correct(container, cpu, memory):
            log.info(
                "limit written by others",
                container=held.cgroup.container_id, what=foreign.what, found=foreign.found, ours=foreign.ours,
            )  # fmt: skip
            if foreign.result == WRITTEN:
                self.foreign_writes += 1
            elif isinstance(foreign.result, Refused):
                self.refused[foreign.result.file] += 1
                # The pod's own quota is lower now, and nothing above it can be written.
                if foreign.what == "quota" and (foreign.found or 1 << 62) < (foreign.ours or 0):
                    container.wanted_quota_us = foreign.found
        return True

    def _write_memory(self, held: Held, limit_bytes: int) -> bool:
        """Below its ceiling a container is armed first, at it no longer."""
        container, ceiling = held.container, held.memory_bytes
        result: Result = WRITTEN
        if limit_bytes < ceiling and not container.armed:
            result = self.events.watch(container)
        if result == WRITTEN:
            result = container.set_memory_limit(limit_bytes)
        held.near |= isinstance(result, Refused)  # more is in use than the controller knows: tell it soon
        in_force = container.wanted_memory_bytes
        if container.armed and container.original and (in_force is None or in_force >= ceiling):
            self.events.forget(container.cgroup)
            container.disarm(container.original)
        return self._noted(result)

    def _noted(self, result: Result) -> bool:
        if isinstance(result, Refused):
            self.refused[result.file] += 1
        return result != GONE
