"""The cgroup that holds all instances, and each instance's below it. Both versions of cgroups."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["Cgroups"]

_PERIOD_US = 100_000
# Instances are few, and somebody waits for each. Together they may use no more than the share's quota, so
# within that they come first: the weight of a pod that requests eight cores.
_SHARES, _WEIGHT = "8192", "313"
_CONTROLLERS = ("cpu", "memory", "pids")
_PATIENCE_S = 5.0  # a killed process leaves its group a moment later


class Cgroups:
    """Paths are those of the agent's mounts. An instance's group has its name."""

    def __init__(self, mount: Path, name: str) -> None:
        self._unified = (mount / "cgroup.controllers").exists()
        trees = [mount] if self._unified else [
            path for path in sorted(mount.iterdir()) if path.is_dir() and not path.is_symlink()
        ]  # fmt: skip
        self._mount, self._name = mount, name
        self._parents = [tree / name for tree in trees]
        self._freezer = mount / name if self._unified else mount / "freezer" / name
        self._memory = mount / name if self._unified else mount / "memory" / name
        self._cpu = mount / name if self._unified else mount / "cpu" / name

    @property
    def accounts_for_swap(self) -> bool:
        return self._unified or (self._mount / "memory" / "memory.memsw.limit_in_bytes").exists()

    def path(self, name: str) -> str:
        """As a runtime names an instance's group."""
        return f"/{self._name}/{name}"

    def begin(self, cpu_millis: int, memory_bytes: int) -> None:
        """Make the group, with the share as its limits. Raise OSError."""
        for parent in self._parents:
            parent.mkdir(exist_ok=True)
        if self._unified:
            for above in (self._mount, self._mount / self._name):
                for controller in _CONTROLLERS:
                    _write(above / "cgroup.subtree_control", f"+{controller}")
            _write(self._cpu / "cpu.weight", _WEIGHT)
            _write(self._cpu / "cpu.max", f"{_quota_us(cpu_millis)} {_PERIOD_US}")
            _write(self._memory / "memory.max", str(memory_bytes))
            return
        _write(self._cpu / "cpu.shares", _SHARES)
        _write(self._cpu / "cpu.cfs_period_us", str(_PERIOD_US))
        _write(self._cpu / "cpu.cfs_quota_us", str(_quota_us(cpu_millis)))
        self._limit_memory(memory_bytes)

    def _limit_memory(self, memory_bytes: int) -> None:
        """The limit of memory with swap may never lie below that of memory: which is first depends."""
        files = [self._memory / "memory.limit_in_bytes"]
        if self.accounts_for_swap:
            files.append(self._memory / "memory.memsw.limit_in_bytes")
        try:
            for file in files:
                _write(file, str(memory_bytes))
        except OSError:
            for file in reversed(files):
                _write(file, str(memory_bytes))

    def end(self) -> None:
        """Kill all that is left, and remove every group."""
        for name in self.names():
            self.kill(name)
        for name in self.names():
            self.remove(name)
        for parent in self._parents:
            with suppress(OSError):
                parent.rmdir()

    def names(self) -> set[str]:
        """Instances that have a group in any tree."""
        return {
            group.name
            for parent in self._parents
            if parent.is_dir()
            for group in parent.iterdir()
            if group.is_dir()
        }

    def freeze(self, name: str) -> None:
        """Raise OSError. Returns before the last task stands still."""
        if self._unified:
            _write(self._freezer / name / "cgroup.freeze", "1")
        else:
            _write(self._freezer / name / "freezer.state", "FROZEN")

    def frozen(self, name: str) -> bool:
        if self._unified:
            return "frozen 1" in (self._freezer / name / "cgroup.events").read_text()
        return (self._freezer / name / "freezer.state").read_text().strip() == "FROZEN"

    def thaw(self, name: str) -> None:
        """Raise OSError."""
        if self._unified:
            _write(self._freezer / name / "cgroup.freeze", "0")
        else:
            _write(self._freezer / name / "freezer.state", "THAWED")

    def kill(self, name: str) -> None:
        """Kill all processes of an instance, also frozen ones. Returns before they are gone."""
        if self._unified:
            with suppress(OSError):
                _write(self._freezer / name / "cgroup.kill", "1")
            return
        for pid in self._pids(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(OSError):  # version 1 delivers no signal to what is frozen
            self.thaw(name)

    def remove(self, name: str) -> None:
        """Remove an instance's groups, whose processes were killed. Raise OSError if they do not end."""
        deadline_s = time.monotonic() + _PATIENCE_S
        for parent in self._parents:
            while (group := parent / name).exists():
                try:
                    group.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    if time.monotonic() > deadline_s:
                        raise
                    for pid in self._pids(name):
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    _remove_below(group)
                    time.sleep(0.005)

    def memory_bytes(self, name: str = "") -> int:
        """What an instance (or all) uses; 0 if there is none."""
        file = "memory.current" if self._unified else "memory.usage_in_bytes"
        with suppress(OSError, ValueError):
            return int((self._memory / name / file).read_text())
        return 0

    def _pids(self, name: str) -> set[int]:
        found: set[int] = set()
        for parent in self._parents:
            with suppress(OSError):
                found.update(map(int, (parent / name / "cgroup.procs").read_text().split()))
        return found


def _remove_below(group: Path) -> None:
    """Groups that an instance made inside its own."""
    for directory, _, _ in os.walk(group, topdown=False):
        if Path(directory) != group:
            with suppress(OSError):
                os.rmdir(directory)


def _quota_us(cpu_millis: int) -> int:
    return max(cpu_millis * _PERIOD_US // 1000, 1_000)


def _write(file: Path, text: str) -> None:
    """One write call, whose error is seen: a buffered one hides it."""
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
