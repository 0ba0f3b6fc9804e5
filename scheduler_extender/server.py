"""The extender under gunicorn: /prioritize on the event loop, everything else served by Flask.

kube-scheduler waits for /prioritize while it schedules a pod, so that path has no framework between
the parsed request and the decision. One worker process per replica: presumptions are its memory.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import flask
import gunicorn.app.base
import orjson
from a2wsgi import WSGIMiddleware
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn_worker import UvicornWorker

from scheduler_extender.extender import Extender
from scheduler_extender.requests import BAD_REQUEST, parse
from scheduler_extender.settings import Settings
from surgekit import logs
from surgekit.certificates import ReloadingServerContext
from surgekit.kube import Kube
from surgekit.latency import short_slices

__all__ = ["UVICORN", "Application", "run"]

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

TICK_S = 0.2
OPEN_PATHS = ("/livez", "/readyz")  # the kubelet asks these and has no certificate to show
NOT_ADMITTED = 403, b'{"error": "this path needs a client certificate signed by the CA in ca.crt"}'


class Application:
    """The ASGI application: everything /prioritize's own lane (below) does not take."""

    def __init__(self, extender: Extender) -> None:
        self.extender = extender
        self._others = WSGIMiddleware(cast(Any, _flask(extender)), workers=2)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(self.extender, receive, send)
        elif scope["type"] == "http":
            if not admitted(self.extender.settings, scope["path"], scope.get("peer")):
                await _answer(send, *NOT_ADMITTED)
            elif scope["path"] == "/prioritize" and scope["method"] == "POST":
                body = await _body(receive, self.extender.settings.max_body_bytes)
                await _answer(send, *prioritize(self.extender, body))
            else:
                await self._others(cast(Any, scope), cast(Any, receive), cast(Any, send))


class FastLane(HttpToolsProtocol):
    """/prioritize answered as soon as its body is there, without a task or a framework in between.

    Everything else, and a /prioritize in an unusual wrapping, goes uvicorn's ordinary way. Hands the
    client certificate's name to the application as well, which uvicorn does not.
    """

    app: Application
    _peer: str | None = None
    _parts: list[bytes] | None = None  # of the body in the fast lane
    _size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        session = transport.get_extra_info("ssl_object")
        certificate = session.getpeercert() if session else None
        subject = (certificate or {}).get("subject", ())
        self._peer = next((v for rdn in subject for k, v in rdn if k == "commonName"), None)

    def on_headers_complete(self) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if (
            self.url == b"/prioritize"
            and self.parser.get_method() == b"POST"
            and idle
            and not self.expect_100_continue
            and admitted(self.app.extender.settings, "/prioritize", self._peer)
        ):
            self._parts, self._size = [], 0
            return
        self.scope["peer"] = self._peer  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._parts is None:
            super().on_body(body)
        else:
            self._size += len(body)
            if self._size <= self.app.extender.settings.max_body_bytes:
                self._parts.append(body)

    def on_message_complete(self) -> None:
        if self._parts is None:
            super().on_message_complete()
            return
        parts, self._parts = self._parts, None
        extender = self.app.extender
        whole = self._size <= extender.settings.max_body_bytes
        status, body = prioritize(extender, b"".join(parts) if whole else None)
        keep = self.parser.should_keep_alive()
        self.transport.write(
            b"HTTP/1.1 %d \r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s"
            % (status, len(body), b"" if keep else b"Connection: close\r\n", body)
        )
        if keep:
            self.on_response_complete()
        else:
            self.transport.close()


def prioritize(extender: Extender, body: bytes | None) -> tuple[int, bytes]:
    """Status and body for one request; `body` is None when it was too large to be kept."""
    if body is None:
        limit = extender.settings.max_body_bytes
        refusal = 413, f"body: more than max_body_bytes ({limit})"
    else:
        try:
            return 200, extender.prioritize(body)
        except BAD_REQUEST as error:
            refusal = 400, str(error)
    extender.metrics.decisions.labels("none", "refused").inc()
    return refusal[0], orjson.dumps({"error": refusal[1]})


def admitted(settings: Settings, path: str, peer: str | None) -> bool:
    if settings.tls_directory is None or path in OPEN_PATHS:
        return True
    return peer is not None and (not settings.client_names or peer in settings.client_names)


async def _body(receive: Receive, limit: int) -> bytes | None:
    """The whole body, or None if it is larger than `limit`."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        if size <= limit:
            parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts) if size <= limit else None


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(extender: Extender, receive: Receive, send: Send) -> None:
    await receive()
    extender.sources.start()
    ticking = asyncio.create_task(_tick(extender))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    ticking.cancel()
    with suppress(asyncio.CancelledError):
        await ticking
    extender.sources.stop()
    await send({"type": "lifespan.shutdown.complete"})


async def _tick(extender: Extender) -> None:
    while True:
        extender.tick()
        await asyncio.sleep(TICK_S)


def _flask(extender: Extender) -> flask.Flask:
    app = flask.Flask("scheduler_extender")
    app.config["MAX_CONTENT_LENGTH"] = extender.settings.max_body_bytes

    @app.get("/livez")
    def livez() -> flask.typing.ResponseReturnValue:
        return "ok"

    @app.get("/readyz")
    def readyz() -> flask.typing.ResponseReturnValue:
        ready, ages = extender.ready()
        known = {source: round(age, 3) if age < 1e9 else None for source, age in ages.items()}
        return flask.jsonify(ready=ready, inputs_age_s=known), 200 if ready else 503

    @app.get("/metrics")
    def metrics() -> flask.typing.ResponseReturnValue:
        extender.observe_ages()
        return flask.Response(generate_latest(extender.registry), content_type=CONTENT_TYPE_LATEST)

    @app.get("/explain")
    def explain() -> flask.typing.ResponseReturnValue:
        namespace, _, name = flask.request.args.get("pod", "").partition("/")
        if not namespace or not name:
            return flask.jsonify(error="pod: expected NAMESPACE/NAME"), 400
        found = extender.explain(namespace, name)
        if found is None:
            return flask.jsonify(error=f"no decision about {namespace}/{name} is kept by this replica"), 404
        return flask.Response(orjson.dumps(found), content_type="application/json")

    @app.get("/latencies")
    def latencies() -> flask.typing.ResponseReturnValue:
        return flask.Response(orjson.dumps(extender.latencies_ms()), content_type="application/json")

    @app.post("/filter")
    def filter_nodes() -> flask.typing.ResponseReturnValue:
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
        return flask.Response(orjson.dumps(kept), content_type="application/json")

    return app


UVICORN: dict[str, Any] = {
    "loop": "uvloop",
    "http": FastLane,
    "ws": "none",
    "lifespan": "on",
    "interface": "asgi3",
    "access_log": False,
    "proxy_headers": False,  # would wrap the application away from the fast lane
}


class _Worker(UvicornWorker):  # type: ignore[misc]  # gunicorn has no types
    CONFIG_KWARGS = UVICORN


class _Gunicorn(gunicorn.app.base.BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    def __init__(self, settings: Settings, kubeconfig: Path | None) -> None:
        self._settings, self._kubeconfig = settings, kubeconfig
        super().__init__()

    def load_config(self) -> None:
        self.cfg.set("bind", self._settings.bind)
        self.cfg.set("workers", 1)
        self.cfg.set("worker_class", _worker_class(self._settings))
        self.cfg.set("keepalive", 300)  # the scheduler keeps its connection; closing it costs a handshake
        self.cfg.set("graceful_timeout", 5)
        self.cfg.set("proc_name", "surgekit-extender")
        self.cfg.set("control_socket_disable", True)

    def load(self) -> Application:
        logs.configure(self._settings.log_level)
        short_slices()
        return Application(Extender(self._settings, Kube.connect(self._kubeconfig)))


def _worker_class(settings: Settings) -> type[_Worker]:
    directory = settings.tls_directory
    if directory is None:
        return _Worker

    def context(*_: Any) -> ssl.SSLContext:
        files = (directory / name for name in ("tls.crt", "tls.key", "ca.crt"))
        return ReloadingServerContext(*files).context

    return type("Worker", (_Worker,), {"CONFIG_KWARGS": UVICORN | {"ssl_context_factory": context}})


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Serve until told to stop."""
    _Gunicorn(settings, kubeconfig).run()
