"""The agent's end of the stream: reconnects for ever, and never keeps the agent waiting.

gRPC with mutual TLS, and a token that names the agent's node. The controller's name may have several
addresses, of which only the leader's accepts: each is tried in turn. A stream counts as open with the first
orders, which every controller sends at once.
What arrives is put into a queue, and an eventfd tells the agent. At most one report waits to be sent; a later
one is merged into it.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import grpc
import structlog

from limit_allocator.wire.bearer import metadata_of
from limit_allocator.wire.merge import merge
from limit_allocator.wire.messages import Hello, MessageError, Orders, Report, decode_orders, encode
from surgekit.process.back_off import back_off_s

__all__ = ["METHOD", "Link"]

log = structlog.get_logger(__name__)

METHOD = "/surgekit.limits.Limits/Attach"
_FIRST_S, _LONGEST_S = 0.2, 5.0  # of the back-off
_ANSWER_S = 5.0  # from connecting to the first orders
# An idle controller sends nothing, so only a ping notices that its machine is gone. The server must allow
# that many (grpc.http2.min_recv_ping_interval_without_data_ms).
_PING_EVERY_MS, _PONG_WITHIN_MS = 10_000, 5_000


class Link:
    """Sends an agent's reports and collects its orders. `fileno` is readable when there are some."""

    def __init__(
        self, address: str, server_name: str, certificates: Path, token_file: Path | None = None
    ) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._server_name, self._certificates = server_name or self._host, certificates
        self._token_file = token_file
        self.stream = 0  # the number of the open stream; 0: there is none
        self._attempts = self._ended = 0  # numbers of streams
        self._signal = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._orders: deque[Orders] = deque()
        self._changed = threading.Condition()  # guards what follows
        self._unsent: Report | None = None
        self._call: grpc.Call | None = None
        self._stopping = threading.Event()
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)

    def start(self, hello: Callable[[], Hello]) -> None:
        """`hello` makes the first message of each stream."""
        self._hello = hello
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping.set()
            if self._call:
                self._call.cancel()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def alive(self) -> bool:
        return self._thread.is_alive()

    # For the agent's thread

    def fileno(self) -> int:
        return self._signal

    def take(self) -> Sequence[Orders]:
        """All orders that have arrived."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._signal)
        return [self._orders.popleft() for _ in range(len(self._orders))]

    def send(self, report: Report, stream: int) -> None:
        """Send as soon as the stream takes it. Drop it if it is for another stream: each begins anew."""
        with self._changed:
            if stream and stream == self.stream:
                self._unsent = merge(self._unsent, report) if self._unsent else report
                self._changed.notify_all()

    # The link's thread

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            failures = 0 if self._try_each() else failures + 1
            self._stopping.wait(back_off_s(max(failures, 1), _FIRST_S, _LONGEST_S))

    def _try_each(self) -> bool:
        """Whether one of the addresses accepted. Returns when that stream has ended."""
        try:
            addresses = self._addresses()
            credentials, token = self._credentials(), self._token()
        except (OSError, UnicodeDecodeError) as error:
            self._say("no way to the controller", str(error))
            return False
        return any(
            self._attach(each, credentials, token) for each in addresses if not self._stopping.is_set()
        )

    def _addresses(self) -> list[str]:
        found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        hosts = dict.fromkeys(str(place[0]) for *_, place in found)
        return [f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}" for host in hosts]

    def _credentials(self) -> grpc.ChannelCredentials:
        """Read again for every attempt: certificates are renewed."""
        ca, key, certificate = (
            (self._certificates / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt")
        )
        return grpc.ssl_channel_credentials(ca, key, certificate)

    def _token(self) -> str:
        """Read again for every attempt: the kubelet renews it. gRPC takes no line end in a header."""
        return self._token_file.read_text().strip() if self._token_file else ""

    def _attach(self, address: str, credentials: grpc.ChannelCredentials, token: str) -> bool:
        """One stream, from its beginning to its end. Whether the controller accepted."""
        options = [
            ("grpc.ssl_target_name_override", self._server_name),
            ("grpc.use_local_subchannel_pool", 1),  # a new attempt is a new handshake
            ("grpc.enable_http_proxy", 0),
            ("grpc.keepalive_time_ms", _PING_EVERY_MS),
            ("grpc.keepalive_timeout_ms", _PONG_WITHIN_MS),
            ("grpc.http2.max_pings_without_data", 0),
        ]
        self._attempts += 1
        number = self._attempts
        with grpc.secure_channel(address, credentials, options) as channel:
            attach: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD)  # raw bytes
            call = attach(self._requests(number), metadata=metadata_of(token))
            with self._changed:
                self._call = call
                if self._stopping.is_set():
                    call.cancel()
            unanswered = threading.Timer(_ANSWER_S, call.cancel)
            unanswered.daemon = True
            unanswered.start()
            try:
                for content in call:
                    unanswered.cancel()
                    self._hear(number, decode_orders(content), address)
                self._say("the controller ended the stream", address)
            except grpc.RpcError:
                self._say("no stream to the controller", f"{address}: {call.code()}: {call.details()}")
            except MessageError as error:
                self._say("no stream to the controller", f"{address}: {error}")
            finally:
                unanswered.cancel()
                accepted = self.stream == number
                self._end(number)
                call.cancel()
        return accepted

    def _hear(self, number: int, orders: Orders, address: str) -> None:
        self._orders.append(orders)
        if self.stream != number:
            self._said = ""
            log.info("stream open", controller=address)
            with self._changed:
                self.stream = number
        os.eventfd_write(self._signal, 1)

    def _end(self, number: int) -> None:
        with self._changed:
            self.stream, self._unsent, self._call = 0, None, None
            self._ended = number
            self._changed.notify_all()

    def _requests(self, number: int) -> Iterator[bytes]:
        """What gRPC's thread sends, as fast as the stream takes it."""
        yield encode(self._hello())
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._unsent is not None or self._ended >= number)
                if self._ended >= number or self._unsent is None:
                    return
                report, self._unsent = self._unsent, None
            yield encode(report)

    def _say(self, what: str, why: str) -> None:
        """Log once what happens again and again."""
        if (said := f"{what} {why}") != self._said:
            self._said = said
            log.warning(what, reason=why)
