"""Reserve ports for the processes of a lab."""

from __future__ import annotations

import fcntl
import http.client
import os
import random
import socket
import ssl
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

__all__ = ["answers_ready", "free_ports", "get_text"]

# Below the range of outgoing connections on Linux (32768 and up), which might take a port between our check
# and the start of a server.
_FIRST, _LAST = 20_000, 30_000


def free_ports(count: int) -> list[int]:
    """Ports that are free and not reserved by any process. Labs that start at the same moment in other
    directories get other ports."""
    return [_free_port() for _ in range(count)]


def _free_port() -> int:
    while True:
        port = random.randrange(_FIRST, _LAST)
        # In this order: a process that had it reserved may listen by now.
        if _reserve(port) and _is_free(port):
            return port


def _reserve(port: int) -> bool:
    """Lock the port's byte of the lock file for as long as this process lives."""
    file, reserved = _reservations()
    if port in reserved:
        return False
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    reserved.add(port)
    return True


@cache
def _reservations() -> tuple[int, set[int]]:
    """The user's lock file, shared by all labs, and the ports that this process has locked."""
    name = Path(tempfile.gettempdir()) / f"surgekit-ports-{os.getuid()}"
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), set()


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def answers_ready(
    port: int, path: str = "/readyz", tls: bool = False, headers: Mapping[str, str] | None = None
) -> bool:
    """Whether a process answers 200; its certificate is not checked."""
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=_unchecked())
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    )
    try:
        connection.request("GET", path, headers=headers or {})
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def get_text(port: int, path: str) -> str:
    """The body of a lab process's answer to GET. (urllib would go through the environment's proxy.)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def _unchecked() -> ssl.SSLContext:
    """Without verification: such a certificate is often created when its process starts."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
