"""Notice that somebody else wrote a container's limits, and write ours again.

The kubelet does it at a resize, systemd at `daemon-reload`. The tick reads the limits anyway, so this costs
no further reading, and the foreign value lasts for one tick at most. Whether the foreign value is the new
limit of the pod's spec is for the caller to know: then it also calls `Originals.amend`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from limit_allocator.cgroups.container import Container, Cpu, Memory, Result

__all__ = ["Drift", "Foreign"]


@dataclass(frozen=True, slots=True)
class Foreign:
    """What somebody else wrote, and what became of our value."""

    what: str  # "quota", "burst", "memory" or "high"
    found: int | None
    ours: int | None
    result: Result


@dataclass(slots=True)
class Drift:
    """Counts foreign writes by what they changed."""

    total: Counter[str] = field(default_factory=Counter)

    def correct(self, container: Container, cpu: Cpu, memory: Memory) -> tuple[Foreign, ...]:
        """Compare a tick's readings with what we wrote last."""
        found: list[Foreign] = []
        quota_us, limit_bytes = container.wanted_quota_us, container.wanted_memory_bytes
        if quota_us is not None and cpu.quota_us != quota_us:
            found.append(Foreign("quota", cpu.quota_us, quota_us, container.set_quota(quota_us)))
        elif quota_us is not None and container.burst:  # else other tools may set it
            ours, burst_us = container.wanted_burst_us, container.burst_us()
            if burst_us != ours:
                found.append(Foreign("burst", burst_us, ours, container.set_quota(quota_us)))
        if limit_bytes is not None and memory.limit_bytes != limit_bytes:
            result = container.set_memory_limit(limit_bytes)
            found.append(Foreign("memory", memory.limit_bytes, limit_bytes, result))
        elif container.armed and memory.high_bytes != (high := container.high_wanted(memory.limit_bytes)):
            found.append(Foreign("high", memory.high_bytes, high, container.arm()))
        self.total.update(foreign.what for foreign in found)
        return tuple(found)
