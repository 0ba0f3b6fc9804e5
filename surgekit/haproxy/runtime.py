"""HAProxy while it runs: commands to its socket, and what it says of itself."""

from __future__ import annotations

import csv
import io
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["WAIT_FOR_SERVER", "InvalidCommand", "Runtime", "ServerState", "refusals"]

# The Lua actions that both configurations load.
WAIT_FOR_SERVER = Path(__file__).with_name("wait_for_server.lua")
_COMMANDS_AT_ONCE = 80  # under HAProxy's buffer of 16 KiB
_TIMEOUT_S = 5.0
# What HAProxy says when it did as told; the last from 3.0 on.
_DONE = ("IP changed", "no need to change", "port changed", "nothing changed")

# Plain words with one space between: nothing that ends a command, begins another, quotes or escapes.
_COMMAND = re.compile(r"[A-Za-z0-9_.:/@+,=~-]+(?: [A-Za-z0-9_.:/@+,=~-]+)*")


class InvalidCommand(ValueError):
    """A command holds more than plain words. Nothing was sent."""


@dataclass(frozen=True)
class ServerState:
    """A `server` line as it is now."""

    name: str
    address: str
    port: int
    weight: int


class Runtime:
    """One HAProxy's socket, of level admin. Whatever fails is an OSError: it is not there, or stuck."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def tell(self, commands: Sequence[str]) -> list[str]:
        """Run commands one after the other; HAProxy's answer to each batch of them."""
        for command in commands:
            _check(command)
        return [
            self._exchange(";".join(commands[begin : begin + _COMMANDS_AT_ONCE]))
            for begin in range(0, len(commands), _COMMANDS_AT_ONCE)
        ]

    def identity(self) -> str:
        """Changes when HAProxy was started anew, and then it knows nothing of what it was told."""
        info = self.info()
        return f"{info['Pid']} of {info['Start_time_sec']}"  # in a container the pid is always the same

    def info(self) -> dict[str, str]:
        said = self._exchange("show info")
        return dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)

    def backends(self) -> list[dict[str, str]]:
        """The statistics of every backend."""
        return list(csv.DictReader(io.StringIO(self._exchange("show stat -1 2 -1").lstrip("# "))))

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
        """A stick-table: what is stored, by key."""
        rows = (line.split()[1:] for line in self._exchange(f"show table {name}").splitlines())
        found = (dict(pair.split("=", 1) for pair in row if "=" in pair) for row in rows)
        return {row.pop("key"): row for row in found if "key" in row}

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
    """The lines in which HAProxy says that it did not do something."""
    lines = (line for answer in answers for line in answer.splitlines())
    return [line for line in lines if line and not line.startswith(_DONE)]
