"""Containers on this machine's cgroups, laid out as a kubelet does, without a kubelet.

Everything lies below one group of its own and carries one mark, so that a watchdog removes it however the
bench ends (`kwok.watchdog`).
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kwok.binaries import Binaries
from kwok.cgroups import cgroup_name
from kwok.errors import LabError
from kwok.processes import marked_environment, take_down
from kwok.watchdog import Watchdog
from limit_allocator.cgroups.container import Gone, Limits
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.opening import open_container

__all__ = ["Node", "has_burst", "why_not"]

_V1 = ("cpu", "cpuacct", "memory")


def why_not() -> str | None:
    """What this machine lacks to run containers in cgroups, or None."""
    if os.geteuid() != 0:
        return "root is needed to make cgroups"
    mount = Hierarchy().mount
    if Hierarchy().version == 2:
        missing = {"cpu", "memory"} - set((mount / "cgroup.controllers").read_text().split())
    else:
        missing = {name for name in _V1 if not (mount / name / "cgroup.procs").exists()}
    return f"{mount} has no {', '.join(sorted(missing))} controller" if missing else None


def has_burst() -> bool:
    """Whether this kernel lets containers save up CPU time (cpu.cfs_burst_us, cpu.max.burst)."""
    return tuple(int(number) for number in platform.release().split("-")[0].split(".")[:2]) >= (5, 14)


class Node:
    """One directory of files and one group of cgroups."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.hierarchy = Hierarchy(root=cgroup_name(directory))
        self._microservice = Binaries().path("microservice")

    @classmethod
    @contextmanager
    def temporary(cls) -> Iterator[Node]:
        """A node for a `with` block. It ends with this process, however that ends."""
        if reason := why_not():
            raise LabError(f"containers cannot run here: {reason}")
        directory = Path(tempfile.mkdtemp(prefix="surgekit-escra-"))
        watchdog = Watchdog(directory)
        try:
            yield cls(directory)
        finally:
            take_down(directory)
            watchdog.dismiss("down")

    def add(self, limits: Limits) -> ContainerCgroup:
        """Make a container of a pod of its own, with limits as its spec would have them."""
        uid = f"{secrets.token_hex(4)}-0000-4000-8000-{secrets.token_hex(6)}"
        cgroup = ContainerCgroup(f"kubepods/burstable/pod{uid}/{secrets.token_hex(32)}")
        for path in self._directories(cgroup):
            path.mkdir(parents=True)
            if self.hierarchy.version == 2:  # controllers are handed down only when told to
                for above in reversed(path.parents[:5]):
                    with suppress(OSError):
                        (above / "cgroup.subtree_control").write_text("+cpu +memory")
        self._weigh()
        container = open_container(self.hierarchy, cgroup)
        if isinstance(container, Gone):
            raise LabError(f"{cgroup.path}: gone at once")
        container.write_back(limits)
        container.close()
        return cgroup

    def remove(self, cgroup: ContainerCgroup) -> None:
        """Remove a container's and its pod's group; its processes are dead."""
        for path in self._directories(cgroup):
            for group in (path, path.parent):
                with suppress(OSError):
                    group.rmdir()

    def start(self, cgroup: ContainerCgroup, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a microservice in a container."""
        joined = ",".join(map(str, self._directories(cgroup)))
        with (self.directory / "microservice.log").open("ab") as log:
            return subprocess.Popen(
                [self._microservice, "-cgroups", joined, *arguments],
                # Two threads at once, whatever Go makes of the limits: they change all the time.
                env=marked_environment(self.directory, {"GOMAXPROCS": "2"}),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def let_go(self, cgroup: ContainerCgroup) -> None:
        """v1: processes that wait for memory can end only when the kernel may kill them."""
        for path in self._directories(cgroup):
            with suppress(OSError):
                if (path / "memory.oom_control").exists():
                    (path / "memory.oom_control").write_text("0")

    def clear(self, name: str) -> Path:
        """An empty directory."""
        shutil.rmtree(self.directory / name, ignore_errors=True)
        (self.directory / name).mkdir()
        return self.directory / name

    def _weigh(self) -> None:
        """v1: as a kubelet does; else all containers together weigh as much as one process outside."""
        for path in (self.hierarchy.tree("cpu"), self.hierarchy.tree("cpu") / "kubepods"):
            with suppress(OSError):
                if (path / "cpu.shares").exists():
                    (path / "cpu.shares").write_text(str(1024 * (os.cpu_count() or 1)))

    def _directories(self, cgroup: ContainerCgroup) -> list[Path]:
        names = _V1 if self.hierarchy.version == 1 else ("",)
        return [self.hierarchy.tree(name) / cgroup.path for name in names]
