"""HOST:PORT settings: errors are one line that names the setting."""

from __future__ import annotations

import os
import re
import socket

from surgekit.process.settings import SettingsError

__all__ = ["address", "check_free", "is_place", "refused"]

_PLACE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")


def address(key: str, bind: str) -> tuple[str, int]:
    """Raise SettingsError if it is not HOST:PORT."""
    host, _, port = bind.rpartition(":")
    if not port.isdecimal():
        raise SettingsError(f"{key}: {bind!r} is not HOST:PORT")
    return host, int(port)


def is_place(text: str) -> bool:
    """Whether it is HOST:PORT of somebody else: a name or an address, and nothing that a configuration or a
    URL would read as more."""
    found = _PLACE.fullmatch(text)
    return found is not None and 0 < int(found[3]) < 1 << 16


def check_free(key: str, bind: str) -> None:
    """Raise SettingsError if the port is in use; gRPC would only say that it failed."""
    host, port = address(key, bind)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host.strip("[]"), port), family=family):
            pass
    except OSError as error:
        raise refused(key, bind, error) from error


def refused(key: str, bind: str, error: OSError) -> SettingsError:
    why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)  # names: below 0
    return SettingsError(f"{key}: {bind} cannot be listened on: {why}")
