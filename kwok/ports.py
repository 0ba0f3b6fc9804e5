"""Ports for the processes of a lab."""

from __future__ import annotations

import fcntl
import http.client
import os
import random
import socket
import ssl
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["answers_ready", "free_ports", "get_text"]

# Under the range that Linux gives to outgoing connections (32768 and up), whose taking a port between our
# look and a server's start could not be ruled out.
_FIRST, _LAST = 20_000, 30_000


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, and that no process has been given: labs that start at the same moment, in
    directories that know nothing of each other, must not take the same ones."""
    return [_free_port() for _ in range(count)]


def _free_port() -> int:
    while True:
        port = random.randrange(_FIRST, _LAST)
        # In this order: whoever had it reserved may listen by now.
        if _reserve(port) and _is_free(port):
            return port


def _reserve(port: int) -> bool:
    """A lock for as long as this process lives, of the one byte that stands for the port."""
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
    """The file of locks, the same for all labs of a user, and what this process has locked."""
    name = Path(tempfile.gettempdir()) / f"surgekit-ports-{os.getuid()}"
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), set()


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def answers_ready(port: int, path: str = "/readyz", tls: bool = False) -> bool:
    """Whether a process of the lab says on its port that it is ready; who it is, is not asked."""
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=_unchecked())
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    )
    try:
        connection.request("GET", path)
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
    """Such a certificate is often made when its process starts: there is nothing to check it with."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
