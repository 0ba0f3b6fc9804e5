"""A server-side TLS context that follows its files: no restart, no dropped connection.

OpenSSL calls the context's server-name callback in every handshake, whether or not the client sent a name.
The callback moves the connection to a context built from the current files. Open connections keep the
context they began with.

Session resumption is off. OpenSSL looks a session up before the callback and does not check the client's
certificate again, so a client of a CA that is no longer trusted could return while its session lives. The
scheduler keeps its connection open, so nothing is lost. TLS 1.2 also resumes sessions that the server itself
remembers while their connection is open, and Python cannot turn that off: so it is TLS 1.3 only, which Go's,
Python's and curl's clients have spoken for years.
"""

from __future__ import annotations

import os
import ssl
import threading
from datetime import datetime
from pathlib import Path

import structlog
from cryptography import x509

from surgekit.tls.issue import CertificateError

__all__ = ["ReloadingServerContext"]

log = structlog.get_logger(__name__)

# A file's identity changes when it is rewritten, renamed over, or behind kubelet's swapped symlink.
_Stamp = tuple[int, int, int] | None


class ReloadingServerContext:
    """Give `context` to any server (asyncio or plain sockets). Safe to share between threads.

    Client certificates are optional and checked when presented. kubelet's probes have none, so the
    application requires one per path (`getpeercert()` is None or a verified certificate).
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path) -> None:
        """Raises CertificateError if the files are unusable now. Later faulty changes are logged and
        skipped."""
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._lock = threading.Lock()
        self._stamps = self._stamps_now()
        self._current, self._not_after = self._build()
        # A handshake only starts with this context; the callback replaces it every time, so that no
        # handshake ends with stale files.
        self.context, _ = self._build()
        self.context.sni_callback = self._choose

    @property
    def not_after(self) -> datetime:
        """When the served certificate expires. Its metric shows a stuck renewal."""
        return self._not_after

    def _choose(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _server_name: str | None, _context: ssl.SSLContext
    ) -> None:
        with self._lock:
            stamps = self._stamps_now()
            if stamps != self._stamps:
                # Remembered even if the files are faulty: one attempt and one log line for each change.
                self._stamps = stamps
                self._reload()
            connection.context = self._current

    def _reload(self) -> None:
        try:
            self._current, self._not_after = self._build()
        except CertificateError as error:
            log.error("certificates not reloaded, the previous ones stay in use", error=str(error))
        else:
            log.info("certificates reloaded", not_after=self._not_after.isoformat())

    def _build(self) -> tuple[ssl.SSLContext, datetime]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_OPTIONAL
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        # kube-scheduler offers h2 first; our servers speak HTTP/1.1.
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
            context.load_verify_locations(self._client_ca)
            served = x509.load_pem_x509_certificate(self._certificate.read_bytes())
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            files = ", ".join(str(p) for p in (self._certificate, self._key, self._client_ca))
            raise CertificateError(f"certificate files cannot be used ({files}): {error}") from error
        return context, served.not_valid_after_utc

    def _stamps_now(self) -> tuple[_Stamp, ...]:
        return tuple(_stamp(path) for path in (self._certificate, self._key, self._client_ca))


def _stamp(path: Path) -> _Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _no_password() -> str:
    """Without it OpenSSL would ask on the terminal and block the server."""
    raise ValueError("the key is encrypted, and no password is supported")
