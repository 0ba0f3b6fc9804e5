"""Create certificates, renew them before they expire, and serve them without a restart.

`issue` decides what is due (pure), `files` and `secrets` store the result in a directory or in Kubernetes
Secrets, `reload` serves it. Where cert-manager manages the Secrets, only `reload` is used.
"""

from __future__ import annotations

from surgekit.tls.files import ensure
from surgekit.tls.issue import CertificateError, Change, Client, Server
from surgekit.tls.reload import ReloadingServerContext
from surgekit.tls.secrets import ensure_secrets

__all__ = [
    "CertificateError",
    "Change",
    "Client",
    "ReloadingServerContext",
    "Server",
    "ensure",
    "ensure_secrets",
]
