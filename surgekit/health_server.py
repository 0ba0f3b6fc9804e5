"""A controller as a process: its threads work, gunicorn serves /livez, /readyz and /metrics beside them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import flask
import gunicorn.app.base
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from surgekit import logs

__all__ = ["Controller", "Metrics", "pages", "serve"]


class Metrics(Protocol):
    @property
    def registry(self) -> CollectorRegistry: ...


class Controller(Protocol):
    """One replica. `now_s` is `time.monotonic()`."""

    @property
    def metrics(self) -> Metrics: ...

    def start(self) -> None:
        """Start the threads; returns at once."""

    def stop(self) -> None: ...

    def alive(self, now_s: float) -> bool:
        """Whether every thread does its work; if not, kubelet's restart mends it."""

    def not_ready(self, now_s: float) -> str:
        """What is missing; empty when ready."""


def pages(controller: Controller) -> flask.Flask:
    app = flask.Flask(__name__)

    @app.get("/livez")
    def livez() -> flask.typing.ResponseReturnValue:
        return ("ok", 200) if controller.alive(time.monotonic()) else ("a thread has ended or is stuck", 500)

    @app.get("/readyz")
    def readyz() -> flask.typing.ResponseReturnValue:
        missing = controller.not_ready(time.monotonic())
        return (missing, 503) if missing else ("ok", 200)

    @app.get("/metrics")
    def metrics() -> flask.typing.ResponseReturnValue:
        return flask.Response(generate_latest(controller.metrics.registry), content_type=CONTENT_TYPE_LATEST)

    return app


class _Gunicorn(gunicorn.app.base.BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    def __init__(self, make: Callable[[], Controller], options: dict[str, Any], log_level: str) -> None:
        self._make, self._options, self._log_level = make, options, log_level
        self._controller: Controller | None = None
        super().__init__()

    def load_config(self) -> None:
        for option, value in self._options.items():
            self.cfg.set(option, value)
        self.cfg.set("worker_exit", self._stop)

    def load(self) -> flask.Flask:
        """In the worker: threads do not survive the fork."""
        logs.configure(self._log_level)
        self._controller = self._make()
        self._controller.start()
        return pages(self._controller)

    def _stop(self, _server: Any, _worker: Any) -> None:
        if self._controller is not None:  # else the worker failed before it loaded
            self._controller.stop()


def serve(make: Callable[[], Controller], bind: str, name: str, log_level: str) -> None:
    """Run what `make` makes, and serve its health at `bind`, until told to stop; `name` is the process's."""
    options = {
        "bind": bind,
        "workers": 1,  # the worker is the controller: a second one would do everything twice
        "worker_class": "gthread",
        "threads": 2,
        "graceful_timeout": 10,
        "proc_name": name,
        "control_socket_disable": True,
    }
    _Gunicorn(make, options, log_level).run()
