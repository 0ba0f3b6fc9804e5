"""Ask the kernel for short time slices: what a scheduler waits for must not wait for a CPU itself.

On a busy machine a thread that wakes up waits until a running one has used its slice (3 ms by
default). Since Linux 6.12 a thread may ask for a shorter slice of its own, and then preempts longer
ones when it wakes; its share of the CPU stays the same, so no privilege is needed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

__all__ = ["answer_quickly", "short_slices"]

_SET, _GET = {"x86_64": (314, 315), "aarch64": (274, 275)}.get(platform.machine(), (0, 0))
_SIZE = 48  # struct sched_attr, first published size
_RUNTIME_AT = 24  # u32 size, u32 policy, u64 flags, s32 nice, u32 priority, then u64 runtime
_SHORTEST_NS = 100_000  # the least the kernel grants


def short_slices() -> bool:
    """For this thread and the threads it starts; False where the kernel cannot or will not."""
    if not _SET or not hasattr(ctypes, "CDLL"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = ctypes.create_string_buffer(_SIZE)
    if libc.syscall(_GET, 0, attributes, _SIZE, 0) != 0 or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    struct.pack_into("Q", attributes, _RUNTIME_AT, _SHORTEST_NS)
    return bool(libc.syscall(_SET, 0, attributes, 0) == 0)


def answer_quickly() -> None:
    """For a process that a scheduler or an autoscaler waits for."""
    short_slices()
    # A watch thread in the middle of a large list must not keep a request waiting for 5 ms.
    sys.setswitchinterval(0.0005)
