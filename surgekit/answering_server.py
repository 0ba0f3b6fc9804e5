"""A server that answers quickly on busy cores: one gunicorn worker, with a way of its own to serve."""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Callable
from typing import Any

import gunicorn.app.base

from surgekit import logs
from surgekit.latency import short_slices

__all__ = ["common_name", "serve"]


class _Gunicorn(gunicorn.app.base.BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    def __init__(self, make: Callable[[], Any], options: dict[str, Any], log_level: str) -> None:
        self._make, self._options, self._log_level = make, options, log_level
        super().__init__()

    def load_config(self) -> None:
        for option, value in self._options.items():
            self.cfg.set(option, value)

    def load(self) -> Any:
        """In the worker: threads do not survive the fork."""
        logs.configure(self._log_level)
        short_slices()
        # A watch thread in the middle of a large list must not keep a request waiting for 5 ms.
        sys.setswitchinterval(0.0005)
        return self._make()


def serve(make: Callable[[], Any], bind: str, worker: type, name: str, log_level: str) -> None:
    """Serve the application that `make` makes until told to stop; `name` is the process's."""
    options = {
        "bind": bind,
        "workers": 1,
        "worker_class": worker,
        "graceful_timeout": 2,
        "proc_name": name,
        "control_socket_disable": True,
    }
    _Gunicorn(make, options, log_level).run()


def common_name(client: socket.socket) -> str | None:
    """Of the client's certificate, which the handshake has verified; None without one."""
    certificate: Any = client.getpeercert() if isinstance(client, ssl.SSLSocket) else None
    subject = certificate.get("subject", ()) if certificate else ()
    return next((str(value) for pairs in subject for key, value in pairs if key == "commonName"), None)
