"""The door of a lab with real nodes: ports of the machine's loopback that lead to the lab's loopback.

The control plane of such a lab listens in a network namespace. The user's kubectl and the tests do not: they
dial 127.0.0.1, as with any other lab. `kwok.network.door_process` listens there, on the ports that it was
asked to open, and forwards each connection to the same port of the loopback inside.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

from kwok.errors import LabError
from kwok.network_namespace import directory_digest
from kwok.processes import Processes

__all__ = ["control_address", "open_ports", "start"]

_NAME = "door"
_READY_S = 30.0


def start(directory: Path) -> None:
    """Start the door of the lab in `directory`, with no port open."""
    Processes(directory).start(
        _NAME,
        [sys.executable, "-m", "kwok.network.door_process", directory],
        ready=lambda: _answers(directory), timeout_s=_READY_S, outside=True,
    )  # fmt: skip


def open_ports(directory: Path, ports: Iterable[int]) -> None:
    """Open these ports until the lab ends."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as asking:
        try:
            asking.connect(control_address(directory))
            asking.sendall("".join(f"{port}\n" for port in ports).encode())
            asking.shutdown(socket.SHUT_WR)
            answer = asking.makefile().read()
        except OSError as error:
            raise LabError(f"lab {directory.name}: its door does not answer: {error}") from error
    if answer:
        raise LabError(f"lab {directory.name}: {answer}")


def _answers(directory: Path) -> bool:
    try:
        open_ports(directory, ())
    except LabError:
        return False
    return True


def control_address(directory: Path) -> str:
    """Where it takes orders. An abstract name, since the path of a unix socket has at most 107 bytes."""
    return f"\0surgekit-door-{directory_digest(directory)}"
