"""Serve one gRPC service to our own processes.

The server runs in the caller's asyncio loop; `ServerThread` gives it a loop of its own, for a process that
has none. Callers prove who they are by a client certificate, and each method lists the names that may call
it. A message that cannot be read ends that call and nothing else.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import grpc
import msgspec
import structlog

from surgekit.process.bind import check_free
from surgekit.process.settings import SettingsError
from surgekit.tls import CertificateError
from surgekit.tls.grpc_credentials import reloading_credentials
from surgekit.wire.messages import LARGEST_BYTES, MessageError, decode, encode

__all__ = ["Caller", "Method", "ServerThread", "Unavailable", "WireServer"]

log = structlog.get_logger(__name__)

T = TypeVar("T")
_OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_BYTES),
    ("grpc.so_reuseport", 0),
    # A machine that vanished keeps its connection open: ask, and give it up.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),  # clients ask, too
    ("grpc.keepalive_permit_without_calls", 1),
)
_LONGEST_NAME = 100


class Unavailable(Exception):
    """Raised by a handler that cannot answer now (another replica leads): the caller tries elsewhere."""


@dataclass(frozen=True, slots=True)
class Caller:
    name: str  # of its certificate; empty where the server is plaintext
    address: str  # its IP address


class _Kind(Enum):
    UNARY = "unary"
    STREAM = "stream"
    CONVERSATION = "conversation"


@dataclass(frozen=True)
class Method:
    """One method: what it takes, who may call it, and what serves it. Made by the three constructors."""

    kind: _Kind
    request: type[Any]
    callers: frozenset[str]
    serve: Callable[..., Any]

    @classmethod
    def unary(
        cls,
        request: type[T],
        callers: frozenset[str],
        serve: Callable[[T, Caller], Awaitable[msgspec.Struct]],
    ) -> Method:
        """One message in, one out."""
        return cls(_Kind.UNARY, request, callers, serve)

    @classmethod
    def stream(
        cls,
        request: type[T],
        callers: frozenset[str],
        serve: Callable[[T, Caller], AsyncIterator[msgspec.Struct]],
    ) -> Method:
        """One message in, many out."""
        return cls(_Kind.STREAM, request, callers, serve)

    @classmethod
    def conversation(
        cls,
        request: type[T],
        callers: frozenset[str],
        serve: Callable[[AsyncIterator[T], Caller], AsyncIterator[msgspec.Struct]],
    ) -> Method:
        """Many messages in, many out."""
        return cls(_Kind.CONVERSATION, request, callers, serve)


Context = grpc.aio.ServicerContext[bytes, bytes]


class WireServer:
    """One service on one port. `start` and `stop` belong to the loop's thread."""

    def __init__(
        self, bind: str, tls_directory: Path | None, service: str, methods: Mapping[str, Method]
    ) -> None:
        """Raise SettingsError. Without `tls_directory` the port is plaintext and everybody may call."""
        check_free("bind", bind)
        try:
            self._credentials = reloading_credentials(tls_directory, clients=True) if tls_directory else None
        except CertificateError as error:
            raise SettingsError(str(error)) from error
        self._bind, self._service, self._methods = bind, service, methods
        self.port = 0
        self.refused_total = 0  # calls of others, and messages that cannot be read
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self._server = grpc.aio.server(options=_OPTIONS)
        handlers = {name: self._handler(method) for name, method in self._methods.items()}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(self._service, handlers),)
        )
        if self._credentials is None:
            log.warning("the port is plaintext; set tls_directory", service=self._service)
            self.port = self._server.add_insecure_port(self._bind)
        else:
            self.port = self._server.add_secure_port(self._bind, self._credentials)
        await self._server.start()

    async def stop(self, grace_s: float = 1.0) -> None:
        if self._server is not None:
            await self._server.stop(grace_s)

    def _handler(self, method: Method) -> Any:
        if method.kind is _Kind.UNARY:

            async def unary(request: bytes, context: Context) -> bytes:
                caller = await self._admit(method, context)
                try:
                    return encode(await method.serve(decode(request, method.request), caller))
                except (MessageError, Unavailable) as error:
                    return await self._refuse(context, error)

            return grpc.unary_unary_rpc_method_handler(unary)
        if method.kind is _Kind.STREAM:

            async def stream(request: bytes, context: Context) -> AsyncIterator[bytes]:
                caller = await self._admit(method, context)
                try:
                    async for reply in method.serve(decode(request, method.request), caller):
                        yield encode(reply)
                except (MessageError, Unavailable) as error:
                    await self._refuse(context, error)

            return grpc.unary_stream_rpc_method_handler(stream)

        async def conversation(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            caller = await self._admit(method, context)

            async def decoded() -> AsyncIterator[Any]:
                async for request in requests:
                    yield decode(request, method.request)

            try:
                async for reply in method.serve(decoded(), caller):
                    yield encode(reply)
            except (MessageError, Unavailable) as error:
                await self._refuse(context, error)

        return grpc.stream_stream_rpc_method_handler(conversation)

    async def _admit(self, method: Method, context: Context) -> Caller:
        address = _host(context.peer())
        if self._credentials is None:
            return Caller("", address)
        names = [name.decode(errors="replace") for name in _common_names(context)]
        if allowed := next((name for name in names if name in method.callers), None):
            return Caller(allowed, address)
        self.refused_total += 1
        log.warning("caller refused", service=self._service, name=str(names)[:_LONGEST_NAME], address=address)
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "this certificate may not call this method")
        raise AssertionError("abort does not return")

    async def _refuse(self, context: Context, error: MessageError | Unavailable) -> bytes:
        if isinstance(error, MessageError):
            self.refused_total += 1
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        raise AssertionError("abort does not return")


class ServerThread:
    """Runs a server in a thread with a loop of its own. What serves a method runs there, too."""

    def __init__(self, server: WireServer) -> None:
        self._server = server
        self.loop = asyncio.new_event_loop()
        self._open = threading.Event()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)

    def start(self) -> None:
        """Return once the port is open."""
        self._thread.start()
        self._open.wait(10.0)

    def stop(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(timeout=5.0)

    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._serve())
        finally:
            self.loop.close()

    async def _serve(self) -> None:
        await self._server.start()
        self._open.set()
        await self._stopping.wait()
        await self._server.stop()


def _common_names(context: Context) -> tuple[bytes, ...]:
    """Of the client's certificate, whose issuer gRPC has checked."""
    return tuple(context.auth_context().get("x509_common_name", ()))


def _host(peer: str) -> str:
    """The address in `ipv4:10.0.0.1:1234` or `ipv6:[fd00::1]:1234`, which gRPC may write with %5B and %5D."""
    address = peer.partition(":")[2].rpartition(":")[0]
    return address.replace("%5B", "[").replace("%5D", "]").strip("[]")
