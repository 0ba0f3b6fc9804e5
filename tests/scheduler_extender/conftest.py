"""An extender served for real on local ports, its watches unplugged."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import orjson
import pytest

from scheduler_extender.server import Application
from tests.scheduler_extender import builders
from tests.served_ports import served


class Served:
    def __init__(self, application: Application, port: int, health_port: int) -> None:
        self.application, self.extender = application, application.extender
        self.port, self.health_port = port, health_port

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        port = self.health_port if path in ("/livez", "/readyz", "/metrics") else self.port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            is_json = "json" in (answer.getheader("content-type") or "")
            return answer.status, orjson.loads(content) if is_json else content.decode()
        finally:
            connection.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    with ExitStack() as running:

        def start(**settings: Any) -> Served:
            application = Application(builders.extender(**settings))
            numbers = running.enter_context(served(application.ports))
            return Served(application, *numbers)

        yield start
