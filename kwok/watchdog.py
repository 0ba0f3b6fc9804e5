"""Takes a lab down when its creator goes away without saying that it may stay.

`python -m kwok.watchdog <directory>` reads from a pipe whose other end only the creator holds. The
creator says `ready` (a lab meant to outlive it) or `down` (it took the lab down itself). The end of
the pipe without a word means it died, even by SIGKILL, and the lab goes with it.
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
        # Nothing of the lab's environment: it must not be taken for a part of what it takes down.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kwok.watchdog", str(directory)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, cwd=_REPOSITORY,
        )  # fmt: skip

    def dismiss(self, word: str) -> None:
        """Say `ready` or `down`; the watchdog ends."""
        self._process.communicate(word.encode())


def main(directory: Path) -> None:
    if not sys.stdin.buffer.read():
        take_down(directory)


if __name__ == "__main__":
    os.chdir("/")
    main(Path(sys.argv[1]))
