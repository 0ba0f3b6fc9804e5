"""Resource usage of a lab process and its children, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Usage", "usage"]

_PROC = Path("/proc")


@dataclass(frozen=True)
class Usage:
    memory_mb: float  # resident; shared pages count for each process
    threads: int
    files: int
    cpu_s: float


def usage(pid: int) -> Usage:
    """The sum over all processes in the group that `pid` leads, as every process of a lab does."""
    memory_mb, threads, files, cpu_s = 0.0, 0, 0, 0.0
    for directory in _PROC.iterdir():
        if not directory.name.isdigit():
            continue
        try:
            # proc(5), counted from the state, which follows the name (names may have blanks).
            fields = (directory / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) != pid:
                continue
            files += len(list((directory / "fd").iterdir()))
        except OSError:  # it ended in the meantime
            continue
        cpu_s += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        threads += int(fields[17])
        memory_mb += int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return Usage(round(memory_mb, 1), threads, files, round(cpu_s, 2))
