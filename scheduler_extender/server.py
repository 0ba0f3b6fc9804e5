"""The extender under gunicorn: what is served at which path, on a port for schedulers and one for kubelet.

One worker process per replica: assumed pods are its memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import flask
import orjson
import structlog
from gunicorn.http.errors import ParseException
from prometheus_client import CollectorRegistry

from scheduler_extender.extender import Extender
from scheduler_extender.fast_lane import FastLanePort
from scheduler_extender.requests import BAD_REQUEST
from scheduler_extender.settings import Settings
from surgekit.kube.client import Kube
from surgekit.process import request_server
from surgekit.process.health_server import health_port
from surgekit.process.http_port import PEER
from surgekit.process.latency import answer_quickly
from surgekit.tls import ReloadingServerContext

__all__ = ["Application", "run"]

log = structlog.get_logger(__name__)
TICK_S = 0.2
MOST_EXPLAINED = 50  # decisions of one answer, with ten nodes each: 100 KB
Answer = flask.typing.ResponseReturnValue


class Application:
    """What is served: /prioritize directly, anything else as a WSGI application."""

    def __init__(self, extender: Extender) -> None:
        self.extender, self.settings = extender, extender.settings
        self._flask = _flask(self)
        tls = None
        if (directory := self.settings.tls_directory) is not None:
            files = (directory / name for name in ("tls.crt", "tls.key", "ca.crt"))
            tls = ReloadingServerContext(*files).context
        requests = FastLanePort(
            self, tls, self.admits, self.prioritize, self.prepare, self.settings.max_body_bytes
        )
        self.ports = requests, health_port(self, requests=requests)

    def start(self) -> Application:
        self.extender.events.start()
        self.extender.sources.start()
        threading.Thread(target=self._tick, name="tick", daemon=True).start()
        return self

    def stop(self) -> None:
        for port in self.ports:
            port.close()
        self.extender.events.stop()

    def _tick(self) -> None:
        while True:
            time.sleep(TICK_S)
            self.extender.tick()

    @property
    def registry(self) -> CollectorRegistry:
        self.extender.observe()
        return self.extender.registry

    def alive(self, now_s: float) -> bool:  # noqa: ARG002
        return True  # a process that answers is alive

    def not_ready(self, now_s: float) -> str:
        limit_s = self.settings.max_input_age_s
        old = [source for source, age_s in self.extender.sources.age_s(now_s).items() if age_s > limit_s]
        return f"no word of {', '.join(old)} from the API server" if old else ""

    def admits(self, name: str | None) -> bool:
        """Whether a client with this name in its certificate may ask; without TLS everybody may."""
        return self.settings.tls_directory is None or name in self.settings.client_names

    def prioritize(self, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        try:
            return 200, self.extender.prioritize(body)
        except BAD_REQUEST as error:
            self.extender.metrics.decisions.labels("none", "refused").inc()
            return 400, orjson.dumps({"error": str(error)})
        except Exception:  # a fault of ours in one request is not the end of the scheduler's connection
            log.exception("request failed")
            return 500, b'{"error": "the extender failed; its log says why"}'

    def prepare(self) -> None:
        try:
            self.extender.prepare()
        except Exception:  # the next request meets it again, and says so
            log.exception("preparation failed")

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return self._flask(environ, start_response)


def _flask(application: Application) -> flask.Flask:
    app = flask.Flask("scheduler_extender", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = application.settings.max_body_bytes
    extender = application.extender

    @app.before_request
    def admitted() -> Answer | None:
        if application.admits(name := flask.request.environ.get(PEER)):
            return None
        names = ", ".join(application.settings.client_names)
        wanted = f"a client certificate for {names}, signed by the CA in ca.crt"
        return flask.jsonify(error=f"needs {wanted}; there is {f'one for {name!r}' if name else 'none'}"), 403

    @app.get("/explain")
    def explain() -> Answer:
        if (since := flask.request.args.get("since", type=float)) is not None:
            return _json(200, orjson.dumps({"decisions": extender.explain_since(since, MOST_EXPLAINED)}))
        namespace, _, name = flask.request.args.get("pod", "").partition("/")
        if not namespace or not name:
            return flask.jsonify(error="pod: expected NAMESPACE/NAME"), 400
        found = extender.explain(namespace, name)
        if found is None:
            return flask.jsonify(error=f"no decision about {namespace}/{name} is kept by this replica"), 404
        return _json(200, orjson.dumps(found))

    @app.post("/prioritize")
    def prioritize() -> Answer:
        """For requests the worker's fast lane does not take (chunked, closing, expecting)."""
        return _json(*application.prioritize(_body()))

    @app.errorhandler(413)
    def too_large(_: Exception) -> Answer:
        limit = application.settings.max_body_bytes
        extender.metrics.decisions.labels("none", "refused").inc()
        return flask.jsonify(error=f"body: more than max_body_bytes ({limit})"), 413

    return app


def _body() -> bytes:
    """The request body. A body that gunicorn cannot read (an endless chunk, say) is answered with 400."""
    try:
        return flask.request.get_data()
    except (ParseException, OSError) as error:
        flask.abort(flask.make_response(flask.jsonify(error=f"body: {error}"), 400))


def _json(status: int, body: bytes) -> flask.Response:
    return flask.Response(body, status, content_type="application/json")


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Serve until told to stop."""

    def make() -> Application:
        answer_quickly()
        return Application(Extender(settings, Kube.connect(kubeconfig))).start()

    binds = [settings.bind, settings.health_bind]
    request_server.serve(make, binds, "surgekit-extender", settings.log_level)
