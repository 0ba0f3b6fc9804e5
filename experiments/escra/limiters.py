"""What sets limits during a run. Each arm has one; `start` is called when the containers run."""

from __future__ import annotations

import threading
import time
from abc import ABC
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.escra.autopilot import Autopilot
from experiments.escra.autopilot_tuning import OOM_BUMP, TUNED
from kwok.errors import LabError
from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.cgroups.container import Container, Cpu, Memory
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.originals import Originals

__all__ = ["AutopilotLimits", "History", "Limiter"]

# Samples of 100 ms: CPU in microseconds a period, memory in bytes.
History = tuple[Sequence[float], Sequence[float]]

_MIB = 1 << 20
_TICK_S = 0.1


class Limiter(ABC):  # noqa: B024  # the limits that containers begin with stay: the static arms
    """Sets limits from `start` to `stop`."""

    def start(self, hierarchy: Hierarchy, cgroups: Sequence[ContainerCgroup], directory: Path) -> None:  # noqa: B027
        """Begin. `directory` is empty, and there until `stop`."""

    def change(self, cgroups: Sequence[ContainerCgroup]) -> None:  # noqa: B027
        """From now on these are the containers."""

    def stop(self) -> Mapping[str, Any]:
        """End; what it has to say about itself."""
        return {}


class AutopilotLimits(Limiter):
    """Autopilot for both resources of each container, in a thread.

    It has more than the original: samples of every 100 ms instead of every second, and it begins with what
    the profile saw, as if it had watched the application before.
    """

    # Limits on offer: up to this machine's two cores, and to a GiB.
    _CPU = (PERIOD_US / 100, 200)
    _MEMORY = (4.0 * _MIB, 256)

    def __init__(self, every_s: float, history: Sequence[History], *, burst: bool) -> None:
        self._every_s, self._history, self._burst = every_s, history, float(burst)

    def start(self, hierarchy: Hierarchy, cgroups: Sequence[ContainerCgroup], directory: Path) -> None:
        originals = Originals(directory, hierarchy)
        adopted = [originals.adopt(cgroup) for cgroup in cgroups]
        self._containers = [container for container in adopted if isinstance(container, Container)]
        for container in self._containers:
            container.burst = self._burst
        self._recommenders = [
            (Autopilot(*self._CPU, TUNED[0]), Autopilot(*self._MEMORY, TUNED[1])) for _ in cgroups
        ]
        self._samples: list[tuple[list[float], list[float]]] = [([], []) for _ in cgroups]
        self._before: dict[int, tuple[float, Cpu]] = {}
        self._kills = [self._oom_kills(container) for container in self._containers]
        for at, (used, held) in enumerate(self._history):
            for limit in self._learn(at, used, held):
                self._set(at, limit)
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

    def _learn(self, at: int, used: Sequence[float], held: Sequence[float]) -> list[tuple[float, float]]:
        """The last recommendation after these samples; empty if there are too few for one period."""
        size, last = round(self._every_s / _TICK_S), []
        for begin in range(0, len(used) - min(size, len(used)) + 1, size) if used else ():
            cpu, memory = self._recommenders[at]
            last = [(cpu.recommend(used[begin : begin + size]), memory.recommend(held[begin : begin + size]))]
        return last

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
                for at, (cpu, memory) in enumerate(self._recommenders):
                    used, held = self._samples[at]
                    if used:
                        self._set(at, (cpu.recommend(used), memory.recommend(held)))
                    self._samples[at] = [], []

    def _sample(self, at: int, container: Container, now_s: float) -> None:
        cpu, memory, kills = container.cpu(), container.memory(), self._oom_kills(container)
        if not isinstance(cpu, Cpu) or not isinstance(memory, Memory):
            return
        before_s, before = self._before.get(at, (now_s, cpu))
        if now_s > before_s:
            used, held = self._samples[at]
            used.append((cpu.used_us - before.used_us) / ((now_s - before_s) * 1e6 / PERIOD_US))
            killed = kills > self._kills[at] and memory.limit_bytes
            held.append(
                OOM_BUMP * memory.limit_bytes if killed and memory.limit_bytes else memory.usage_bytes
            )
        self._before[at], self._kills[at] = (now_s, cpu), kills

    def _set(self, at: int, limits: tuple[float, float]) -> None:
        """Where the kernel refuses a cut, because more memory is in use, the limit stays."""
        self._containers[at].set_quota(int(limits[0]))
        self._containers[at].set_memory_limit(int(limits[1]))

    @staticmethod
    def _oom_kills(container: Container) -> int:
        kills = container.oom_kills()
        return kills if isinstance(kills, int) else 0
