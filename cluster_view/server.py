"""The page over HTTP: files, a stream of changes, and explanations. It answers GET only and changes nothing.

Anybody's page may make a browser ask here. So requests must name this server as their Host (DNS rebinding: a
name of the attacker's that leads here), no other site may read an answer or hold a stream, and the page may
load and ask nothing elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path
from typing import Any

import flask
import orjson
from werkzeug.exceptions import HTTPException

from cluster_view.decisions import explanation
from cluster_view.publisher import Publisher, events
from cluster_view.service import View
from surgekit.errors import UserError
from surgekit.kube.api_path import is_name, is_namespace
from surgekit.process.bind import address, refused
from surgekit.process.connections import Connection, Limits
from surgekit.process.http_port import CONNECTION, HttpPort
from surgekit.process.listener import Listener

__all__ = ["LIMITS", "Ask", "Page", "application", "hosts", "serve"]

Json = dict[str, Any]
Answer = flask.typing.ResponseReturnValue
# What the extender says about the pod NAMESPACE/NAME; raises UserError with what to do if it says nothing.
Ask = Callable[[str], Json]

STATIC = Path(__file__).with_name("static")
# A browser holds a stream for each tab and a few connections for files.
LIMITS = Limits(total=64, per_peer=64, request_s=30.0, idle_s=30.0)
# A reader that is gone is noticed when this cannot be sent; a page that hears nothing for longer says so.
_HEARTBEAT_S = 10.0
_ASKED_AT_ONCE = 4
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def hosts(address: str, port: int) -> frozenset[str]:
    """What a request's Host may be: names of this machine's loopback, and the address that is listened on."""
    names = {"localhost", "127.0.0.1", "[::1]", f"[{address}]" if ":" in address else address}
    return frozenset(f"{name}:{port}" for name in names)


class Page:
    """The page of one view, from `start` to `stop`."""

    def __init__(self, view: View, host: str, port: int) -> None:
        """Raises OSError if the address is taken."""
        self._view, self._over = view, threading.Event()
        self._listener = Listener((host, port), HttpPort(self._application, LIMITS))
        self._flask = application(view.publisher, view.ask, hosts(host, self._listener.number)).wsgi_app
        shown = "localhost" if host == "127.0.0.1" else host
        self.url = f"http://{shown}:{self._listener.number}/"

    def _application(self, environ: Json, start_response: Callable[..., Any]) -> Iterable[bytes]:
        return self._flask(environ, start_response)

    def start(self) -> Page:
        self._view.start()
        self._view.publisher.start()
        self._listener.start()
        return self

    def wait(self) -> None:
        self._over.wait()

    def stop(self) -> None:
        self._view.stop()
        self._listener.stop()
        self._over.set()


def serve(view: View, bind: str, port: int | None = None) -> Page:
    """Start the page at `bind`, at another port if one is given. Raises SettingsError."""
    host, usual = address("bind", bind)
    try:
        return Page(view, host, usual if port is None else port).start()
    except OSError as error:
        raise refused("bind", f"{host}:{usual if port is None else port}", error) from error


def application(publisher: Publisher, ask: Ask, allowed: Set[str]) -> flask.Flask:
    """`allowed`: see `hosts`."""
    app = flask.Flask("cluster_view", static_folder=None)
    app.url_map.merge_slashes = False  # a path is what it says
    asking = threading.BoundedSemaphore(_ASKED_AT_ONCE)

    @app.before_request
    def check() -> Answer | None:
        request = flask.request
        if request.headers.get("Host", "").lower() not in allowed:
            return _error(421, "this server answers by its own address only; see the line it printed")
        if request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site") and request.path != "/":
            return _error(403, "another site asked")
        return None

    @app.after_request
    def harden(response: flask.Response) -> flask.Response:
        response.headers.update(_HEADERS)
        return response

    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> Answer:
        return _error(error.code or 500, error.description or error.name)

    @app.get("/")
    def page() -> Answer:
        return flask.send_from_directory(STATIC, "index.html")

    @app.get("/static/<path:name>")
    def static(name: str) -> Answer:
        return flask.send_from_directory(STATIC, name)

    @app.get("/events")
    def stream() -> Answer:
        connection: Connection = flask.request.environ[CONNECTION]
        return flask.Response(_encoded(publisher, connection), mimetype="text/event-stream")

    @app.get("/explain/pod/<namespace>/<name>")
    def explain(namespace: str, name: str) -> Answer:
        if not is_namespace(namespace) or not is_name(name):
            return _error(400, "not the name of a pod")
        if not asking.acquire(blocking=False):
            return _error(503, "too many questions at once; ask again")
        try:
            return _json(200, explanation(ask(f"{namespace}/{name}")))
        except UserError as error:
            return _error(404, str(error))
        except (LookupError, TypeError, ValueError):
            return _error(502, "the extender's answer makes no sense; is it of another version?")
        finally:
            asking.release()

    return app


def _encoded(publisher: Publisher, connection: Connection) -> Iterator[bytes]:
    """Server-sent events. What was sent moves the deadline: a reader that takes nothing for long is ended."""
    for kind, data in events(publisher, _HEARTBEAT_S):
        yield b"event: %b\ndata: %b\n\n" % ((kind.encode(), data) if kind else (b"alive", b"{}"))
        connection.rest()


def _json(status: int, content: object) -> flask.Response:
    return flask.Response(orjson.dumps(content), status, content_type="application/json")


def _error(status: int, message: str) -> flask.Response:
    return _json(status, {"error": message})
