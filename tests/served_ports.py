"""Ports of a server, open on this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from surgekit.process.http_port import HttpPort


@contextmanager
def served(ports: Iterable[HttpPort]) -> Iterator[list[int]]:
    """Their numbers, as long as they are open."""
    ports = list(ports)
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=2048) for _ in ports]
    threads = [
        threading.Thread(target=port.run, args=(listener,), daemon=True)
        for port, listener in zip(ports, listeners, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        yield [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for port in ports:
            port.close()
        for thread in threads:
            thread.join()
