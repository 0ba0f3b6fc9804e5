"""Whether somebody is connected to an instance, from the kernel's tables /proc/PID/net/tcp and tcp6."""

from __future__ import annotations

__all__ = ["connected"]

_ESTABLISHED = b"01"  # include/net/tcp_states.h
_LOCAL, _STATE = 1, 3  # columns


def connected(table: bytes, port: int) -> bool:
    """Whether the table has an open connection to this port. One that the other side has closed is none: its
    client has left. A line that was cut off says nothing."""
    wanted = b":%04X" % port
    for line in table.splitlines()[1:]:
        columns = line.split(maxsplit=4)
        if len(columns) > _STATE and columns[_STATE] == _ESTABLISHED and columns[_LOCAL].endswith(wanted):
            return True
    return False
