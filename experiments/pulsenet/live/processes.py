"""CPU time of a lab's processes, by what they are, from /proc. Emulation has names of its own."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from kwok.cgroups import trees

__all__ = ["EMULATION", "FUNCTIONS", "ProcessTimes", "kind_of"]

EMULATION, FUNCTIONS = "emulation", "functions"
_PROC, _MARK = Path("/proc"), "SURGEKIT_LAB"
_TICKS = os.sysconf("SC_CLK_TCK")
_PROGRAMS = {
    "haproxy", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "containerd",
}  # fmt: skip
# The agent reaps runtimes and functions' processes; their time is then in its children's.
_WITH_CHILDREN = {"pulselet", "containerd"}


def kind_of(command: list[str]) -> str:
    """`surgekit serve X` is X; everything that only a lab has is emulation."""
    if not command:
        return ""
    program = os.path.basename(command[0])
    if program in _PROGRAMS:
        return program
    if "serve" in command and "surgekit" in command:
        return command[command.index("serve") + 1]
    return EMULATION


class ProcessTimes:
    """Of the lab in `directory`; `group` is the cgroup of emergency instances."""

    def __init__(self, directory: Path, group: str) -> None:
        self._mark = f"{_MARK}={directory}".encode()
        self._group = group
        self._others: set[int] = set()

    def cpu_s(self) -> dict[str, float]:
        """Since each began. Of the agent's children the functions' share is taken off."""
        found: dict[str, float] = {}
        for entry in _PROC.iterdir():
            if entry.name.isdigit() and int(entry.name) not in self._others:
                with suppress(OSError):
                    self._add(entry, found)
        functions_s = self._functions_s()
        if "pulselet" in found:
            found["pulselet"] = max(found["pulselet"] - functions_s, 0.0)
        found[FUNCTIONS] = functions_s
        return {kind: round(seconds, 2) for kind, seconds in found.items()}

    def _add(self, entry: Path, found: dict[str, float]) -> None:
        if self._mark not in (entry / "environ").read_bytes().split(b"\0"):
            self._others.add(int(entry.name))
            return
        command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        kind = kind_of([word for word in command if word])
        # proc(5), counted from the state, which follows the name (names may have blanks).
        fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        ticks = sum(int(field) for field in fields[11 : 15 if kind in _WITH_CHILDREN else 13])
        found[kind] = found.get(kind, 0.0) + ticks / _TICKS

    def _functions_s(self) -> float:
        """Of all containers in the group, those that are gone included."""
        for tree in trees():
            with suppress(OSError):
                return int((tree / self._group / "cpuacct.usage").read_text()) / 1e9
            with suppress(OSError):
                words = (tree / self._group / "cpu.stat").read_text().split()
                if "usage_usec" in words:
                    return int(words[words.index("usage_usec") + 1]) / 1e6
        return 0.0
