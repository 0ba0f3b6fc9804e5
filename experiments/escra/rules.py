"""Ours without agent, controller and network: the rules, in this process, on the same cgroups.

What the real chain costs in delay is missing here. The bench uses it only where asked (`--in-process`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.escra.limiters import Looping
from limit_allocator.allocation.cpu import CpuContainers, next_quotas
from limit_allocator.allocation.memory import MemoryAccounts, next_limits
from limit_allocator.allocation.model import PERIOD_US, Integers, Parameters
from limit_allocator.allocation.telemetry import Readings, Telemetry
from limit_allocator.cgroups.container import WRITTEN, Cpu, EventKind
from limit_allocator.cgroups.layout import ContainerCgroup
from limit_allocator.cgroups.memory_events import MemoryEvents

__all__ = ["RulesInProcess"]

_ROOM_BYTES = 1 << 40


class RulesInProcess(Looping):
    def __init__(self, parameters: Parameters, cpu_us: int, memory_bytes: int) -> None:
        self._parameters = parameters
        self._cpu_us, self._memory_bytes = np.array([cpu_us]), np.array([memory_bytes])

    def begin(self, now_s: float) -> None:
        count = len(self.containers)
        self._slots, self._zeros = np.arange(count), np.zeros(count, np.int64)
        self._telemetry = Telemetry(self._parameters.window_periods, count)
        self._telemetry.forget(self._slots)
        self._quota_us, self._limit_bytes = self._zeros.copy(), self._zeros.copy()
        self._at: dict[ContainerCgroup, int] = {c.cgroup: i for i, c in enumerate(self.containers)}
        self._events = MemoryEvents()
        self._order, self._reclaim_s, self.counts = 0, now_s, {"memory_events": 0}
        self._set_memory(self._zeros, reclaim=False)
        for container in self.containers:
            self._events.watch(container)
        self.tick(now_s)

    def wait_until(self, next_s: float) -> None:
        while (left_s := next_s - time.monotonic()) > 0:
            if not self._events.wait(left_s):
                return
            self._answer(time.monotonic())

    def tick(self, now_s: float) -> None:
        self._answer(now_s)
        self._order += 1
        readings = [c.cpu() for c in self.containers]
        alive = [i for i, cpu in enumerate(readings) if isinstance(cpu, Cpu)]
        cpus = [cpu for cpu in readings if isinstance(cpu, Cpu)]
        columns = np.array(
            [[c.nr_periods, c.used_us, c.nr_throttled, c.throttled_us, c.quota_us or 0] for c in cpus],
            dtype=np.int64,
        ).T
        if not cpus:
            return
        ones = np.ones(len(alive), np.int64)
        self._telemetry.record(
            Readings(np.array(alive), ones * self._order, ones * int(now_s * 1e6), *columns), now_s
        )
        rows = CpuContainers(
            self._zeros, self._quota_us, self._zeros + self._parameters.floor_us,
            self._zeros + 2 * PERIOD_US,
            self._telemetry.window(self._slots, self._parameters.window_periods),
        )  # fmt: skip
        wanted = next_quotas(rows, self._cpu_us, self._parameters, now_s).quota_us
        for at in np.argsort(wanted - self._quota_us):  # cuts pay for raises
            if wanted[at] != self._quota_us[at] and self.containers[at].set_quota(int(wanted[at])) == WRITTEN:
                self._quota_us[at] = wanted[at]
        if now_s >= self._reclaim_s + self._parameters.reclaim_every_s:
            self._reclaim_s = now_s
            self._set_memory(self._zeros, reclaim=True)
        self._events.settle()

    def stop(self) -> Mapping[str, Any]:
        super().stop()
        self._events.close()
        return self.counts

    def _answer(self, now_s: float) -> None:
        stuck = self._zeros.copy()
        for event in self._events.collect(now_s):
            if event.kind is EventKind.NEEDS_MEMORY:
                stuck[self._at[event.cgroup]] = self._limit_bytes[self._at[event.cgroup]]
                self.counts["memory_events"] += 1
        if stuck.any():
            self._set_memory(stuck, reclaim=False)

    def _set_memory(self, stuck: Integers, reclaim: bool) -> None:
        used = [c.memory_without_cache() for c in self.containers]
        accounts = MemoryAccounts(
            self._zeros, self._zeros, self._limit_bytes,
            np.array([u if isinstance(u, int) else 0 for u in used]),
            self._zeros + self._parameters.floor_bytes, self._zeros + self._memory_bytes[0], stuck,
            self._zeros.astype(bool),
        )  # fmt: skip
        room = np.array([_ROOM_BYTES])
        wanted = next_limits(accounts, self._memory_bytes, room, self._parameters, reclaim=reclaim).limit_bytes
        for at in np.argsort(wanted - self._limit_bytes):
            container = self.containers[at]
            if container.set_memory_limit(int(wanted[at])) != WRITTEN and (now := used[at]) and isinstance(now, int):
                # Refused: more is in use. As near as it may be, even where the sum is then too large.
                container.set_memory_limit(wanted_at := now + self._parameters.tight_delta_bytes)
                wanted[at] = wanted_at
            self._limit_bytes[at] = wanted[at]
