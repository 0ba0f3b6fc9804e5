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
from typing import Any

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

__all__ = ["asgi", "run"]

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

TICK_S = 0.2
OPEN_PATHS = ("/livez", "/readyz")  # the kubelet asks these and has no certificate to show


class BodyTooLarge(ValueError):
    pass


class PeerCertificateProtocol(HttpToolsProtocol):
    """Hands the client certificate's common name to the application, which uvicorn does not."""

    _peer: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        session = transport.get_extra_info("ssl_object")
        certificate = session.getpeercert() if session else None
        subject = (certificate or {}).get("subject", ())
        self._peer = next((v for rdn in subject for k, v in rdn if k == "commonName"), None)

    def on_headers_complete(self) -> None:
        self.scope["peer"] = self._peer  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()


def asgi(extender: Extender) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    settings = extender.settings
    others = WSGIMiddleware(_flask(extender), workers=2)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(extender, receive, send)
        elif scope["type"] == "http":
            path = scope["path"]
            if settings.tls_directory and path not in OPEN_PATHS and not _admitted(scope, settings):
                await _answer(send, 403, {"error": "this path needs a client certificate signed by our CA"})
            elif path != "/prioritize":
                await others(scope, receive, send)
            elif scope["method"] != "POST":
                await _answer(send, 405, {"error": "/prioritize takes POST"})
            else:
                await _prioritize(extender, receive, send)

    return application


async def _prioritize(extender: Extender, receive: Receive, send: Send) -> None:
    try:
        answer = extender.prioritize(await _body(receive, extender.settings.max_body_bytes))
    except BodyTooLarge as error:
        extender.metrics.decisions.labels("none", "refused").inc()
        await _answer(send, 413, {"error": str(error)})
    except BAD_REQUEST as error:
        extender.metrics.decisions.labels("none", "refused").inc()
        await _answer(send, 400, {"error": str(error)})
    else:
        await _answer(send, 200, answer)


async def _body(receive: Receive, limit: int) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        parts, size = [body], len(body)
        while message.get("more_body"):
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise BodyTooLarge(f"body: more than max_body_bytes ({limit})")
        body = b"".join(parts)
    if len(body) > limit:
        raise BodyTooLarge(f"body: more than max_body_bytes ({limit})")
    return body


async def _answer(send: Send, status: int, content: bytes | dict[str, Any]) -> None:
    body = content if isinstance(content, bytes) else orjson.dumps(content)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _admitted(scope: Scope, settings: Settings) -> bool:
    peer = scope.get("peer")
    return peer is not None and (not settings.client_names or peer in settings.client_names)


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
        try:
            args = parse(flask.request.get_data())
        except BAD_REQUEST as error:
            return flask.jsonify(error=str(error)), 400
        kept: dict[str, Any] = {"NodeNames": None, "Nodes": args.nodes} if args.nodes else {"NodeNames": args.node_names}
        return flask.Response(orjson.dumps(kept | {"FailedNodes": {}, "Error": ""}), content_type="application/json")

    return app


class _Worker(UvicornWorker):  # type: ignore[misc]  # gunicorn has no types
    CONFIG_KWARGS = {"loop": "uvloop", "http": PeerCertificateProtocol, "lifespan": "on", "access_log": False}  # noqa: RUF012


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

    def load(self) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        logs.configure(self._settings.log_level)
        return asgi(Extender(self._settings, Kube.connect(self._kubeconfig)))


def _worker_class(settings: Settings) -> type[_Worker]:
    directory = settings.tls_directory
    if directory is None:
        return _Worker

    def context(*_: Any) -> ssl.SSLContext:
        files = (directory / name for name in ("tls.crt", "tls.key", "ca.crt"))
        return ReloadingServerContext(*files).context

    return type("Worker", (_Worker,), {"CONFIG_KWARGS": _Worker.CONFIG_KWARGS | {"ssl_context_factory": context}})


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Serve until told to stop."""
    _Gunicorn(settings, kubeconfig).run()
