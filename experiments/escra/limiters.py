"""What sets limits during a run. Each arm has one; `start` is called when the containers run."""

from __future__ import annotations

import threading
import time
from abc import ABC
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.escra.autopilot import Autopilot, Weights
from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.cgroups.container import Container, Cpu, Memory
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.originals import Originals

__all__ = ["AutopilotLimits", "Limiter", "Looping"]

_MIB = 1 << 20


class Limiter(ABC):  # noqa: B024  # the limits that containers begin with stay: the static arms
    """Sets limits from `start` to `stop`."""

    def start(self, hierarchy: Hierarchy, cgroups: Sequence[ContainerCgroup], directory: Path) -> None:  # noqa: B027
        """Begin. `directory` is empty, and there until `stop`."""

    def stop(self) -> Mapping[str, Any]:
        """End; what it has to say about itself."""
        return {}


class Looping(Limiter):
    """One that looks every 100 ms in a thread of this process."""

    TICK_S = 0.1

    def start(self, hierarchy: Hierarchy, cgroups: Sequence[ContainerCgroup], directory: Path) -> None:
        originals = Originals(directory, hierarchy)
        adopted = [originals.adopt(cgroup) for cgroup in cgroups]
        self.containers = [container for container in adopted if isinstance(container, Container)]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="limits", daemon=True)
        self._thread.start()

    def stop(self) -> Mapping[str, Any]:
        self._ended.set()
        self._thread.join()
        for container in self.containers:
            container.close()
        return {}

    def _run(self) -> None:
        self.begin(time.monotonic())
        next_s = time.monotonic() + self.TICK_S
        while not self._ended.is_set():
            self.wait_until(next_s)
            now_s = time.monotonic()
            self.tick(now_s)
            next_s = max(next_s + self.TICK_S, now_s)

    def wait_until(self, next_s: float) -> None:
        time.sleep(max(next_s - time.monotonic(), 0.0))

    def begin(self, now_s: float) -> None: ...

    def tick(self, now_s: float) -> None: ...


class AutopilotLimits(Looping):
    """Autopilot for both resources of each container. It samples every 100 ms; the original every second."""

    # Limits on offer: up to this machine's two cores, and to a GiB.
    _CPU = (PERIOD_US / 100, 200)
    _MEMORY = (4.0 * _MIB, 256)

    def __init__(self, every_s: float, weights: tuple[Weights, Weights]) -> None:
        self._every_s, self._weights = every_s, weights

    def begin(self, now_s: float) -> None:
        count = len(self.containers)
        self._cpu = [Autopilot(*self._CPU, self._weights[0]) for _ in range(count)]
        self._memory = [Autopilot(*self._MEMORY, self._weights[1]) for _ in range(count)]
        self._samples: list[tuple[list[float], list[float]]] = [([], []) for _ in range(count)]
        self._before: dict[int, tuple[float, Cpu]] = {}
        self._due_s = now_s + self._every_s

    def tick(self, now_s: float) -> None:
        for at, container in enumerate(self.containers):
            cpu, memory = container.cpu(), container.memory()
            if not isinstance(cpu, Cpu) or not isinstance(memory, Memory):
                continue
            before_s, before = self._before.get(at, (now_s, cpu))
            if now_s > before_s:
                periods = (now_s - before_s) * 1e6 / PERIOD_US
                self._samples[at][0].append((cpu.used_us - before.used_us) / periods)
                self._samples[at][1].append(float(memory.usage_bytes))
            self._before[at] = now_s, cpu
        if now_s < self._due_s:
            return
        self._due_s += self._every_s
        for at, container in enumerate(self.containers):
            used, held = self._samples[at]
            if used:
                container.set_quota(int(self._cpu[at].recommend(used)))
                container.set_memory_limit(int(self._memory[at].recommend(held)))
            self._samples[at] = [], []
