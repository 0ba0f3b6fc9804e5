"""Send commands to a running HAProxy's socket and read its state."""

from __future__ import annotations

import csv
import io
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from surgekit.haproxy.traffic import EMERGENCY_ID

__all__ = ["WAIT_FOR_SERVER", "InvalidCommand", "Runtime", "ServerState", "refusals"]

# The Lua action that the lab's and the load balancer's configurations load.
WAIT_FOR_SERVER = Path(__file__).with_name("wait_for_server.lua")
_COMMANDS_AT_ONCE = 80  # fits HAProxy's buffer of 16 KiB
_TIMEOUT_S = 5.0
# HAProxy's answers to commands that it carried out; the last one since 3.0.
_DONE = ("IP changed", "no need to change", "port changed", "nothing changed")

# Plain words with single spaces: no characters that end a command, start another, quote or escape.
_COMMAND = re.compile(r"[A-Za-z0-9_.:/@+,=~-]+(?: [A-Za-z0-9_.:/@+,=~-]+)*")


class InvalidCommand(ValueError):
    """A command holds more than plain words. Nothing was sent."""


@dataclass(frozen=True)
class ServerState:
    """The current state of a `server` line."""

    name: str
    address: str
    port: int
    weight: int


class Runtime:
    """HAProxy's socket, of level admin. Raises OSError when HAProxy is absent or stuck."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def run(self, commands: Sequence[str]) -> list[str]:
        """Run commands in order; return HAProxy's answer to each batch."""
        for command in commands:
            _check(command)
        return [
            self._exchange(";".join(commands[begin : begin + _COMMANDS_AT_ONCE]))
            for begin in range(0, len(commands), _COMMANDS_AT_ONCE)
        ]

    def identity(self) -> str:
        """Changes when HAProxy restarts, and a restarted HAProxy has lost all changes made at run time."""
        info = self.info()
        return f"{info['Pid']} of {info['Start_time_sec']}"  # in a container the pid never changes

    def info(self) -> dict[str, str]:
        said = self._exchange("show info")
        return dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)

    def backends(self) -> list[dict[str, str]]:
        """The statistics of every backend."""
        return self._rows("show stat -1 2 -1")

    def functions(self) -> list[dict[str, str]]:
        """The statistics of every backend and of its emergency track, for `traffic.read_traffic`."""
        return self._rows(f"show stat -1 6 {EMERGENCY_ID}")

    def in_use(self, backend: str) -> dict[str, int]:
        """Requests in each server of a backend, by name."""
        return {row["svname"]: int(row["scur"]) for row in self._rows(f"show stat {backend} 4 -1")}

    def servers(self, backend: str) -> list[ServerState]:
        header, *rows = self._exchange(f"show servers state {backend}").splitlines()[1:]
        names = header.lstrip("# ").split()
        found = (dict(zip(names, row.split(), strict=False)) for row in rows if row)
        return [
            ServerState(
                row["srv_name"],
                row["srv_addr"],
                int(row["srv_port"]),
                int(row["srv_uweight"]),
            )
            for row in found
        ]

    def map_entries(self, map_file: Path) -> dict[str, str]:
        said = self._exchange(f"show map {map_file}")
        return dict(line.split()[1:3] for line in said.splitlines() if line.startswith("0x"))

    def table(self, name: str) -> dict[str, dict[str, str]]:
        """The rows of a stick table, by key."""
        rows = (line.split()[1:] for line in self._exchange(f"show table {name}").splitlines())
        found = (dict(pair.split("=", 1) for pair in row if "=" in pair) for row in rows)
        return {row.pop("key"): row for row in found if "key" in row}

    def _rows(self, command: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self._exchange(command).lstrip("# "))))

    def _exchange(self, line: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect(os.fspath(self._control))
            connection.sendall(line.encode() + b"\n")
            said = bytearray()
            while piece := connection.recv(1 << 16):
                said += piece
        return said.decode()


def _check(command: str) -> None:
    if not _COMMAND.fullmatch(command):
        raise InvalidCommand(f"command: {command[:200]!r} is not plain words")


def refusals(answers: Sequence[str]) -> list[str]:
    """The lines in which HAProxy refuses a command."""
    lines = (line for answer in answers for line in answer.splitlines())
    return [line for line in lines if line and not line.startswith(_DONE)]
