"""A process of a container: joins its cgroups, then uses CPU or memory. Runs alone, also in a guest.

    python load.py MODE AMOUNT FILE DIRECTORY...

Prints one line of JSON: for memory, the longest time that a MiB took and the time for all.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import threading
import time

MIB = 1 << 20
_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_kept: list[mmap.mmap] = []  # until the process ends


def main(mode: str, amount: int, file: str, directories: list[str]) -> None:
    for directory in directories:
        with open(f"{directory}/cgroup.procs", "w") as procs:
            procs.write(str(os.getpid()))
    _say("joined")
    sys.stdin.readline()
    began_s = time.monotonic()
    modes = {"spin": spin, "steps": steps, "memset": memset, "populate": populate, "threads": threads}
    longest_s = modes[mode](amount) if mode in modes else read(amount, file)
    ended_s = time.monotonic()
    _say(json.dumps({"longest_ms": longest_s * 1e3, "all_ms": (ended_s - began_s) * 1e3}))
    sys.stdin.readline()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def spin(milliseconds: int) -> float:
    """Use a core for a time."""
    until_s = time.monotonic() + milliseconds / 1e3
    while time.monotonic() < until_s:
        pass
    return 0.0


def steps(mebibytes: int) -> float:
    """Grow by one MiB at a time, with pauses."""
    return _touch(mebibytes, 0.002)


def memset(mebibytes: int) -> float:
    """Grow as fast as memory can be written."""
    return _touch(mebibytes, 0.0)


def populate(mebibytes: int) -> float:
    """Let one system call charge everything, then use it."""
    memory = mmap.mmap(-1, mebibytes * MIB, flags=_ANONYMOUS | mmap.MAP_POPULATE)
    return _write(memory, mebibytes, 0.0)


def read(mebibytes: int, file: str) -> float:
    """Let the kernel write into pages that are not there yet, from a file or, without one, of zeros."""
    memory = mmap.mmap(-1, MIB if file else mebibytes * MIB, flags=_ANONYMOUS)
    with open(file or "/dev/zero", "rb", buffering=0) as source:
        if file:
            os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for at in range(mebibytes):
            begin = 0 if file else at * MIB
            source.readinto(memoryview(memory)[begin : begin + MIB])
    return 0.0


def threads(count: int) -> float:
    """Grow by 128 MiB in all, in many threads at the same time."""
    barrier, size = threading.Barrier(count), 128 * MIB // count

    def grow() -> None:
        memory = mmap.mmap(-1, size, flags=_ANONYMOUS)
        _kept.append(memory)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        barrier.wait()
        ctypes.memset(address, 1, size)  # without the interpreter's lock

    all_threads = [threading.Thread(target=grow) for _ in range(count)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    return 0.0


def _touch(mebibytes: int, between_s: float) -> float:
    return _write(mmap.mmap(-1, mebibytes * MIB, flags=_ANONYMOUS), mebibytes, between_s)


def _write(memory: mmap.mmap, mebibytes: int, between_s: float) -> float:
    _kept.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    longest_s = 0.0
    for at in range(mebibytes):
        began_s = time.monotonic()
        ctypes.memset(address + at * MIB, 1, MIB)
        longest_s = max(longest_s, time.monotonic() - began_s)
        time.sleep(between_s)
    return longest_s


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:])
