"""The runtime behind a small interface: what makes a container of a bundle, and starts it.

A created container has its namespaces, cgroups and mounts; its first process waits. `start` lets it go on.
runc and crun let that process wait on a FIFO, exec.fifo in the container's state. Reading from it is all that
`runc start` does; doing it here saves a process of 8 ms of CPU on the critical path. Where there is no such
file, `RUNTIME start` is run. In the same way `delete` removes what is left after the last process has ended
(state and cgroups), where `runc delete` takes 8 ms of CPU.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from burst_plane.agent.kernel import SEARCH_PATH, Child, run

__all__ = ["OciRuntime", "Runtime", "RuntimeFault"]

_CREATE_S, _START_S = 30.0, 10.0
_LONGEST_MESSAGE = 300


class RuntimeFault(Exception):
    """The runtime refused, or did not answer."""


class Runtime(Protocol):
    """All names are ours, of letters and digits. A microVM monitor such as Firecracker fits behind it:
    `create` restores a snapshot that is paused, `start` resumes it."""

    async def create(self, name: str, bundle: Path, output: tuple[int, int]) -> int:
        """Make a container that waits, writing to `output`; the pid of its first process, a child of ours.
        Raise RuntimeFault."""

    async def start(self, name: str) -> None:
        """Let it run. Raise RuntimeFault."""

    def delete(self, name: str) -> None:
        """Forget a container without processes. May block for a moment."""


class OciRuntime:
    """runc, or crun."""

    def __init__(self, program: str, root: Path) -> None:
        self._program, self._root = program, root
        self._environment = {
            "PATH": SEARCH_PATH,
            "XDG_RUNTIME_DIR": str(root),
        }

    async def create(self, name: str, bundle: Path, output: tuple[int, int]) -> int:
        pid_file, log = bundle / "pid", bundle / "runtime.log"
        argv = [
            self._program, "--root", str(self._root), "--log", str(log),
            "create", "--bundle", str(bundle), "--pid-file", str(pid_file), name,
        ]  # fmt: skip
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            child = Child.start(argv, (nothing, *output), self._environment, niceness=10)
        except OSError as error:
            raise RuntimeFault(f"{self._program}: {error}") from error
        finally:
            os.close(nothing)
        try:
            code = await asyncio.wait_for(asyncio.shield(child.ended), _CREATE_S)
        except TimeoutError:
            child.kill()
            raise RuntimeFault(f"create took longer than {_CREATE_S:g} s") from None
        if code != 0:
            raise RuntimeFault(f"create: {_last_line(log)}")
        pid = int(pid_file.read_text())
        _hurry(pid)
        return pid

    async def start(self, name: str) -> None:
        try:
            await _let_go(self._root / name / "exec.fifo")
        except FileNotFoundError:
            argv = [self._program, "--root", str(self._root), "start", name]
            code, _, said = await run(argv, environment=self._environment, timeout_s=_START_S)
            if code != 0:
                raise RuntimeFault(
                    f"start: {said.decode(errors='replace').strip()[-_LONGEST_MESSAGE:]}"
                ) from None
        except OSError as error:
            raise RuntimeFault(f"start: {error}") from error

    def delete(self, name: str) -> None:
        shutil.rmtree(self._root / name, ignore_errors=True)


async def _let_go(fifo: Path) -> None:
    """Raise OSError. The writer waits in open(2) until there is a reader, writes a byte, and executes."""
    loop = asyncio.get_running_loop()
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        written: asyncio.Future[None] = loop.create_future()
        loop.add_reader(descriptor, _set, written)
        try:
            await asyncio.wait_for(written, _START_S)
        finally:
            loop.remove_reader(descriptor)
    finally:
        os.close(descriptor)
    fifo.unlink()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _hurry(pid: int) -> None:
    """Take the niceness of `create` from the container's first process. Linux has one for each thread."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, int(thread), 0)


def _last_line(log: Path) -> str:
    with suppress(OSError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return lines[-1][-_LONGEST_MESSAGE:] if lines else "no reason given"
    return "no reason given"
