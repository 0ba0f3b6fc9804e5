"""Containers on real cgroups, and an agent's loop that raises memory limits. Also used in a guest."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from limit_allocator.cgroups.container import Container, EventKind
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.memory_events import MemoryEvents

__all__ = ["MIB", "Growth", "Load", "Node", "grow"]

MIB = 1 << 20
_LOAD = Path(__file__).with_name("load.py")
_V1 = ("cpu", "cpuacct", "memory")


@dataclass
class Load:
    """A process in a container, which begins when told to."""

    process: subprocess.Popen[str]

    def begin(self) -> None:
        self._say()

    def end(self) -> None:
        """Let it go; it is waiting with its memory until then."""
        with suppress(BrokenPipeError):
            self._say()
        self.process.wait(timeout=30)

    def report(self) -> dict[str, float]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        said: dict[str, float] = json.loads(line) if line else {}
        return said

    def _say(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@dataclass
class Node:
    """A part of this machine's cgroup tree, laid out as a kubelet does."""

    hierarchy: Hierarchy
    loads: list[Load] = field(default_factory=list)

    @property
    def trees(self) -> list[Path]:
        names = _V1 if self.hierarchy.version == 1 else ("",)
        return [self.hierarchy.tree(name) for name in names]

    def add(self, pod: str = "") -> ContainerCgroup:
        """Make a container of a Guaranteed pod."""
        uid = pod or f"{secrets.token_hex(4)}-0000-4000-8000-{secrets.token_hex(6)}"
        cgroup = ContainerCgroup(f"kubepods/pod{uid}/{secrets.token_hex(32)}")
        for tree in self.trees:
            (tree / cgroup.path).parent.mkdir(parents=True, exist_ok=True)
            if self.hierarchy.version == 2:
                for above in (self.hierarchy.mount, tree, tree / "kubepods", (tree / cgroup.path).parent):
                    (above / "cgroup.subtree_control").write_text("+cpu +memory")
            (tree / cgroup.path).mkdir()
        return cgroup

    def directories(self, cgroup: ContainerCgroup) -> list[Path]:
        return [tree / cgroup.path for tree in self.trees]

    def file(self, cgroup: ContainerCgroup, name: str) -> Path:
        return next(path / name for path in self.directories(cgroup) if (path / name).exists())

    def start(self, cgroup: ContainerCgroup, mode: str, amount: int, file: str = "") -> Load:
        places = map(str, self.directories(cgroup))
        argv = [sys.executable, "-IS", str(_LOAD), mode, str(amount), file, *places]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        load = Load(process)
        self.loads.append(load)
        assert process.stdout
        assert process.stdout.readline() == "joined\n"
        return load

    def remove(self, cgroup: ContainerCgroup) -> None:
        for path in self.directories(cgroup):
            _remove(path)

    def close(self) -> None:
        """End its processes and remove its cgroups."""
        for tree in self.trees:  # a process that waits for memory dies only when it goes on
            for file in tree.rglob("memory.oom_control"):
                with suppress(OSError):
                    file.write_text("0")
        for load in self.loads:
            load.process.kill()
            load.process.communicate()
        for tree in self.trees:
            for path, _, _ in os.walk(tree, topdown=False):
                _remove(Path(path))


def _remove(path: Path) -> None:
    for _ in range(200):  # a killed process leaves its group a moment later
        with suppress(FileNotFoundError):
            try:
                path.rmdir()
            except OSError:
                time.sleep(0.02)
                continue
        return
    path.rmdir()


@dataclass
class Growth:
    """What became of a process that grew."""

    report: dict[str, float]
    counts: Counter[EventKind]
    raises: int
    kills: int
    slowest_ms: float  # from an event to the limit that answers it


def grow(load: Load, container: Container, step_bytes: int, reaction_s: float = 0.0) -> Growth:
    """Raise a container's limit by a step for each event until its process has grown or died."""
    events = MemoryEvents()
    events.watch(container)
    events.settle()
    assert load.process.stdout
    os.set_blocking(load.process.stdout.fileno(), False)
    counts: Counter[EventKind] = Counter()
    raises, slowest_s, said = 0, 0.0, ""
    load.begin()
    until_s = time.monotonic() + 120
    while not said and load.process.poll() is None and time.monotonic() < until_s:
        events.wait(0.02)
        began_s = time.monotonic()
        for event in events.collect(began_s):
            counts[event.kind] += 1
            if event.kind is EventKind.NEEDS_MEMORY:
                now = container.memory()
                limit_bytes = getattr(now, "limit_bytes", None) or 0
                time.sleep(reaction_s)
                container.set_memory_limit(limit_bytes + step_bytes)
                raises += 1
                slowest_s = max(slowest_s, time.monotonic() - began_s)
        events.settle()
        said = load.process.stdout.readline()
    events.close()
    kills = container.oom_kills()
    assert isinstance(kills, int)
    return Growth(json.loads(said) if said else {}, counts, raises, kills, slowest_s * 1e3)
