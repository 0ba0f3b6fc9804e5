"""An extender served for real on a local port by gunicorn's worker, its watches unplugged."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger

from scheduler_extender.extender import Extender
from scheduler_extender.server import Application
from scheduler_extender.worker import FastLaneWorker
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
    running: list[tuple[socket.socket, FastLaneWorker]] = []

    def start(**settings: Any) -> Served:
        extender = builders.extender(**settings)
        listener = socket.create_server(("127.0.0.1", 0))
        worker = FastLaneWorker(0, os.getpid(), [listener], None, 30, Config(), Logger(Config()))
        worker.wsgi = Application(extender)
        worker.init_lane()
        running.append((listener, worker))

        def accept() -> None:
            while True:
                try:
                    worker.accept(listener)
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        return Served(extender, listener.getsockname()[1])

    yield start
    for listener, worker in running:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        worker.tmp.close()
