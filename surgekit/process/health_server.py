"""/livez, /readyz and /metrics: of a controller, whose process serves nothing else, or beside other ports."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import flask
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from surgekit.process import request_server
from surgekit.process.http_port import HEALTH, ConnectionMetrics, HttpPort
from surgekit.process.settings import ProcessSettings

__all__ = ["Controller", "Health", "health_port", "pages", "serve"]


class Health(Protocol):
    """One replica. `now_s` is `time.monotonic()`."""

    @property
    def registry(self) -> CollectorRegistry:
        """Its metrics."""

    def alive(self, now_s: float) -> bool:
        """Whether every thread does its work; if not, kubelet's restart mends it."""

    def not_ready(self, now_s: float) -> str:
        """What is missing; empty when ready."""


class Controller(Health, Protocol):
    def start(self) -> None:
        """Start the threads; returns at once."""

    def stop(self) -> None: ...


def pages(health: Health) -> flask.Flask:
    app = flask.Flask(__name__, static_folder=None)

    @app.get("/livez")
    def livez() -> flask.typing.ResponseReturnValue:
        return ("ok", 200) if health.alive(time.monotonic()) else ("a thread has ended or is stuck", 500)

    @app.get("/readyz")
    def readyz() -> flask.typing.ResponseReturnValue:
        missing = health.not_ready(time.monotonic())
        return (missing, 503) if missing else ("ok", 200)

    @app.get("/metrics")
    def metrics() -> flask.typing.ResponseReturnValue:
        return flask.Response(generate_latest(health.registry), content_type=CONTENT_TYPE_LATEST)

    return app


def health_port(health: Health, **others: HttpPort) -> HttpPort:
    """A port for kubelet and Prometheus, with room of its own; its metrics tell of the `others`, too."""
    port = HttpPort(pages(health), HEALTH)
    health.registry.register(ConnectionMetrics(health=port, **others))
    return port


class _ControllerServer:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.ports = (health_port(controller),)
        controller.start()

    def stop(self) -> None:
        self._controller.stop()


def serve(make: Callable[[], Controller], settings: ProcessSettings, name: str) -> None:
    """Run what `make` makes, and serve its health, until told to stop; `name` is the process's."""
    binds = [settings.health_bind]
    request_server.serve(lambda: _ControllerServer(make()), binds, name, settings.log_level)
