"""Take over when the agent dies: disarm its containers, so that none waits for an agent that is not there.

    python -m limit_allocator.cgroups.guard --journal DIRECTORY [--mount /sys/fs/cgroup] [--root ""]

A living agent holds a lock on the journal (`hold`), which the kernel gives up with the process, by SIGKILL
too. The guard tries to take it. Unlike a pipe or a pidfd, the lock needs no common parent: run the guard as a
second container of the agent's pod, where neither the end of process 1 nor memory.oom.group takes it along.
It shares the journal's volume with the agent and outlives any number of agents. Limits stay as they are: the
next agent writes them back. `--write-back-after` seconds without an agent, the guard does it.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from limit_allocator.cgroups.layout import Hierarchy
from limit_allocator.cgroups.originals import Originals

__all__ = ["Guard", "hold"]

_LOCK = "agent.lock"
_LOOK_EVERY_S = 0.1


def hold(journal: Path, wait: bool = False) -> int | None:
    """Take the agent's lock; None if another process has it. It is held until the descriptor is closed."""
    journal.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(journal / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


@dataclass(slots=True)
class Guard:
    originals: Originals
    write_back_after_s: float | None = None
    alone_since_s: float | None = None

    def look(self, now_s: float) -> int:
        """Act if no agent lives; how many containers were disarmed or written back."""
        lock = hold(self.originals.directory)
        if lock is None:
            self.alone_since_s = None
            return 0
        try:  # an agent that starts now waits until this is done
            if self.alone_since_s is None:
                self.alone_since_s = now_s
                return len(self.originals.disarm_all())
            late = (
                self.write_back_after_s is not None and now_s - self.alone_since_s >= self.write_back_after_s
            )
            return len(self.originals.write_back_all()) if late else 0
        finally:
            os.close(lock)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="guard", description="Undo what a killed agent left.")
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--mount", type=Path, default=Hierarchy().mount)
    parser.add_argument("--root", default="", help="the kubelet's --cgroup-root")
    parser.add_argument("--write-back-after", type=float, metavar="SECONDS")
    given = parser.parse_args(arguments)
    guard = Guard(Originals(given.journal, Hierarchy(given.mount, given.root)), given.write_back_after)
    while True:
        guard.look(time.monotonic())
        time.sleep(_LOOK_EVERY_S)


if __name__ == "__main__":
    main(sys.argv[1:])
