"""A port that listens by itself, for a process that no gunicorn runs (the expander's is gRPC's)."""

from __future__ import annotations

import socket
import threading

from surgekit.process.http_port import HttpPort

__all__ = ["Listener"]


class Listener:
    """Listens from the start; serves between `start` and `stop`."""

    def __init__(self, address: tuple[str, int], port: HttpPort) -> None:
        """Raises OSError when the address is taken."""
        self._port, self._socket = port, socket.create_server(address)
        self.number = int(self._socket.getsockname()[1])

    def start(self) -> None:
        threading.Thread(target=self._port.run, args=[self._socket], name="http", daemon=True).start()

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts; closing alone does not
        self._socket.close()
        self._port.close()
