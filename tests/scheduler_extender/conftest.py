"""An extender served for real on a local port, its watches unplugged."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
import uvicorn

from scheduler_extender.extender import Extender
from scheduler_extender.server import UVICORN, Application
from tests.scheduler_extender import builders


class Served:
    def __init__(self, extender: Extender, port: int) -> None:
        self.extender, self.port = extender, port

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
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
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(**settings: Any) -> Served:
        extender = builders.extender(**settings)
        extender.sources.start = lambda: None  # type: ignore[method-assign]  # nothing to watch here
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(Application(extender), **UVICORN, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        running.append((server, thread))
        return Served(extender, listener.getsockname()[1])

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()
