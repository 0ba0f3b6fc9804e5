"""Call a gRPC service of our own from an asyncio loop.

A client reads its certificate once. After a failed handshake make a new one, since certificates are renewed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import grpc
import msgspec

from surgekit.wire.messages import LARGEST_BYTES, decode, encode

__all__ = ["WireClient", "WireError"]

T = TypeVar("T")
# An idle server sends nothing, so only a ping notices that its machine is gone.
_OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_BYTES),
    ("grpc.use_local_subchannel_pool", 1),  # a new client is a new connection
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # how long one attempt, with its handshake, may take
    ("grpc.max_reconnect_backoff_ms", 2_000),
)
_READABLE = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED)


class WireError(Exception):
    """A call that failed; `status` is gRPC's word for it. `sent` is False only if the server cannot have
    acted on the call: nothing was connected."""

    def __init__(self, status: str, details: str, *, sent: bool) -> None:
        super().__init__(f"{status}: {details}")
        self.status, self.sent = status, sent


class WireClient:
    """One connection to one address, kept and renewed by gRPC. All methods belong to the loop's thread."""

    def __init__(
        self, address: str, service: str, certificates: Path | None, server_name: str = "", name: str = "tls"
    ) -> None:
        """`certificates` holds ca.crt, NAME.crt and NAME.key; None: plaintext. `server_name` is the name in
        the server's certificate, if it is not the host of `address`. Raise OSError."""
        self._service = service
        options = list(_OPTIONS)
        if server_name:
            options.append(("grpc.ssl_target_name_override", server_name))  # type: ignore[arg-type]
        if certificates is None:
            self._channel = grpc.aio.insecure_channel(address, options)
            return
        ca, key, certificate = (
            (certificates / file).read_bytes() for file in ("ca.crt", f"{name}.key", f"{name}.crt")
        )
        credentials = grpc.ssl_channel_credentials(ca, key, certificate)
        self._channel = grpc.aio.secure_channel(address, credentials, options)

    async def call(self, method: str, message: msgspec.Struct, reply: type[T], timeout_s: float) -> T:
        """Raise WireError or MessageError."""
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(self._path(method))
        try:
            return decode(await call(encode(message), timeout=timeout_s), reply)
        except grpc.aio.AioRpcError as error:
            raise _error(error) from error

    async def stream(self, method: str, message: msgspec.Struct, reply: type[T]) -> AsyncIterator[T]:
        """Yield until the server ends it. Raise WireError or MessageError."""
        call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(self._path(method))
        running = call(encode(message))
        try:
            async for content in running:
                yield decode(content, reply)
        except grpc.aio.AioRpcError as error:
            raise _error(error) from error
        finally:
            running.cancel()

    async def converse(
        self, method: str, messages: AsyncIterator[msgspec.Struct], reply: type[T]
    ) -> AsyncIterator[T]:
        """Send `messages` and yield what comes back. Raise WireError or MessageError."""
        call: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(
            self._path(method)
        )

        async def encoded() -> AsyncIterator[bytes]:
            async for message in messages:
                yield encode(message)

        running = call(encoded())
        try:
            async for content in running:
                yield decode(content, reply)
        except grpc.aio.AioRpcError as error:
            raise _error(error) from error
        finally:
            running.cancel()

    async def close(self) -> None:
        await self._channel.close()

    def _path(self, method: str) -> str:
        return f"/{self._service}/{method}"


def _error(error: grpc.aio.AioRpcError) -> WireError:
    details = (error.details() or "")[:500]
    # gRPC says so of connections that never were; a connection that broke has another text.
    unconnected = error.code() is grpc.StatusCode.UNAVAILABLE and "failed to connect" in details
    return WireError(error.code().name, details, sent=not (unconnected or error.code() in _READABLE))
