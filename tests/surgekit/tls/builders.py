"""What the tests of certificates share: a moment, the hosts of a server, and the certificates wanted."""

from __future__ import annotations

from datetime import UTC, datetime

from surgekit.tls import Client, Server

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOSTS = ["localhost", "127.0.0.1", "surgekit-extender.surgekit-system.svc"]
WANTED: list[Server | Client] = [Server("server", tuple(HOSTS)), Client("client", "kube-scheduler")]
