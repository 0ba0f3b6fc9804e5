"""Adds up the limits of all pods there are, every 100 ms: a thread.

A pod that has no limit of ours yet runs at its ceiling, the application's whole limit. It counts with what
its author wrote, and `at_ceiling` says how many there were.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.escra.serverless.model import ServerlessRun
from kwok.errors import LabError
from limit_allocator.cgroups.container import Container, Cpu, Gone
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.opening import open_container

__all__ = ["Aggregate", "Sums"]

_SAMPLE_S = 0.1
_MIB = 1 << 20


@dataclass
class Sums:
    """One value a sample."""

    at_s: list[float] = field(default_factory=list)
    pods: list[int] = field(default_factory=list)
    at_ceiling: list[int] = field(default_factory=list)  # of the pods
    cpu_limit_us: list[int] = field(default_factory=list)  # per period
    memory_limit_mib: list[float] = field(default_factory=list)
    memory_used_mib: list[float] = field(default_factory=list)


class Aggregate:
    """For a `with` block; afterwards `sums` is complete."""

    def __init__(
        self, hierarchy: Hierarchy, run: ServerlessRun, present: Callable[[], Sequence[ContainerCgroup]]
    ) -> None:
        self._hierarchy, self._present = hierarchy, present
        self._ceiling_us = run.arm.total(run.function)[0] if run.arm.ours else None
        self._spec = run.arm.spec
        self._opened: dict[ContainerCgroup, Container] = {}
        self.sums = Sums()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aggregate", daemon=True)

    def __enter__(self) -> Aggregate:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        died = not self._thread.is_alive()
        self._ended.set()
        self._thread.join()
        for container in self._opened.values():
            container.close()
        if died:
            raise LabError("the thread that adds up limits ended before the run did")

    def _run(self) -> None:
        next_s = time.monotonic()
        while not self._ended.wait(max(next_s - time.monotonic(), 0.0)):
            next_s = max(next_s + _SAMPLE_S, time.monotonic())
            self._sample()

    def _sample(self) -> None:
        present = set(self._present())
        for gone in self._opened.keys() - present:
            self._opened.pop(gone).close()
        for new in present - self._opened.keys():
            container = open_container(self._hierarchy, new)
            if isinstance(container, Container):
                self._opened[new] = container
        read = [(container.cpu(), container.memory()) for container in self._opened.values()]
        there = [(cpu, m) for cpu, m in read if not isinstance(cpu, Gone) and not isinstance(m, Gone)]
        sums, (spec_us, spec_bytes) = self.sums, self._spec
        limited = [(cpu.quota_us or 0, m.limit_bytes or 0) for cpu, m in there if not self._waits(cpu)]
        waiting = len(there) - len(limited)
        sums.at_s.append(time.monotonic())
        sums.pods.append(len(there))
        sums.at_ceiling.append(waiting)
        sums.cpu_limit_us.append(sum(quota_us for quota_us, _ in limited) + waiting * spec_us)
        limits_bytes = sum(limit_bytes for _, limit_bytes in limited) + waiting * spec_bytes
        sums.memory_limit_mib.append(limits_bytes / _MIB)
        sums.memory_used_mib.append(sum(m.usage_bytes for _, m in there) / _MIB)

    def _waits(self, cpu: Cpu) -> bool:
        return self._ceiling_us is not None and cpu.quota_us == self._ceiling_us
