"""Serves the expander: gRPC with a server certificate that is reloaded, and HTTP on other ports.

The caller presents no certificate (grpcplugin dials with a CA only), so everybody who reaches the port may
ask. An answer reveals only which of the asker's own groups is cheapest. A NetworkPolicy keeps others out.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import flask
import grpc
import orjson
import structlog
from prometheus_client import CollectorRegistry

from cluster_autoscaler_hook.catalogue import CatalogueError
from cluster_autoscaler_hook.expander import expander_pb2
from cluster_autoscaler_hook.expander.decode import RequestError
from cluster_autoscaler_hook.expander.plan import Solve
from cluster_autoscaler_hook.expander.service import Expander
from cluster_autoscaler_hook.expander.settings import Settings
from surgekit.process import logs
from surgekit.process.bind import address, check_free, refused
from surgekit.process.health_server import health_port
from surgekit.process.http_port import HEALTH, PEER, HttpPort
from surgekit.process.listener import Listener
from surgekit.process.settings import SettingsError
from surgekit.tls import CertificateError, ReloadingServerContext
from surgekit.tls.grpc_credentials import reloading_credentials

__all__ = ["Server", "run"]

log = structlog.get_logger(__name__)

# An autoscaler sends one request at a time. Room for a second replica of it, and for a person.
_CALLS_AT_ONCE = 3
_GRACE_S = 5.0
_M_ARENA_MAX = -8  # of malloc.h
_SERVICE = expander_pb2.DESCRIPTOR.services_by_name["Expander"]


class Server:
    """All ports. `start` returns once they are open; port 0 in a setting takes a free one."""

    def __init__(self, settings: Settings, solve: Solve) -> None:
        """Raise CatalogueError, CertificateError or SettingsError."""
        self.expander = Expander(settings, solve)
        self._ready = threading.Event()
        limit = settings.max_request_mib << 20
        self._grpc = grpc.server(
            ThreadPoolExecutor(_CALLS_AT_ONCE, thread_name_prefix="best-options"),
            options=[("grpc.max_receive_message_length", limit), ("grpc.so_reuseport", 0)],
            maximum_concurrent_rpcs=_CALLS_AT_ONCE,
        )
        # Raw bytes: `decode` reads only what it needs, within its own deadline.
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._best_options)
        self._grpc.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE.full_name, {"BestOptions": handler}),)
        )
        check_free("bind", settings.bind)
        if settings.tls_directory is None:
            self.port = self._grpc.add_insecure_port(settings.bind)
        else:
            credentials = reloading_credentials(settings.tls_directory)
            self.port = self._grpc.add_secure_port(settings.bind, credentials)
        self._http = [_listen("health_bind", settings.health_bind, health_port(self))]
        self.http_port = self._http[0].number
        self.explain_port = self._listen_for_explain(settings)

    def start(self) -> Server:
        self._grpc.start()
        for server in self._http:
            server.start()
        self._ready.set()
        if self.expander.settings.tls_directory is None:
            log.warning("plaintext, which Cluster Autoscaler refuses; set tls_directory")
        if self.explain_port is None:
            log.warning("/explain is not served: it needs ca.crt in tls_directory, for client certificates")
        log.info(
            "expander started",
            mode=str(self.expander.settings.mode),
            port=self.port,
            http_port=self.http_port,
            explain_port=self.explain_port,
        )
        return self

    def stop(self) -> None:
        """Answer the calls in progress, then stop."""
        self._ready.clear()
        self._grpc.stop(_GRACE_S).wait()
        for server in self._http:
            server.stop()
        self.expander.close()

    @property
    def registry(self) -> CollectorRegistry:
        return self.expander.metrics.registry

    def alive(self, now_s: float) -> bool:  # noqa: ARG002
        return self.expander.alive()

    def not_ready(self, now_s: float) -> str:  # noqa: ARG002
        return "" if self._ready.is_set() else "starting or stopping"

    def _listen_for_explain(self, settings: Settings) -> int | None:
        """None where there are no certificates to tell readers apart: then it is not served."""
        directory = settings.tls_directory
        if directory is None or not (directory / "ca.crt").exists():
            return None
        tls = ReloadingServerContext(*(directory / name for name in ("tls.crt", "tls.key", "ca.crt")))

        names = settings.client_names
        port = HttpPort(self._explain_app(), HEALTH, tls.context, lambda name: name in names)
        listener = _listen("explain_bind", settings.explain_bind, port)
        self._http.append(listener)
        return listener.number

    def _explain_app(self) -> flask.Flask:
        """/explain shows what a cluster runs and pays: for client certificates of the names allowed."""
        app = flask.Flask(__name__, static_folder=None)

        @app.before_request
        def admitted() -> tuple[str, int] | None:
            if flask.request.environ[PEER] in self.expander.settings.client_names:
                return None
            return "this port needs a client certificate of one of client_names", 403

        @app.get("/explain")
        def explain() -> flask.Response:
            body = orjson.dumps(self.expander.explain())
            return flask.Response(body, content_type="application/json")

        return app

    def _best_options(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return self.expander.best_options(body)
        except RequestError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise  # abort does not return


def _listen(key: str, bind: str, port: HttpPort) -> Listener:
    try:
        return Listener(address(key, bind), port)
    except OSError as error:
        raise refused(key, bind, error) from error


def _one_arena() -> None:
    """Use one heap for all threads. With one heap each, gRPC's threads cannot reuse each other's memory after
    a large request (peak 680 MiB instead of 520), and allocating pages takes most of the time."""
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:  # glibc has it, musl does not
        mallopt(_M_ARENA_MAX, 1)


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    _one_arena()
    from cluster_autoscaler_hook.solver.solve import solve  # noqa: PLC0415  # HiGHS loads where it is used

    logs.configure(settings.log_level)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        server = Server(settings, solve).start()
    except (CatalogueError, CertificateError) as error:
        raise SettingsError(str(error)) from error
    stopping.wait()
    log.info("expander stopping", pid=os.getpid())
    server.stop()
