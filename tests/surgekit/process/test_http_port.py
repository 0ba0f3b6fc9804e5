"""Attacks on a port: slow clients, many of them, nonsense. Others are served all the while."""

from __future__ import annotations

import http.client
import resource
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from surgekit.process.connections import Limits
from surgekit.process.http_port import PEER, ConnectionMetrics, HttpPort
from surgekit.tls import ReloadingServerContext, ensure
from tests.served_ports import served

# Nothing is late or idle unless a test is about that.
PATIENT = Limits(total=40, per_peer=10, request_s=3600.0, idle_s=3600.0)
HASTY = Limits(total=40, per_peer=10, request_s=2.5, idle_s=3600.0)
GET = b"GET /who HTTP/1.1\r\nHost: x\r\n\r\n"
KNOWN = "friend"
HERE, ELSEWHERE = "127.0.0.1", "127.0.0.9"


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    body = environ["wsgi.input"].read()
    sizes = {"/large": 1 << 20}
    answer = b"x" * sizes.get(environ["PATH_INFO"], 0) or b"%s %d" % (str(environ[PEER]).encode(), len(body))
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]


class Port:
    def __init__(self, port: HttpPort, number: int, tls: ssl.SSLContext | None) -> None:
        self.port, self._number, self._tls = port, number, tls

    def open(self, source: str = HERE) -> socket.socket:
        """A connection without a handshake."""
        return socket.create_connection((HERE, self._number), timeout=60, source_address=(source, 0))

    def connect(self, source: str = HERE, tls: ssl.SSLContext | None = None) -> socket.socket:
        opened, context = self.open(source), tls or self._tls
        return context.wrap_socket(opened, server_hostname="localhost") if context else opened

    def ask(self, source: str = ELSEWHERE, opened: socket.socket | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(HERE)
        connection.sock = opened or self.connect(source)
        try:
            connection.request("GET", "/who")
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            if opened is None:
                connection.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    ensure(directory, ["localhost"], [KNOWN, "other"], datetime.now(UTC))
    return directory


def client_context(certificates: Path, name: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    if name:
        context.load_cert_chain(certificates / f"{name}.crt", certificates / f"{name}.key")
    return context


@pytest.fixture(params=["plain", "tls"])
def serve(request: pytest.FixtureRequest, certificates: Path) -> Iterator[Callable[[Limits], Port]]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as running:

        def start(limits: Limits) -> Port:
            context = None
            if request.param == "tls":
                files = (certificates / name for name in ("tls.crt", "tls.key", "ca.crt"))
                context = ReloadingServerContext(*files).context
            port = HttpPort(application, limits, context, lambda name: name == KNOWN)
            (number,) = running.enter_context(served([port]))
            return Port(port, number, client_context(certificates) if context else None)

        yield start


def many(stack: ExitStack, count: int, connect: Callable[[int], socket.socket]) -> list[socket.socket]:
    return [stack.enter_context(connect(number)) for number in range(count)]


def let_evicted_end(port: Port, opened: int) -> None:
    """Wait until all are accepted. Threads of evicted ones need the cpu to end; while too many have not,
    newcomers are refused."""
    deadline_s, connections = time.monotonic() + 60, port.port.connections
    while connections._ending or len(connections) + connections.ended.total() < opened:
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def ended(connection: socket.socket) -> bool:
    """Waits until the other side has closed it."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:  # reset, or closed in the middle of TLS
        return True
    return True


def test_half_sent_requests_keep_nobody_out(serve: Any) -> None:
    """Neither another peer nor another client at the same address (a node's), though no deadline helps."""
    port = serve(PATIENT)
    with ExitStack() as stack:

        def half_sent(_: int) -> socket.socket:
            connection: socket.socket = port.connect()
            connection.sendall(GET[:-5])
            return connection

        many(stack, 30, half_sent)
        let_evicted_end(port, 30)
        assert port.ask(ELSEWHERE)[0] == port.ask(HERE)[0] == 200
    assert port.port.connections.ended["evicted"] >= 30 - PATIENT.per_peer


def test_a_thousand_connections_of_one_peer_hold_its_share_only(serve: Any) -> None:
    port = serve(PATIENT)
    with ExitStack() as stack:
        many(stack, 1000, lambda _: port.open())
        let_evicted_end(port, 1000)
        for _ in range(20):
            assert port.ask(ELSEWHERE)[0] == 200
        deadline_s = time.monotonic() + 60  # of those that asked from elsewhere, threads that have not ended
        while len(port.port.connections) > PATIENT.per_peer:
            assert time.monotonic() < deadline_s
            time.sleep(0.005)
        assert port.ask(HERE)[0] == 200


def test_half_sent_requests_of_many_peers_keep_nobody_out(serve: Any) -> None:
    port = serve(PATIENT)
    with ExitStack() as stack:
        for connection in many(stack, 200, lambda number: port.open(f"127.0.1.{number + 1}")):
            connection.sendall(b"\x16" if port._tls else b"G")
        let_evicted_end(port, 200)
        for _ in range(20):
            assert port.ask(ELSEWHERE)[0] == 200


@pytest.mark.parametrize("sent", [GET[:20], b"POST /who HTTP/1.1\r\nContent-Length: 100000\r\n\r\n"])
def test_a_request_that_drips_is_late_however_steadily(serve: Any, sent: bytes) -> None:
    port = serve(HASTY)
    with port.connect() as connection:
        connection.sendall(sent)
        deadline_s = time.monotonic() + 60
        with suppress(OSError):
            while time.monotonic() < deadline_s:
                connection.sendall(b"x")
                time.sleep(0.1)
        assert time.monotonic() < deadline_s
    assert port.port.connections.ended["late"] == 1


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01\x00"])
def test_a_handshake_that_never_ends_is_late(serve: Any, sent: bytes) -> None:
    port = serve(HASTY)
    with port.open() as connection:
        connection.sendall(sent)
        assert ended(connection)


def test_a_second_request_has_a_time_of_its_own_and_no_more(serve: Any) -> None:
    port = serve(HASTY)
    with port.connect() as connection:
        for _ in range(3):
            assert port.ask(opened=connection)[0] == 200
            time.sleep(HASTY.request_s / 2)  # idle, which is not late
        connection.sendall(GET[:-1])
        assert ended(connection)
    assert port.port.connections.ended["late"] == 1


def test_an_answer_that_nobody_reads_is_late(serve: Any) -> None:
    port = serve(HASTY)
    with port.connect() as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
        deadline_s = time.monotonic() + 60
        while not port.port.connections.ended["late"]:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)


def test_a_stranger_that_rests_is_let_go(serve: Any) -> None:
    port = serve(Limits(total=40, per_peer=10, request_s=3600.0, idle_s=0.5))
    with port.connect() as connection:
        assert port.ask(opened=connection)[0] == 200
        assert ended(connection)
    assert port.port.connections.ended["idle"] == 1


@pytest.mark.parametrize("serve", ["tls"], indirect=True)
def test_a_known_client_keeps_its_connection_whatever_strangers_do(serve: Any, certificates: Path) -> None:
    port = serve(Limits(total=40, per_peer=10, request_s=3600.0, idle_s=0.5))
    with ExitStack() as stack, port.connect(tls=client_context(certificates, KNOWN)) as known:
        assert port.ask(opened=known) == (200, b"friend 0")
        with port.connect(tls=client_context(certificates, "other")) as other:
            assert port.ask(opened=other) == (200, b"other 0")
            assert ended(other), "idle for longer than a stranger may be"
        many(stack, 100, lambda _: port.open())
        many(stack, 200, lambda number: port.open(f"127.0.1.{number + 1}"))
        assert port.ask(opened=known) == (200, b"friend 0")


def test_requests_written_at_once_are_answered_in_order(serve: Any) -> None:
    port = serve(PATIENT)
    with port.connect() as connection:
        bodies = [b"x" * number for number in range(50)]
        connection.sendall(
            b"".join(b"POST /who HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(b), b) for b in bodies)
        )
        read = b""
        while read.count(b"None ") < len(bodies):
            received = connection.recv(65536)
            assert received
            read += received
    assert [int(piece.split(b"HTTP")[0]) for piece in read.split(b"None ")[1:]] == list(range(50))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 10_000_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 1_000_000 + b"\r\n", 431),
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nNo colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX\xff\xfe: a\r\n\r\n", 400),
        (b"GET /\xff\xfe HTTP/1.1\r\nHost: \xff\r\n\r\n", None),  # answered or refused
        (b"\x00\x01\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcdefgh\r\n0\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_gets_an_answer(serve: Any, sent: bytes, status: int | None) -> None:
    port = serve(PATIENT)
    with port.connect() as connection:
        answer = _exchange(connection, sent)
        if status is None:
            assert answer.startswith(b"HTTP/1.1 ")
        else:
            assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert port.ask()[0] == 200, "and it goes on serving"


def _exchange(connection: socket.socket, sent: bytes) -> bytes:
    """What comes back, though the server may not read all of `sent`.

    In one thread: Python 3.11 lets two threads use one TLS connection at once, OpenSSL does not.
    """
    not_now = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
    connection.setblocking(False)
    left, deadline_s = memoryview(sent), time.monotonic() + 60
    while time.monotonic() < deadline_s:
        with suppress(*not_now):
            return connection.recv(65536)
        try:
            left = left[connection.send(left[:16384]) :] if left else left
        except not_now:
            pass
        except OSError:  # it reads no more; what it said is still to be read
            left = memoryview(b"")
        select.select([connection], [connection] if left else [], [], 0.1)
    raise TimeoutError("no answer")


def test_chunked_bodies(serve: Any) -> None:
    port = serve(PATIENT)
    with port.connect() as connection:
        connection.sendall(b"POST /who HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        for size in (1, 10, 5000):
            connection.sendall(b"%x\r\n%b\r\n" % (size, b"x" * size))
        connection.sendall(b"0\r\n\r\n")
        answer = b""
        while not answer.endswith(b"None 5011"):
            received = connection.recv(65536)
            assert received
            answer += received


def test_what_became_of_connections_is_counted() -> None:
    port = HttpPort(application, PATIENT)
    port.connections.ended["late"] = 7
    registry = CollectorRegistry()
    registry.register(ConnectionMetrics(requests=port))
    text = generate_latest(registry).decode()
    assert 'surgekit_server_connections_ended_total{port="requests",reason="late"} 7.0' in text
    assert 'surgekit_server_connections{port="requests"} 0.0' in text
    port.close()
