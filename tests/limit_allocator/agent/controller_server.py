"""A controller's end of the stream, with as little in it as a test needs. gRPC with mutual TLS."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import grpc

from limit_allocator.wire.bearer import token_in
from limit_allocator.wire.link import METHOD
from limit_allocator.wire.messages import Hello, Orders, Report, decode_from_agent, encode
from surgekit.tls import ensure

__all__ = ["NAME", "ControllerServer", "certificates"]

NAME = "surgekit-limits.surgekit-system.svc"


def certificates(directory: Path) -> tuple[Path, Path]:
    """The server's directory and the agent's."""
    ensure(directory, [NAME], ["agent"], datetime.now(UTC))
    agent = directory / "of-the-agent"
    agent.mkdir(exist_ok=True)
    for source, target in (("ca.crt", "ca.crt"), ("agent.crt", "tls.crt"), ("agent.key", "tls.key")):
        shutil.copy(directory / source, agent / target)
    return directory, agent


class ControllerServer:
    """Answers each Hello with the orders that were put; `leads=False`: refuses every stream."""

    def __init__(self, directory: Path, host: str = "127.0.0.1", port: int = 0, leads: bool = True) -> None:
        self.leads = leads
        self.orders: queue.SimpleQueue[Orders | bytes | None] = queue.SimpleQueue()  # None: end the stream
        self.hellos: queue.SimpleQueue[Hello] = queue.SimpleQueue()
        self.reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self.refused = 0
        self.tokens: list[str] = []
        self._stopping = False
        self._streams = 0
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._attach)
        _, service, method = METHOD.split("/")
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )
        key, chain, ca = ((directory / name).read_bytes() for name in ("tls.key", "tls.crt", "ca.crt"))
        credentials = grpc.ssl_server_credentials([(key, chain)], ca, require_client_auth=True)
        self.port = self._server.add_secure_port(f"{host}:{port}", credentials)
        self._server.start()

    def stop(self) -> None:
        self._stopping = True
        self._server.stop(0).wait()

    def next_report(self) -> Report:
        return self.reports.get(timeout=20)

    def _attach(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        self.tokens.append(token_in(context.invocation_metadata()))
        if not self.leads:
            self.refused += 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "not the leader")
        threading.Thread(target=self._hear, args=[requests], daemon=True).start()
        self._streams += 1
        number = self._streams
        while context.is_active() and not self._stopping and number == self._streams:
            with suppress(queue.Empty):
                said = self.orders.get(timeout=0.02)
                if number != self._streams:
                    self.orders.put(said)  # for the stream that came meanwhile
                elif said is None:
                    return
                else:
                    yield said if isinstance(said, bytes) else encode(said)

    def _hear(self, requests: Iterator[bytes]) -> None:
        with suppress(Exception):  # gRPC raises a bare one when the stream ends
            for content in requests:
                message = decode_from_agent(content)
                if isinstance(message, Hello):
                    self.hellos.put(message)
                else:
                    self.reports.put(message)
