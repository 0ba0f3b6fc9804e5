"""What sets limits during a run. Each arm has one; `start` is called when the containers run."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.escra.autopilot import Autopilot
from experiments.escra.autopilot_tuning import OOM_BUMP, TUNED
from kwok.errors import LabError
from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.cgroups.container import Container, Cpu, Memory
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.originals import Originals

__all__ = ["AutopilotLimits", "History", "Limiter", "Sample", "SampledLimits"]

# Samples of 100 ms: CPU in microseconds a period, memory in bytes.
History = tuple[Sequence[float], Sequence[float]]

_MIB = 1 << 20
_TICK_S = 0.1


class Sample(NamedTuple):
    """What a container used in 100 ms."""

    used_us: float
    held_bytes: float
    killed_at_bytes: int = 0  # the memory limit at which the kernel killed a process of it


class Limiter(ABC):  # noqa: B024  # the limits that containers begin with stay: the static arms
    """Sets limits from `start` to `stop`."""

    def start(self, hierarchy: Hierarchy, cgroups: Sequence[ContainerCgroup], directory: Path) -> None:  # noqa: B027
        """Begin. `directory` is empty, and there until `stop`."""

    def change(self, cgroups: Sequence[ContainerCgroup]) -> None:  # noqa: B027
        """From now on these are the containers."""

    def stop(self) -> Mapping[str, Any]:
        """End; what it has to say about itself."""
        return {}


class SampledLimits(Limiter):
    """Limits of each container from samples of what it used, one after the other, in a thread.

    `history` is what a profile saw, as if the application had been watched before.
    """

    def __init__(self, every_s: float, history: Sequence[History], *, burst: bool = False) -> None:
        self._every_s, self._history, self._burst = every_s, history, float(burst)

    @abstractmethod
    def wanted(self, samples: Sequence[Sequence[Sample]]) -> Sequence[tuple[float, float] | None]:
        """The limits of each container, of CPU per period and of memory, after a period with these samples;
        None: as before."""

    def start(self, hierarchy: Hierarchy, cgroups: Sequence[ContainerCgroup], directory: Path) -> None:
        originals = Originals(directory, hierarchy)
        adopted = [originals.adopt(cgroup) for cgroup in cgroups]
        self._containers = [container for container in adopted if isinstance(container, Container)]
        for container in self._containers:
            container.burst = self._burst
        self._samples: list[list[Sample]] = [[] for _ in cgroups]
        self._before: dict[int, tuple[float, Cpu]] = {}
        self._kills = [self._oom_kills(container) for container in self._containers]
        self._learn()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="limits", daemon=True)
        self._thread.start()

    def stop(self) -> Mapping[str, Any]:
        died = not self._thread.is_alive()
        self._ended.set()
        self._thread.join()
        for container in self._containers:
            container.close()
        if died:
            raise LabError("the thread that sets limits ended before the run did")
        return {}

    def _learn(self) -> None:
        size = round(self._every_s / _TICK_S)
        length = max((len(used) for used, _ in self._history), default=0)
        limits: Sequence[tuple[float, float] | None] = ()
        for begin in range(0, length - min(size, length) + 1, size) if length else ():
            window = slice(begin, begin + size)
            limits = self.wanted(
                [
                    [Sample(*both) for both in zip(used[window], held[window], strict=True)]
                    for used, held in self._history
                ]
            )
        self._set(limits)

    def _run(self) -> None:
        next_s = time.monotonic() + _TICK_S
        due_s = next_s + self._every_s
        while not self._ended.wait(max(next_s - time.monotonic(), 0.0)):
            now_s = time.monotonic()
            next_s = max(next_s + _TICK_S, now_s)
            for at, container in enumerate(self._containers):
                self._sample(at, container, now_s)
            if now_s >= due_s:
                due_s += self._every_s
                self._set(self.wanted(self._samples))
                self._samples = [[] for _ in self._samples]

    def _sample(self, at: int, container: Container, now_s: float) -> None:
        cpu, memory, kills = container.cpu(), container.memory(), self._oom_kills(container)
        if not isinstance(cpu, Cpu) or not isinstance(memory, Memory):
            return
        before_s, before = self._before.get(at, (now_s, cpu))
        if now_s > before_s:
            used_us = (cpu.used_us - before.used_us) / ((now_s - before_s) * 1e6 / PERIOD_US)
            killed_at_bytes = (memory.limit_bytes or 0) if kills > self._kills[at] else 0
            self._samples[at].append(Sample(used_us, memory.usage_bytes, killed_at_bytes))
        self._before[at], self._kills[at] = (now_s, cpu), kills

    def _set(self, limits: Sequence[tuple[float, float] | None]) -> None:
        """Where the kernel refuses a cut, because more memory is in use, the limit stays."""
        for container, limit in zip(self._containers, limits, strict=False):
            if limit is not None:
                container.set_quota(int(limit[0]))
                container.set_memory_limit(int(limit[1]))

    @staticmethod
    def _oom_kills(container: Container) -> int:
        kills = container.oom_kills()
        return kills if isinstance(kills, int) else 0


class AutopilotLimits(SampledLimits):
    """Autopilot for both resources of each container.

    It has more than the original: samples of every 100 ms instead of every second, and it begins with what
    the profile saw.
    """

    # Limits on offer: up to this machine's two cores, and to a GiB.
    _CPU = (PERIOD_US / 100, 200)
    _MEMORY = (4.0 * _MIB, 256)

    def start(self, hierarchy: Hierarchy, cgroups: Sequence[ContainerCgroup], directory: Path) -> None:
        self._recommenders = [
            (Autopilot(*self._CPU, TUNED[0]), Autopilot(*self._MEMORY, TUNED[1])) for _ in cgroups
        ]
        super().start(hierarchy, cgroups, directory)

    def wanted(self, samples: Sequence[Sequence[Sample]]) -> Sequence[tuple[float, float] | None]:
        return [
            (cpu.recommend([s.used_us for s in seen]), memory.recommend([_needed(s) for s in seen]))
            if seen
            else None
            for (cpu, memory), seen in zip(self._recommenders, samples, strict=True)
        ]


def _needed(sample: Sample) -> float:
    return OOM_BUMP * sample.killed_at_bytes if sample.killed_at_bytes else sample.held_bytes
