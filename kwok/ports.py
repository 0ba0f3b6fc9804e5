"""Ports for the processes of a lab."""

from __future__ import annotations

import http.client
import random
import socket
import ssl

__all__ = ["answers_ready", "free_ports"]

# Under the range that Linux gives to outgoing connections (32768 and up), whose taking a port between our
# look and a server's start could not be ruled out.
_FIRST, _LAST = 20_000, 30_000


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, drawn at random: labs that start at the same moment, in directories that
    know nothing of each other, must not all take the first that is free."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(_FIRST, _LAST)
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


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


def _unchecked() -> ssl.SSLContext:
    """Such a certificate is often made when its process starts: there is nothing to check it with."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
