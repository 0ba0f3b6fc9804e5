"""The connection to Knative's autoscaler, kept as an activator keeps it. A thread of its own sends."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Sequence

import structlog
import websocket

from burst_plane.knative.statistics import Excess, encoded
from surgekit.process.back_off import back_off_s

__all__ = ["AutoscalerLink"]

log = structlog.get_logger(__name__)

_ANSWER_S = 3.0  # to connect, and to take a message; Knative's own handshake time-out
# The kernel ends a connection whose other end has not taken what was sent for so long: the autoscaler's pod
# may have gone without a word.
_SILENT_MS = 5000
_FIRST_S, _LONGEST_S = 0.2, 5.0  # of the back-off


class AutoscalerLink:
    """Connects when there is something to say. Each second is said once, or not at all: a late one would be
    counted in another second."""

    def __init__(self, address: str, pod_name: str, count: Callable[[str], None] = lambda _: None) -> None:
        """`count` is told of each message: sent or failed."""
        self._address, self._pod_name, self._count = address, pod_name, count
        self._latest: bytes | None = None
        self._changed, self._stopping = threading.Condition(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="knative autoscaler", daemon=True)
        self.error = ""  # why the last message was not sent

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._changed:
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout=_ANSWER_S)

    def alive(self) -> bool:
        return self._thread.is_alive()

    def say(self, excess: Sequence[Excess]) -> None:
        """What there was in the second that has just ended. Never waits."""
        if any(of.is_any for of in excess):
            with self._changed:
                self._latest = encoded(self._pod_name, excess)
                self._changed.notify()

    def _run(self) -> None:
        connection: websocket.WebSocket | None = None
        failures = 0
        while (message := self._next()) is not None:
            try:
                connection = connection or self._connect()
                self._hear(connection)
                connection.send_binary(message)
                failures, self.error = 0, ""
                self._count("sent")
            except (OSError, websocket.WebSocketException) as error:
                self._count("failed")
                if not failures:
                    log.warning("autoscaler not told", address=self._address, error=str(error))
                failures, self.error = failures + 1, str(error)[:200] or type(error).__name__
                _close(connection)
                connection = None
                self._stopping.wait(back_off_s(failures, _FIRST_S, _LONGEST_S))
            except Exception:  # a fault of ours must not end it for good
                log.exception("autoscaler not told")
                _close(connection)
                connection = None
        _close(connection)

    def _next(self) -> bytes | None:
        """Wait for a message; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._latest is not None or self._stopping.is_set())
            message, self._latest = self._latest, None
        return None if self._stopping.is_set() else message

    def _connect(self) -> websocket.WebSocket:
        patience = (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MS)
        connection = websocket.create_connection(
            f"ws://{self._address}", timeout=_ANSWER_S, sockopt=(patience,), suppress_origin=True,
            http_no_proxy=["*"],
        )  # fmt: skip
        log.info("autoscaler found", address=self._address)
        return connection

    @staticmethod
    def _hear(connection: websocket.WebSocket) -> None:
        """The autoscaler says nothing, except that it restarts. Raise if it has."""
        while select.select([connection], [], [], 0)[0]:
            kind, _ = connection.recv_data(control_frame=True)
            if kind == websocket.ABNF.OPCODE_CLOSE:
                raise websocket.WebSocketConnectionClosedException("the autoscaler restarts")


def _close(connection: websocket.WebSocket | None) -> None:
    if connection is not None:
        connection.shutdown()  # type: ignore[no-untyped-call]  # without a closing frame, as activators do
