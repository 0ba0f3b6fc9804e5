"""An adapter served for real on local ports, over TLS; its watches unplugged."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from hpa_replacement.adapter.server import Application
from hpa_replacement.adapter.settings import Settings
from surgekit.tls import ensure
from tests.hpa_replacement.adapter.builders import FakeKube, heard_of_just_now, policy
from tests.served_ports import served

PROXY, STRANGER = "front-proxy-client", "somebody-else"
HPA = {"X-Remote-User": "hpa", "X-Remote-Group": "system:authenticated"}


class Served:
    """`front_proxy` and `other_ca` hold client certificates: PROXY's and STRANGER's, of either CA."""

    def __init__(
        self, application: Application, kube: FakeKube, directory: Path, port: int, health_port: int
    ) -> None:
        self.application, self.kube = application, kube
        self.port, self.health_port = port, health_port
        self.front_proxy, self.other_ca = directory / "front-proxy", directory / "other"
        self._server_ca = directory / "server" / "ca.crt"

    def connect(
        self, client: str | None = PROXY, signed_by: Path | None = None
    ) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self._server_ca))
        if client:
            files = signed_by or self.front_proxy
            context.load_cert_chain(files / f"{client}.crt", files / f"{client}.key")
        return http.client.HTTPSConnection("localhost", self.port, timeout=10, context=context)

    def ask(
        self,
        path: str,
        headers: dict[str, str] | list[tuple[str, str]] = HPA,
        client: str | None = PROXY,
        method: str = "GET",
        signed_by: Path | None = None,
    ) -> tuple[int, Any]:
        connection = self.connect(client, signed_by)
        try:
            connection.putrequest(method, path)
            for name, value in headers.items() if isinstance(headers, dict) else headers:
                connection.putheader(name, value)
            connection.endheaders()
            return read(connection)
        finally:
            connection.close()

    def health(self, path: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=10)
        try:
            connection.request("GET", path)
            return read(connection)
        finally:
            connection.close()


def read(connection: http.client.HTTPConnection) -> tuple[int, Any]:
    answer = connection.getresponse()
    content = answer.read()
    is_json = "json" in (answer.getheader("content-type") or "")
    return answer.status, orjson.loads(content) if is_json and content else content.decode()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory, now = tmp_path_factory.mktemp("tls"), datetime.now(UTC)
    ensure(directory / "server", ["localhost"], [], now)
    for signer in ("front-proxy", "other"):
        ensure(directory / signer, [], [PROXY, STRANGER], now)
    return directory


@pytest.fixture
def serve(certificates: Path) -> Iterator[Callable[..., Served]]:
    with ExitStack() as running:

        def start(*policies: Any, **settings: Any) -> Served:
            kube = FakeKube(certificates / "front-proxy" / "ca.crt")
            application = Application(Settings(tls_directory=certificates / "server", **settings), kube)  # type: ignore[arg-type]
            application.load()
            running.callback(application.stop)
            application.policies.replace(list(policies) or [policy()], 0.0)
            heard_of_just_now(application.policies._watch)
            numbers = running.enter_context(served(application.ports))
            return Served(application, kube, certificates, *numbers)

        yield start
