"""The first process of a real node's machine: `python kwok/real_node/init.py <directory>`.

It runs in new namespaces of processes, mounts and network. It gives the machine its own directories for
what programs write, adopts orphans, and ends on SIGTERM; the kernel then kills all that runs there and drops
its mounts. Nothing has to be undone on the host, however the lab ends.

Standard library only, and run as a file: it stays small.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

__all__ = ["PLACES", "READY"]

# Directories of the machine, and where they are in its directory in the lab.
PLACES = {"/run": "run", "/var/lib": "lib", "/var/log": "log"}
READY = "ready"
# What a kubelet sets (1.36, pkg/kubelet/cm/container_manager_linux.go). These belong to the whole kernel. The
# kubelet finds the values it wants, and so changes none.
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
}


def main(directory: Path) -> None:
    for place, here in PLACES.items():
        (directory / here).mkdir(exist_ok=True)
        _mount("--bind", directory / here, place)
    for setting, value in _KERNEL_SETTINGS.items():
        file = directory / setting.replace("/", ".")
        file.write_text(f"{value}\n")
        _mount("--bind", file, f"/proc/sys/{setting}")
    _mount("--make-rshared", "/")  # among this machine's pods; the host is not part of it
    signals = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    (directory / READY).touch()
    while signal.sigwait(signals) != signal.SIGTERM:
        _bury()


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _bury() -> None:
    """Wait for the orphans that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main(Path(sys.argv[1]))
