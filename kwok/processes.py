"""Start the processes of a lab with a mark, find them by it, and end them without leftovers.

Every process of a lab, including those that kwokctl starts, inherits `SURGEKIT_LAB=<directory>` in its
environment. So anybody can remove a lab at any time, even if its creator was killed between starting a
process and writing its pid. Without /proc, pid files are used.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kwok.cgroups import remove_cgroups
from kwok.errors import ProcessError
from kwok.network_namespace import entering, remove_namespaces

__all__ = ["Process", "Processes", "marked_environment", "take_down"]

_MARK = "SURGEKIT_LAB"
# Between SIGTERM and SIGKILL: of a process alone (a controller gives its Lease back first), of a whole lab.
_GRACE_S, _GRACE_OF_A_LAB_S = 30.0, 5.0
_PATIENCE_S = 60.0  # for processes that survive SIGKILL: stuck in the kernel, or not ours
_MARKED_S = 1.0  # until a new process shows its environment; it does within microseconds
_PROC = Path("/proc")
# Children to wait for, or they stay as zombies. They may outlive the object that started them.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class Process:
    """A running process of a lab, and the port that it serves, if any."""

    name: str
    pid: int
    log: Path
    port: int | None = None

    def alive(self) -> bool:
        return _alive(self.pid)


class Processes:
    """Starts and ends named processes. Pid files let another invocation end them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._logs, self._pids = directory / "logs", directory / "pids"

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
        timeout_s: float = 90.0,
        port: int | None = None,
        outside: bool = False,
    ) -> Process:
        """Start `argv` and wait until `ready()`; an error shows the process's last log lines.

        It runs in the lab's network, if the lab has its own, unless `outside`.
        """
        if (known := self.find(name)) and known.alive():
            raise ProcessError(f"{name} is already running (pid {known.pid})")
        self._logs.mkdir(parents=True, exist_ok=True)
        self._pids.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{name}.log"
        enter = [] if outside else entering(self._directory)
        with log.open("ab") as output:
            begin = output.tell()
            # A session of its own, so that Ctrl-C in the terminal does not reach it.
            child = subprocess.Popen(
                [*enter, *(str(a) for a in argv)],
                env=marked_environment(self._directory, env),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        _children[child.pid] = child
        # For a moment after exec a process has no environment yet, and `find` would miss it.
        deadline_s = time.monotonic() + _MARKED_S
        while child.poll() is None and not _is_of(child.pid, self._directory):
            if time.monotonic() > deadline_s:
                break
            time.sleep(0.001)
        (self._pids / f"{name}.pid").write_text(str(child.pid))
        process = Process(name, child.pid, log, port)
        self._await(process, ready, timeout_s, begin)
        return process

    def _await(
        self, process: Process, ready: Callable[[], bool] | None, timeout_s: float, begin: int
    ) -> None:
        deadline_s = time.monotonic() + timeout_s
        while ready is not None and not ready():
            _reap()
            if not process.alive():
                raise ProcessError(f"{process.name} ended while starting:\n{_tail(process.log, begin)}")
            if time.monotonic() > deadline_s:
                self.stop(process.name)
                raise ProcessError(
                    f"{process.name} was not ready after {timeout_s:g} s:\n{_tail(process.log, begin)}"
                )
            time.sleep(0.05)

    def find(self, name: str) -> Process | None:
        try:
            pid = int((self._pids / f"{name}.pid").read_text())
        except (OSError, ValueError):
            return None
        return Process(name, pid, self._logs / f"{name}.log") if _is_of(pid, self._directory) else None

    def all(self) -> list[Process]:
        """The processes started here that still run, by name."""
        found = (self.find(file.stem) for file in sorted(self._pids.glob("*.pid")))
        return [process for process in found if process]

    def end_first(self, name: str) -> None:
        """End it before all others when the lab goes: it cleans up with their help."""
        (self._pids / f"{name}.first").touch()

    def stop(self, name: str) -> None:
        """End it with SIGTERM; nothing to do if it does not run."""
        self._end(name, signal.SIGTERM)

    def kill(self, name: str) -> None:
        """End it with SIGKILL, as a crash would."""
        self._end(name, signal.SIGKILL)

    def _end(self, name: str, how: signal.Signals) -> None:
        if process := self.find(name):
            _signal_group(process.pid, how)
            deadline_s = time.monotonic() + _GRACE_S
            while process.alive():
                _reap()
                if time.monotonic() > deadline_s:
                    _signal_group(process.pid, signal.SIGKILL)
                time.sleep(0.01)
        _reap()
        (self._pids / f"{name}.pid").unlink(missing_ok=True)


def _reap() -> None:
    for pid, child in list(_children.items()):
        if child.poll() is not None:
            del _children[pid]


def marked_environment(directory: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment that marks a process, and all it starts, as part of the lab in `directory`."""
    return dict(os.environ) | dict(extra or {}) | {_MARK: str(directory)}


def take_down(directory: Path) -> None:
    """End every process of the lab in `directory` and delete the directory. Works on half a lab."""
    _end_first(directory)
    start_s = time.monotonic()
    while pids := _pids_of(directory):
        waited_s = time.monotonic() - start_s
        if waited_s > _PATIENCE_S:
            raise ProcessError(f"processes of {directory} cannot be ended: {pids}")
        how = signal.SIGTERM if waited_s < _GRACE_OF_A_LAB_S else signal.SIGKILL
        for pid in pids:
            _signal(pid, how)
        _reap()
        # A child that is just being started may be missed once, and is found in the next round.
        time.sleep(0.05)
    _reap()
    remove_namespaces(directory)
    remove_cgroups(directory)
    shutil.rmtree(directory, ignore_errors=True)


def _end_first(directory: Path) -> None:
    """End the processes that clean up with the help of others, which must still be there."""
    for file in directory.glob("pids/*.first"):
        try:
            pid = int(file.with_suffix(".pid").read_text())
        except (OSError, ValueError):
            continue
        if _is_of(pid, directory):
            _signal(pid, signal.SIGTERM)
            deadline_s = time.monotonic() + _GRACE_S
            while _alive(pid) and time.monotonic() < deadline_s:
                _reap()
                time.sleep(0.05)


def _pids_of(directory: Path) -> list[int]:
    if _PROC.is_dir():
        numbers = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
        own = os.getpid()
        return [pid for pid in numbers if pid != own and _is_of(pid, directory)]
    files = [*directory.glob("pids/*.pid"), *directory.glob("kwok/clusters/*/pids/*.pid")]
    return [pid for pid in (int(file.read_text()) for file in files) if _alive(pid)]


def _is_of(pid: int, directory: Path) -> bool:
    """Whether the process has the mark: a pid from a file may belong to another process by now."""
    if not _PROC.is_dir():
        return _alive(pid)
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{_MARK}={directory}".encode() in environment.split(b"\0")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        # A zombie, not yet reaped by us or by init, does not run.
        state = (_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return not _PROC.is_dir()
    return state != "Z"


def _signal(pid: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, how)


def _signal_group(pid: int, how: signal.Signals) -> None:
    """Signal the process and its workers; it leads a session of its own."""
    try:
        os.killpg(pid, how)
    except (ProcessLookupError, PermissionError):
        _signal(pid, how)


def _tail(log: Path, begin: int, lines: int = 15) -> str:
    text = log.read_bytes()[begin:].decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:]) or "(it wrote nothing)"
