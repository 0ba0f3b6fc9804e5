"""The expander on the network: gRPC with a server certificate that is reloaded, HTTP for health, metrics.

The caller presents no certificate (grpcplugin dials with a CA only), so whoever reaches the port may ask;
what an answer gives away is which of the asker's own groups is cheapest. A NetworkPolicy keeps others out.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
import orjson
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from cluster_autoscaler_hook.catalogue import CatalogueError
from cluster_autoscaler_hook.expander import wire
from cluster_autoscaler_hook.expander.decode import RequestError
from cluster_autoscaler_hook.expander.plan import Solve
from cluster_autoscaler_hook.expander.service import Expander
from cluster_autoscaler_hook.expander.settings import Settings
from surgekit import logs
from surgekit.certificates import CertificateError
from surgekit.settings import SettingsError

__all__ = ["Server", "run"]

log = structlog.get_logger(__name__)

# One autoscaler asks one question at a time; a second replica of it, and a person trying.
_CALLS_AT_ONCE = 3
_GRACE_S = 5.0
_M_ARENA_MAX = -8  # of malloc.h


class Server:
    """Both ports. `start` returns once they are open; port 0 in a setting takes a free one."""

    def __init__(self, settings: Settings, solve: Solve) -> None:
        """Raises CatalogueError, CertificateError."""
        self.expander = Expander(settings, solve)
        limit = settings.max_request_mib << 20
        self._grpc = grpc.server(
            ThreadPoolExecutor(_CALLS_AT_ONCE, thread_name_prefix="best-options"),
            options=[("grpc.max_receive_message_length", limit), ("grpc.so_reuseport", 0)],
            maximum_concurrent_rpcs=_CALLS_AT_ONCE,
        )
        # Raw bytes: `decode` looks at what it needs, and keeps its own time.
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._best_options)
        self._grpc.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(wire.SERVICE, {wire.METHOD: handler}),)
        )
        if settings.tls_directory is None:
            log.warning("plaintext, which Cluster Autoscaler refuses; set tls_directory")
            self.port = self._grpc.add_insecure_port(settings.bind)
        else:
            credentials = _reloading_credentials(settings.tls_directory)
            self.port = self._grpc.add_secure_port(settings.bind, credentials)
        self._ready = threading.Event()
        host, _, port = settings.http_bind.rpartition(":")
        self._http = ThreadingHTTPServer((host, int(port)), _pages(self.expander, self._ready.is_set))
        self._http.daemon_threads = True
        self.http_port = int(self._http.server_address[1])

    def start(self) -> Server:
        self._grpc.start()
        threading.Thread(target=self._http.serve_forever, name="http", daemon=True).start()
        self._ready.set()
        log.info("expander started", port=self.port, http_port=self.http_port)
        return self

    def stop(self) -> None:
        """Calls under way are answered."""
        self._ready.clear()
        self._grpc.stop(_GRACE_S).wait()
        self._http.shutdown()
        self._http.server_close()
        self.expander.close()

    def _best_options(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return self.expander.best_options(body)
        except RequestError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise  # abort does not return


def _pages(expander: Expander, ready: Callable[[], bool]) -> type[BaseHTTPRequestHandler]:
    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path:
                case "/livez":
                    self._send(200 if expander.alive() else 503, b"ok\n" if expander.alive() else b"stuck\n")
                case "/readyz":
                    self._send(200 if ready() else 503, b"ok\n" if ready() else b"starting or stopping\n")
                case "/metrics":
                    self._send(200, generate_latest(expander.metrics.registry), CONTENT_TYPE_LATEST)
                case "/explain":
                    self._send(200, orjson.dumps(expander.explain()), "application/json")
                case _:
                    self._send(404, b"not found\n")

        def _send(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Probes every few seconds are no news."""

    return Pages


def _reloading_credentials(directory: Path) -> grpc.ServerCredentials:
    """gRPC asks for the certificate at every handshake; None means as before."""
    served = _pair(directory)
    faulty = ""

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal served, faulty
        try:
            pair = _pair(directory)
        except CertificateError as error:
            if str(error) != faulty:  # one line in the log for each fault, not for each handshake
                faulty = str(error)
                log.error("certificate not reloaded, the previous one stays in use", error=faulty)
            return None
        faulty = ""
        if pair == served:
            return None
        served = pair
        log.info("certificate reloaded")
        return grpc.ssl_server_certificate_configuration([pair])

    first = grpc.ssl_server_certificate_configuration([served])
    return grpc.dynamic_ssl_server_credentials(
        first,
        changed,  # type: ignore[arg-type]  # the stubs forget that None means unchanged
        require_client_authentication=False,
    )


def _pair(directory: Path) -> tuple[bytes, bytes]:
    """(key, certificates) that belong together: with others gRPC would fail at every handshake."""
    try:
        key, chain = (directory / "tls.key").read_bytes(), (directory / "tls.crt").read_bytes()
        of_key = serialization.load_pem_private_key(key, password=None).public_key()
        of_certificate = x509.load_pem_x509_certificate(chain).public_key()
    except (OSError, ValueError, TypeError) as error:  # TypeError: the key is encrypted
        raise CertificateError(f"tls.crt and tls.key in {directory} cannot be used: {error}") from error
    if of_key != of_certificate:
        raise CertificateError(f"tls.crt and tls.key in {directory} cannot be used: they are no pair")
    return key, chain


def _one_arena() -> None:
    """One heap for all threads: with one each, gRPC's threads keep a large request's memory from each other
    (680 MiB at the peak instead of 520), and most of the time it takes is the kernel's, finding pages."""
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:  # glibc has it, musl does not
        mallopt(_M_ARENA_MAX, 1)


def run(settings: Settings) -> None:
    """Serve until told to stop."""
    _one_arena()
    from cluster_autoscaler_hook.solver import solve  # noqa: PLC0415  # HiGHS loads where it is used

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
