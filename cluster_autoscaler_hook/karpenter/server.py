"""The hook behind gunicorn: /livez, /readyz, /metrics."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import flask
import gunicorn.app.base
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from cluster_autoscaler_hook.karpenter.controller import Hook
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit import logs
from surgekit.kube import Kube

__all__ = ["run", "web"]


def web(hook: Hook) -> flask.Flask:
    app = flask.Flask("cluster_autoscaler_hook")

    @app.get("/livez")
    def livez() -> flask.typing.ResponseReturnValue:
        return ("ok", 200) if hook.alive(time.monotonic()) else ("a thread has ended or is stuck", 500)

    @app.get("/readyz")
    def readyz() -> flask.typing.ResponseReturnValue:
        missing = hook.not_ready(time.monotonic())
        return (missing, 503) if missing else ("ok", 200)

    @app.get("/metrics")
    def metrics() -> flask.typing.ResponseReturnValue:
        return flask.Response(generate_latest(hook.metrics.registry), content_type=CONTENT_TYPE_LATEST)

    return app


class _Gunicorn(gunicorn.app.base.BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    def __init__(self, settings: Settings, kubeconfig: Path | None) -> None:
        self._settings, self._kubeconfig = settings, kubeconfig
        super().__init__()

    def load_config(self) -> None:
        self.cfg.set("bind", self._settings.bind)
        self.cfg.set("workers", 1)  # it is the hook: a second one would wait for the lease for ever
        self.cfg.set("worker_class", "gthread")
        self.cfg.set("threads", 2)
        self.cfg.set("graceful_timeout", 10)
        self.cfg.set("proc_name", "surgekit-nodes")
        self.cfg.set("control_socket_disable", True)
        self.cfg.set("worker_exit", self._stop)

    def load(self) -> flask.Flask:
        """In the worker: threads do not survive the fork."""
        logs.configure(self._settings.log_level)
        self._hook = Hook(self._settings, Kube.connect(self._kubeconfig))
        self._hook.start()
        return web(self._hook)

    def _stop(self, _server: Any, _worker: Any) -> None:
        if hasattr(self, "_hook"):  # else the worker failed before it loaded
            self._hook.stop()


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Plan, rent and serve until told to stop."""
    _Gunicorn(settings, kubeconfig).run()
