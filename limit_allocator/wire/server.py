"""The controller's end of the agents' streams: gRPC with mutual TLS.

gRPC runs in an asyncio loop of its own, in one thread. It decodes what agents send and puts it into `inbox`;
decisions are made elsewhere. Only the leader accepts streams: the others answer UNAVAILABLE, so that an agent
tries the next replica. Every agent may send anything, as fast as it likes: one that sends nonsense, or more
than is read, loses its stream and hurts nobody else. What it says counts for its own node only, which its
token names.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import structlog

from limit_allocator.authentication import NotAnAgent
from limit_allocator.wire.bearer import token_in
from limit_allocator.wire.messages import Hello, MessageError, Orders, Report, decode_from_agent, encode
from surgekit.errors import UserError
from surgekit.process.bind import check_free
from surgekit.process.settings import SettingsError
from surgekit.tls import CertificateError
from surgekit.tls.grpc_credentials import reloading_credentials

__all__ = ["METHOD", "SERVICE", "AgentServer", "Closed", "Stream"]

log = structlog.get_logger(__name__)

SERVICE, METHOD = "surgekit.limits.Limits", "Attach"
_LARGEST = 2 << 20  # bytes of a message; a report of 4,096 containers has 0.6 MiB
_UNREAD = 64  # reports of one agent that wait to be read: 6 s of its ticks
_UNSENT = 64  # orders that one agent has not taken
_HELLO_S = 30.0
_REVIEWS_AT_ONCE, _REVIEWS_WAITING = 4, 1000  # of tokens; an agent that is sent away comes again
_OPTIONS = (
    ("grpc.max_receive_message_length", _LARGEST),
    ("grpc.so_reuseport", 0),
    # A node that vanished keeps its connection open: ask, and give it up.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),  # agents ask, too
    ("grpc.keepalive_permit_without_calls", 1),
)


@dataclass(eq=False, slots=True)
class Stream:
    """One agent's stream. `number` grows: of two streams of a node, the higher one is newer."""

    number: int
    orders: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(_UNSENT))
    arrived: int = 0  # counted by gRPC's thread
    taken: int = 0  # counted by the reader of the inbox
    why: str = ""  # we closed it


@dataclass(frozen=True, slots=True)
class Closed:
    """The stream ended."""


Arrival = tuple[Stream, Hello | Report | Closed]


class AgentServer:
    """Serves while it is started. All methods may be called from any thread."""

    def __init__(
        self,
        bind: str,
        tls_directory: Path | None,
        client_name: str,
        *,
        accepts: Callable[[], bool],
        on_arrival: Callable[[], None] = lambda: None,
        node_of: Callable[[str], str] | None = None,
    ) -> None:
        """Raise SettingsError. `accepts` tells whether this replica leads; `on_arrival` must not block.

        `node_of` tells which node a token's owner speaks for, or raises; it may block. None: believe agents.
        """
        check_free("bind", bind)
        self._bind, self._client_name, self._node_of = bind, client_name, node_of
        self._reviews = ThreadPoolExecutor(_REVIEWS_AT_ONCE, thread_name_prefix="token")
        self._reviewing = 0
        try:
            self._credentials = reloading_credentials(tls_directory, clients=True) if tls_directory else None
        except CertificateError as error:
            raise SettingsError(str(error)) from error
        self._accepts, self._on_arrival = accepts, on_arrival
        self.inbox: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        self.port = 0
        self.received_bytes, self.sent_bytes, self.refused_total = 0, 0, 0
        self._numbers = itertools.count(1)
        self._streams: set[Stream] = set()
        self._loop = asyncio.new_event_loop()
        self._open = threading.Event()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="agents", daemon=True)

    def start(self) -> AgentServer:
        self._thread.start()
        self._open.wait(10.0)
        if self._credentials is None:
            log.warning("agents' streams are plaintext; set tls_directory")
        if self._node_of is None:
            log.warning("agents are believed which node they are of; set agent_account")
        return self

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(timeout=5.0)
        self._reviews.shutdown(wait=False, cancel_futures=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def streams(self) -> int:
        return len(self._streams)

    def take(self, arrival: Arrival) -> None:
        """Note that an arrival of `inbox` was read."""
        arrival[0].taken += 1

    def send(self, orders: Mapping[Stream, Orders]) -> None:
        """Send without waiting. A stream that takes nothing is closed: its agent comes again."""
        encoded = [(stream, encode(message)) for stream, message in orders.items()]
        self._loop.call_soon_threadsafe(self._put, encoded)

    def close(self, stream: Stream, why: str) -> None:
        self._loop.call_soon_threadsafe(self._end, stream, why)

    def close_all(self, why: str) -> None:
        """This replica leads no longer."""
        self._loop.call_soon_threadsafe(self._end_all, why)

    # --- in the loop's thread ---

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = grpc.aio.server(options=_OPTIONS)
        attach: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._attach)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: attach}),))
        if self._credentials is None:
            self.port = server.add_insecure_port(self._bind)
        else:
            self.port = server.add_secure_port(self._bind, self._credentials)
        await server.start()
        self._open.set()
        await self._stopping.wait()
        await server.stop(1.0)

    def _put(self, encoded: list[tuple[Stream, bytes]]) -> None:
        for stream, content in encoded:
            try:
                stream.orders.put_nowait(content)
                self.sent_bytes += len(content)
            except asyncio.QueueFull:
                self._end(stream, "takes no orders")

    def _end_all(self, why: str) -> None:
        for stream in self._streams:
            self._end(stream, why)

    def _end(self, stream: Stream, why: str) -> None:
        stream.why = stream.why or why
        while not stream.orders.empty():
            stream.orders.get_nowait()
        stream.orders.put_nowait(b"")  # wakes the writer

    async def _attach(
        self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> None:
        """One agent's stream, from its Hello to its end."""
        if self._credentials is not None and not _is_named(context, self._client_name):
            self.refused_total += 1
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not the agents' certificate")
        if not self._accepts():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not the leader")
        node = await self._node(context)
        stream = Stream(next(self._numbers))
        self._streams.add(stream)
        reader = asyncio.create_task(self._read(stream, requests, node))
        try:
            while content := await stream.orders.get():
                await context.write(content)
        finally:
            reader.cancel()
            self._streams.discard(stream)
            self._arrived(stream, Closed())
        await context.abort(grpc.StatusCode.ABORTED, stream.why or "the stream ended")

    async def _node(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> str | None:
        """The node that the caller may speak for; None: any. Aborts the call of one that is no agent."""
        if self._node_of is None:
            return None
        if self._reviewing >= _REVIEWS_WAITING:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "too many agents come at once")
        token = token_in(context.invocation_metadata() or ())
        self._reviewing += 1
        try:
            return await self._loop.run_in_executor(self._reviews, self._node_of, token)
        except NotAnAgent as error:
            self.refused_total += 1
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        except UserError as error:
            log.warning("token not reviewed", error=str(error))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the API server does not review the token")
        finally:
            self._reviewing -= 1

    async def _read(self, stream: Stream, requests: AsyncIterator[bytes], node: str | None) -> None:
        try:
            hello = decode_from_agent(await asyncio.wait_for(anext(aiter(requests)), _HELLO_S))
            if not isinstance(hello, Hello):
                raise MessageError("the first message must be Hello")
            if node is not None and hello.node != node:
                raise MessageError(f"the token is of an agent of {node}, not of {hello.node}")
            self._arrived(stream, hello)
            async for content in requests:
                self.received_bytes += len(content)
                message = decode_from_agent(content)
                if not isinstance(message, Report):
                    raise MessageError("a second Hello")
                if stream.arrived - stream.taken >= _UNREAD:
                    raise MessageError("sends more than is read")
                self._arrived(stream, message)
        except (MessageError, TimeoutError, StopAsyncIteration) as error:
            self.refused_total += isinstance(error, MessageError)
            self._end(stream, str(error) or "no Hello came")
        else:
            self._end(stream, "")

    def _arrived(self, stream: Stream, message: Hello | Report | Closed) -> None:
        stream.arrived += 1
        self.inbox.put((stream, message))
        self._on_arrival()


def _is_named(context: grpc.aio.ServicerContext[Any, Any], name: str) -> bool:
    """Whether the client's certificate carries this common name (gRPC has checked its issuer)."""
    names = context.auth_context().get("x509_common_name", ())
    return name.encode() in names
