"""Remove a lab when its creator dies.

`python -m kwok.watchdog <directory>` reads from a pipe whose other end only the creator holds. The creator
writes `ready` (the lab outlives it) or `down` (it removed the lab itself). If the pipe ends without a word,
the creator died, even by SIGKILL, and the watchdog removes the lab.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kwok.processes import take_down

__all__ = ["Watchdog"]

_REPOSITORY = Path(__file__).parents[1]


class Watchdog:
    """The creator's end of the pipe."""

    def __init__(self, directory: Path) -> None:
        # Without the lab's mark in its environment, or it would remove itself.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kwok.watchdog", str(directory)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, cwd=_REPOSITORY,
        )  # fmt: skip

    def dismiss(self, word: str) -> None:
        """Write `ready` or `down`; the watchdog ends."""
        self._process.communicate(word.encode())


def main(directory: Path) -> None:
    if not sys.stdin.buffer.read():
        take_down(directory)


if __name__ == "__main__":
    os.chdir("/")
    main(Path(sys.argv[1]))
