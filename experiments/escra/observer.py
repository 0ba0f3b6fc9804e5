"""Watches containers from outside: the same eyes for every arm. A thread with open files.

Every 10 ms it reads quotas and throttling, every 100 ms also use of CPU and memory, and the memory limit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.escra.reactions import Reactions
from kwok.errors import LabError
from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.cgroups.container import Container, Cpu, Gone, Memory
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.opening import open_container

__all__ = ["SAMPLE_S", "Observed", "Observer"]

LOOK_S, SAMPLE_S = 0.01, 0.1
_MIB = 1 << 20
Floats = NDArray[np.float64]


@dataclass
class Observed:
    """One row a sample, one column a container. NaN: no limit."""

    names: tuple[str, ...]
    at_s: list[float] = field(default_factory=list)
    limit_cores: list[list[float]] = field(default_factory=list)  # mean of the looks since the last sample
    used_cores: list[list[float]] = field(default_factory=list)  # mean since the last sample
    limit_mib: list[list[float]] = field(default_factory=list)
    used_mib: list[list[float]] = field(default_factory=list)
    # For each process that the kernel killed for memory: what all containers used just before.
    used_mib_at_kills: list[float] = field(default_factory=list)
    reactions: Reactions = field(default_factory=Reactions)
    periods: int = 0
    throttled: int = 0

    def between(self, first_s: float, last_s: float) -> tuple[Floats, Floats, Floats, Floats]:
        """limit_cores, used_cores, limit_mib, used_mib of these seconds of the monotonic clock."""
        at_s = np.asarray(self.at_s)
        chosen = (at_s >= first_s) & (at_s < last_s)
        columns = (self.limit_cores, self.used_cores, self.limit_mib, self.used_mib)
        limit_cores, used_cores, limit_mib, used_mib = (np.asarray(column)[chosen] for column in columns)
        return limit_cores, used_cores, limit_mib, used_mib


class Observer:
    """For a `with` block; afterwards `observed` is complete."""

    def __init__(
        self, hierarchy: Hierarchy, cgroups: Mapping[str, ContainerCgroup], memory: bool = True
    ) -> None:
        opened = {name: open_container(hierarchy, cgroup) for name, cgroup in cgroups.items()}
        self._containers = {n: c for n, c in opened.items() if isinstance(c, Container)}
        self._memory = memory
        self._kills = self._oom_kills()
        self.observed = Observed(tuple(self._containers))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        died = not self._thread.is_alive()
        self._ended.set()
        self._thread.join()
        for container in self._containers.values():
            container.close()
        if died:
            raise LabError("the observer ended before the run did")

    def _run(self) -> None:
        found, next_s, sample_s = self.observed, time.monotonic(), 0.0
        first = before = self._read()
        before_s, quotas = next_s, []
        while not self._ended.wait(max(next_s - time.monotonic(), 0.0)):
            next_s = max(next_s + LOOK_S, time.monotonic())
            now_s, now = time.monotonic(), self._read()
            for name, cpu in now.items():
                if cpu.quota_us is not None:
                    found.reactions.note(now_s, name, cpu.nr_throttled, cpu.quota_us)
            quotas.append([_cores(now.get(name)) for name in found.names])
            if now_s < sample_s:
                continue
            sample_s = max(sample_s + SAMPLE_S, now_s + SAMPLE_S / 2)
            found.at_s.append(now_s)
            found.limit_cores.append(np.mean(quotas, axis=0).tolist())
            found.used_cores.append([_used(before.get(n), now.get(n), now_s - before_s) for n in found.names])
            self._sample_memory()
            before, before_s, quotas = now, now_s, []
        found.periods = sum(before[n].nr_periods - first[n].nr_periods for n in before if n in first)
        found.throttled = sum(before[n].nr_throttled - first[n].nr_throttled for n in before if n in first)

    def _read(self) -> dict[str, Cpu]:
        read = {name: container.cpu() for name, container in self._containers.items()}
        return {name: cpu for name, cpu in read.items() if not isinstance(cpu, Gone)}

    def _sample_memory(self) -> None:
        if not self._memory:
            return
        read = [container.memory() for container in self._containers.values()]
        found, kills = self.observed, self._oom_kills()
        more = sum(max(count - self._kills.get(name, 0), 0) for name, count in kills.items())
        found.used_mib_at_kills += [float(np.nansum(found.used_mib[-1:]))] * more
        self._kills |= kills
        found.limit_mib.append([_mib(m, "limit_bytes") for m in read])
        found.used_mib.append([_mib(m, "usage_bytes") for m in read])

    def _oom_kills(self) -> dict[str, int]:
        read = {name: container.oom_kills() for name, container in self._containers.items()}
        return {name: count for name, count in read.items() if not isinstance(count, Gone)}


def _cores(cpu: Cpu | None) -> float:
    return np.nan if cpu is None or cpu.quota_us is None else cpu.quota_us / PERIOD_US


def _used(before: Cpu | None, now: Cpu | None, lasted_s: float) -> float:
    return np.nan if before is None or now is None else (now.used_us - before.used_us) / 1e6 / lasted_s


def _mib(memory: Memory | Gone, of: str) -> float:
    value = None if isinstance(memory, Gone) else getattr(memory, of)
    return np.nan if value is None else value / _MIB
