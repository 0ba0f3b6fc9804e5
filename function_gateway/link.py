"""A replica's connections to the other replicas: each one reads what the others say of themselves.

Nobody sends anything that another takes as an order, so there is nothing to forge: a replica connects to the
addresses that the API server lists, and believes of an address what that address says of itself.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

import msgspec
import structlog

from function_gateway.ownership import DEAD_S, LARGEST_BYTES, Statement, read_statement

__all__ = ["Link"]

log = structlog.get_logger(__name__)

_SPEAK_S = 0.25
_DIAL_S = 0.5
_AGAIN_S = 0.1
_MOST_LISTENERS = 64


@dataclass
class _Peer:
    statement: Statement | None = None
    heard_s: float = 0.0
    serves: bool = False  # its HAProxy takes connections, as last tried when it was not heard
    tried: bool = False
    listed: bool = True


class Link:
    """`on_change` is called when another replica says something new, or falls silent."""

    def __init__(self, address: str, port: int, forward_port: int, on_change: Callable[[], None]) -> None:
        self._address, self._port, self._forward_port = address, port, forward_port
        self._on_change = on_change
        self._peers: dict[str, _Peer] = {}
        self._said = threading.Condition()
        self._line = b""
        self._stopping = False
        self._listeners = threading.BoundedSemaphore(_MOST_LISTENERS)

    def start(self) -> None:
        self._server = socket.create_server((self._address, self._port))
        threading.Thread(target=self._accept, name="statements", daemon=True).start()

    def stop(self) -> None:
        self._stopping = True
        self.list_peers(())
        self._server.close()
        with self._said:
            self._said.notify_all()

    # --- what this replica says ---

    def publish(self, statement: Statement) -> None:
        line = msgspec.json.encode(statement) + b"\n"
        with self._said:
            if line != self._line:
                self._line = line
                self._said.notify_all()

    def _accept(self) -> None:
        while not self._stopping:
            try:
                connection, _ = self._server.accept()
            except OSError:
                continue
            if self._listeners.acquire(blocking=False):
                threading.Thread(target=self._speak, args=[connection], daemon=True).start()
            else:
                connection.close()

    def _speak(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(DEAD_S)
                while not self._stopping:
                    with self._said:
                        line = self._line
                    connection.sendall(line)
                    with self._said:
                        self._said.wait_for(lambda: self._line != line or self._stopping, _SPEAK_S)  # noqa: B023
        except OSError:
            pass
        finally:
            self._listeners.release()

    # --- what the others say ---

    def list_peers(self, addresses: Collection[str]) -> None:
        """The addresses of the other replicas, from the API server."""
        for address in self._peers.keys() - set(addresses):
            self._peers.pop(address).listed = False
        for address in set(addresses) - self._peers.keys() - {self._address}:
            peer = self._peers[address] = _Peer()
            threading.Thread(target=self._listen, args=[address, peer], name="peer", daemon=True).start()

    @property
    def peers(self) -> set[str]:
        return set(self._peers)

    @property
    def settled(self) -> bool:
        """Each listed replica was heard, or is not there."""
        return all(peer.tried for peer in list(self._peers.values()))

    def heard(self, now_s: float) -> tuple[dict[str, Statement], set[str]]:
        """Statements of replicas that are heard, and the replicas that say nothing any more but serve."""
        said, mute = {}, set()
        for address, peer in list(self._peers.items()):
            if peer.statement is None:
                continue
            if now_s - peer.heard_s < DEAD_S:
                said[address] = peer.statement
            elif peer.serves and peer.statement.stays:
                mute.add(address)
        return said, mute

    def _listen(self, address: str, peer: _Peer) -> None:
        while peer.listed and not self._stopping:
            try:
                self._follow(address, peer)
            except (OSError, ValueError) as error:
                log.debug("replica not heard", address=address, error=str(error))
            peer.serves = self._serves(address)
            peer.heard_s, peer.tried = 0.0, True
            self._on_change()
            time.sleep(_AGAIN_S)

    def _follow(self, address: str, peer: _Peer) -> None:
        with socket.create_connection((address, self._port), timeout=_DIAL_S) as connection:
            connection.settimeout(DEAD_S)
            with connection.makefile("rb") as lines:
                while peer.listed and (line := lines.readline(LARGEST_BYTES + 1)):
                    said = read_statement(line)
                    if said is None or said.name != address:
                        raise ValueError(f"{address} says {line[:100]!r}")
                    news = said != peer.statement or not peer.heard_s
                    peer.statement, peer.heard_s, peer.tried = said, time.monotonic(), True
                    if news:
                        self._on_change()

    def _serves(self, address: str) -> bool:
        try:
            socket.create_connection((address, self._forward_port), timeout=_DIAL_S).close()
        except OSError:
            return False
        return True
