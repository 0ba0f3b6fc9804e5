"""A server as a process: one gunicorn worker, which serves each port within limits of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import gunicorn.app.base
from gunicorn.workers.sync import SyncWorker

from surgekit.kube.client import Kube
from surgekit.process import logs
from surgekit.process.http_port import HttpPort

__all__ = ["Server", "serve"]


class Server(Protocol):
    @property
    def ports(self) -> Sequence[HttpPort]:
        """As many as `serve` was given addresses, in their order."""

    def stop(self) -> None: ...


class _Worker(SyncWorker):  # type: ignore[misc]  # gunicorn has no types
    """`self.wsgi` is a Server. Accepting takes no time, so that no port keeps another waiting."""

    def accept(self, listener: Any) -> None:
        client, address = listener.accept()
        self.wsgi.ports[self.sockets.index(listener)].take(client, address)


class _Gunicorn(gunicorn.app.base.BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    def __init__(self, make: Callable[[], Server], options: dict[str, Any], log_level: str) -> None:
        self._make, self._options, self._log_level = make, options, log_level
        self._server: Server | None = None
        super().__init__()

    def load_config(self) -> None:
        for option, value in self._options.items():
            self.cfg.set(option, value)
        self.cfg.set("worker_exit", self._stop)

    def load(self) -> Server:
        """In the worker: threads do not survive the fork."""
        logs.configure(self._log_level)
        self._server = self._make()
        return self._server

    def _stop(self, _arbiter: Any, _worker: Any) -> None:
        if self._server is not None:  # else the worker failed before it loaded
            self._server.stop()


def serve(make: Callable[[], Server], binds: Sequence[str], name: str, log_level: str) -> None:
    """Serve what `make` makes at `binds` until told to stop; `name` is the process's."""
    options = {
        "bind": list(binds),
        "workers": 1,  # what is served is its memory: a second one would know and do everything twice
        "worker_class": _Worker,
        "graceful_timeout": 10,
        "proc_name": name,
        "control_socket_disable": True,
    }
    Kube.field_manager = name
    _Gunicorn(make, options, log_level).run()
