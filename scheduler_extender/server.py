"""The extender under gunicorn: what is served at which path.

One worker process per replica: presumptions are its memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import flask
import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from scheduler_extender.extender import Extender
from scheduler_extender.requests import BAD_REQUEST, parse
from scheduler_extender.settings import Settings
from scheduler_extender.worker import FastLaneWorker
from surgekit import answering_server
from surgekit.kube import Kube

__all__ = ["Application", "run"]

TICK_S = 0.2
Answer = flask.typing.ResponseReturnValue


class Application:
    """What the worker serves: /prioritize directly, anything else as a WSGI application."""

    def __init__(self, extender: Extender) -> None:
        self.extender, self.settings = extender, extender.settings
        self._flask = _flask(self)

    def start(self) -> Application:
        self.extender.sources.start()
        threading.Thread(target=self._tick, name="tick", daemon=True).start()
        return self

    def _tick(self) -> None:
        while True:
            time.sleep(TICK_S)
            self.extender.tick()

    def prioritize(self, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        try:
            return 200, self.extender.prioritize(body)
        except BAD_REQUEST as error:
            self.extender.metrics.decisions.labels("none", "refused").inc()
            return 400, orjson.dumps({"error": str(error)})

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return self._flask(environ, start_response)


def _flask(application: Application) -> flask.Flask:
    app = flask.Flask("scheduler_extender")
    app.config["MAX_CONTENT_LENGTH"] = application.settings.max_body_bytes
    extender = application.extender

    @app.get("/livez")
    def livez() -> Answer:
        return "ok"

    @app.get("/readyz")
    def readyz() -> Answer:
        ready, ages = extender.ready()
        known = {source: round(age, 3) if age < 1e9 else None for source, age in ages.items()}
        return flask.jsonify(ready=ready, inputs_age_s=known), 200 if ready else 503

    @app.get("/metrics")
    def metrics() -> Answer:
        extender.observe()
        return flask.Response(generate_latest(extender.registry), content_type=CONTENT_TYPE_LATEST)

    @app.get("/explain")
    def explain() -> Answer:
        namespace, _, name = flask.request.args.get("pod", "").partition("/")
        if not namespace or not name:
            return flask.jsonify(error="pod: expected NAMESPACE/NAME"), 400
        found = extender.explain(namespace, name)
        if found is None:
            return flask.jsonify(error=f"no decision about {namespace}/{name} is kept by this replica"), 404
        return _json(200, orjson.dumps(found))

    @app.get("/latencies")
    def latencies() -> Answer:
        return _json(200, orjson.dumps(extender.latencies_ms()))

    @app.post("/prioritize")
    def prioritize() -> Answer:
        """For requests the worker's fast lane does not take (chunked, closing, expecting)."""
        return _json(*application.prioritize(flask.request.get_data()))

    @app.post("/filter")
    def filter_nodes() -> Answer:
        """Refuses nothing: scoring keeps autoscaler simulations true. Here for ComboFunc's planner."""
        body = flask.request.get_data()
        try:
            parse(body)
        except BAD_REQUEST as error:
            return flask.jsonify(error=str(error)), 400
        asked = orjson.loads(body)
        kept = {
            "Nodes": asked.get("Nodes"),
            "NodeNames": asked.get("NodeNames"),
            "FailedNodes": {},
            "Error": "",
        }
        return _json(200, orjson.dumps(kept))

    @app.errorhandler(413)
    def too_large(_: Exception) -> Answer:
        limit = application.settings.max_body_bytes
        extender.metrics.decisions.labels("none", "refused").inc()
        return flask.jsonify(error=f"body: more than max_body_bytes ({limit})"), 413

    return app


def _json(status: int, body: bytes) -> flask.Response:
    return flask.Response(body, status, content_type="application/json")


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Serve until told to stop."""

    def make() -> Application:
        return Application(Extender(settings, Kube.connect(kubeconfig))).start()

    answering_server.serve(make, settings.bind, FastLaneWorker, "surgekit-extender", settings.log_level)
