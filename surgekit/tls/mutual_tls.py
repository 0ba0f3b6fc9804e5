"""Call one of our own servers with the client certificate that it asks for."""

from __future__ import annotations

import http.client
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["request"]


def request(
    url: str,
    certificates: Path,
    client: str,
    method: str = "GET",
    body: bytes | None = None,
    *,
    through: socket.socket | None = None,
) -> tuple[int, bytes]:
    """Return (status, body). `certificates` holds ca.crt, <client>.crt and <client>.key.

    `through` is a socket already connected to the server (a port-forward). The server's certificate must
    still carry the URL's host name.
    """
    context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    context.load_cert_chain(certificates / f"{client}.crt", certificates / f"{client}.key")
    parts = urlsplit(url)
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port or 443, timeout=10, context=context
    )
    try:
        if through is not None:
            connection.sock = context.wrap_socket(through, server_hostname=parts.hostname)
        connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
