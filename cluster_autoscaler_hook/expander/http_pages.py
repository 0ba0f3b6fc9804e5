"""What is served over HTTP: health and metrics to everybody, /explain to client certificates only.

/explain shows what a cluster runs and pays, so it has a port of its own with TLS on both sides, as the
extender's. kubelet and Prometheus have no certificate; their port gives nothing away.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from surgekit.process.http_port import HEALTH, PEER, HttpPort

__all__ = ["HttpServer", "Page"]

# Status, body, content type.
Page = Callable[[], tuple[int, bytes, str]]
_TEXT = "text/plain; charset=utf-8"


class HttpServer:
    """Listens from the start; serves between `start` and `stop`."""

    def __init__(
        self,
        address: tuple[str, int],
        pages: Mapping[str, Page],
        tls: ssl.SSLContext | None = None,
        client_names: Sequence[str] = (),
    ) -> None:
        """With `tls` only peers with a certificate of one of `client_names` get a page. Raises OSError."""
        self._pages, self._client_names = pages, client_names if tls else None
        self._listener = socket.create_server(address)
        self.port = int(self._listener.getsockname()[1])
        self._http = HttpPort(self._application, HEALTH, tls, lambda name: name in client_names)

    def start(self) -> None:
        threading.Thread(target=self._http.run, args=[self._listener], name="http", daemon=True).start()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts; closing alone does not
        self.close()

    def close(self) -> None:
        """Without having been started."""
        self._listener.close()
        self._http.close()

    def _application(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, body, kind = self._page(environ)
        length = str(len(body))
        start_response(
            f"{status} {HTTPStatus(status).phrase}", [("Content-Type", kind), ("Content-Length", length)]
        )
        return [body]

    def _page(self, environ: Mapping[str, Any]) -> tuple[int, bytes, str]:
        if self._client_names is not None and environ[PEER] not in self._client_names:
            return 403, b"this port needs a client certificate of one of client_names\n", _TEXT
        if environ["REQUEST_METHOD"] != "GET":
            return 405, b"only GET is served\n", _TEXT
        page = self._pages.get(environ["PATH_INFO"])
        return page() if page else (404, b"not found\n", _TEXT)
