"""The machine of a real node: namespaces of processes, mounts and network that share the host's kernel.

Files are the host's, except /run, /var/lib and /var/log, which lie in the lab's directory. Killing the first
process switches the machine off.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import IO

from kwok.errors import LabError, ProcessError
from kwok.lab import Lab
from kwok.network import addresses, bridge
from kwok.processes import Process
from kwok.real_node import init
from kwok.real_node.init import PLACES, READY
from kwok.real_node.requirements import SEARCH_PATH

__all__ = ["Machine"]

_CONFIGURATION = "/run/surgekit"


@dataclass(frozen=True)
class Machine:
    """One machine on the lab's bridge. Create it with `Machine.start`."""

    lab: Lab
    index: int

    @classmethod
    def start(cls, lab: Lab, index: int) -> Machine:
        machine = cls(lab, index)
        machine.directory.mkdir(parents=True, exist_ok=True)
        ready = machine.directory / READY
        ready.unlink(missing_ok=True)
        argv: list[str | Path] = [
            "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
            sys.executable, "-IS", init.__file__, machine.directory,
        ]  # fmt: skip
        lab.start(machine.name, argv, ready=ready.exists)
        bridge.join(lab.directory, machine.name, machine.network, machine.address, machine.pods)
        return machine

    @property
    def name(self) -> str:
        """Also the name of the Node."""
        return f"real-{self.index}"

    @property
    def address(self) -> IPv4Address:
        return addresses.real_node(self.index)

    @property
    def pods(self) -> IPv4Network:
        return addresses.real_pods(self.index)

    @property
    def directory(self) -> Path:
        return self.lab.directory / self.name

    @property
    def network(self) -> Path:
        """Its network namespace."""
        return self._namespaces / "net"

    @cached_property
    def _namespaces(self) -> Path:
        process = self.lab.processes.find(self.name)
        if process is None:
            raise LabError(f"lab {self.lab.name}: {self.name} does not run")
        return Path(f"/proc/{process.pid}/ns")

    def start_process(
        self, program: str, argv: list[str | Path], ready: Callable[[], bool] | None = None
    ) -> Process:
        """Start a process of the lab on this machine."""
        return self.lab.start(
            f"{self.name}-{program}", [*self._enter(), *argv], env={"PATH": SEARCH_PATH}, ready=ready
        )

    def run(self, *argv: str | Path, stdin: IO[bytes] | None = None) -> str:
        """Run a command to its end on this machine; its output."""
        command = [*self._enter(), *map(str, argv)]
        done = subprocess.run(
            command, env={"PATH": SEARCH_PATH}, stdin=stdin or subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        if done.returncode != 0:
            raise ProcessError(f"{self.name}: {' '.join(map(str, argv))}: {done.stderr.strip()}")
        return done.stdout

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file of configuration; its path on the machine."""
        path = self.outside(f"{_CONFIGURATION}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return Path(_CONFIGURATION, name)

    def outside(self, path: str) -> Path:
        """The host's path of a file in one of the machine's own directories."""
        place = next(place for place in PLACES if path.startswith(f"{place}/"))
        return self.directory / PLACES[place] / path.removeprefix(f"{place}/")

    def _enter(self) -> list[str]:
        ours = self._namespaces
        return ["nsenter", f"--mount={ours}/mnt", f"--net={ours}/net", f"--pid={ours}/pid_for_children"]
