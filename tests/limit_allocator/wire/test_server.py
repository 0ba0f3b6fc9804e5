"""Agents' streams over real gRPC and real certificates."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest

from limit_allocator.authentication import NotAnAgent
from limit_allocator.wire.bearer import metadata_of
from limit_allocator.wire.messages import Hello, Orders, Report, decode_orders, encode
from limit_allocator.wire.server import METHOD, SERVICE, AgentServer, Closed, Stream
from surgekit.kube.client import KubeUnreachable
from surgekit.process.settings import SettingsError
from surgekit.tls.files import ensure

AGENT = "surgekit-limit-agent"
HELLO = Hello(node="node-1", boot_id="b", start=1, term=0)
WAIT_S = 60.0


def report(number: int) -> Report:
    return Report(number=number, term=0, at_us=number, room_bytes=0)


class Agent:
    """A client that sends what it is told to, in raw bytes."""

    def __init__(self, port: int, tls: Path | None = None, client: str = AGENT, shows: str = "") -> None:
        target = f"localhost:{port}"
        if tls is None:
            self._channel = grpc.insecure_channel(target)
        else:
            names = ("ca.crt", f"{client}.key", f"{client}.crt")
            self._channel = grpc.secure_channel(
                target, grpc.ssl_channel_credentials(*((tls / name).read_bytes() for name in names))
            )
        self._sent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        attach: grpc.StreamStreamMultiCallable[bytes, bytes]
        attach = self._channel.stream_stream(f"/{SERVICE}/{METHOD}")
        self.call = attach(iter(self._sent.get, None), timeout=WAIT_S, metadata=metadata_of(shows))

    def send(self, *messages: Hello | Report | bytes) -> None:
        for message in messages:
            self._sent.put(message if isinstance(message, bytes) else encode(message))

    def end(self) -> None:
        self._sent.put(None)

    def close(self) -> None:
        self.end()
        self._channel.close()

    def error(self) -> tuple[grpc.StatusCode, str]:
        """How the stream ended, after orders that may come before."""
        with pytest.raises(grpc.RpcError):
            for _ in self.call:
                pass
        return self.call.code(), self.call.details()


Connect = Callable[..., tuple[AgentServer, Callable[..., Agent]]]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    started: list[AgentServer | Agent] = []

    def start(
        tls: Path | None = None,
        leads: Callable[[], bool] = lambda: True,
        node_of: Callable[[str], str] | None = None,
    ) -> object:
        server = AgentServer("127.0.0.1:0", tls, AGENT, accepts=leads, node_of=node_of).start()
        started.append(server)

        def agent(**given: object) -> Agent:
            started.append(made := Agent(server.port, **given))  # type: ignore[arg-type]
            return made

        return server, agent

    yield start  # type: ignore[misc]
    for each in reversed(started):
        each.close() if isinstance(each, Agent) else each.stop()


def next_of(server: AgentServer) -> tuple[Stream, Hello | Report | Closed]:
    arrival = server.inbox.get(timeout=WAIT_S)
    server.take(arrival)
    return arrival


def test_what_an_agent_sends_arrives_in_order_and_orders_go_back(connect: Connect) -> None:
    server, agent = connect()
    one = agent()
    one.send(HELLO, report(1), report(2))
    stream, hello = next_of(server)
    assert hello == HELLO
    assert [next_of(server)[1] for _ in range(2)] == [report(1), report(2)]
    orders = [Orders(term=4, start=1, pods=()), Orders(term=4, start=1)]
    for each in orders:
        server.send({stream: each})
    assert [decode_orders(next(one.call)) for _ in orders] == orders
    one.end()
    assert next_of(server) == (stream, Closed())


def test_streams_are_told_apart_and_a_later_one_has_a_higher_number(connect: Connect) -> None:
    server, agent = connect()
    agent().send(HELLO)
    first, _ = next_of(server)
    agent().send(HELLO)
    second, _ = next_of(server)
    assert second.number > first.number
    assert server.streams == 2


@pytest.mark.parametrize("sent", [b"nonsense", encode(report(1)), b""])
def test_a_stream_that_begins_with_anything_but_hello_is_closed(connect: Connect, sent: bytes) -> None:
    server, agent = connect()
    one, other = agent(), agent()
    other.send(HELLO)
    assert next_of(server)[1] == HELLO
    one.send(sent)
    code, _ = one.error()
    assert code is grpc.StatusCode.ABORTED
    assert isinstance(next_of(server)[1], Closed)
    other.send(report(1))
    assert next_of(server)[1] == report(1), "another agent's stream goes on"


def test_nonsense_later_closes_the_stream(connect: Connect) -> None:
    server, agent = connect()
    one = agent()
    one.send(HELLO, b"nonsense")
    assert "cannot be read" in one.error()[1]
    assert server.refused_total == 1


def test_an_agent_that_sends_more_than_is_read_loses_its_stream(connect: Connect) -> None:
    server, agent = connect()
    one = agent()
    one.send(HELLO, *(report(number) for number in range(100)))
    assert one.error() == (grpc.StatusCode.ABORTED, "sends more than is read")
    arrived = 0
    while not isinstance(next_of(server)[1], Closed):
        arrived += 1
    assert arrived < 100


def test_a_stream_that_takes_no_orders_is_closed(connect: Connect) -> None:
    server, agent = connect()
    one = agent()
    one.send(HELLO)
    stream, _ = next_of(server)
    many = Orders(term=1, start=1, cpu=bytes(8 * 3 * 1000))
    for _ in range(2000):  # more than HTTP/2's window and our queue hold
        server.send({stream: many})
    assert isinstance(next_of(server)[1], Closed)
    assert stream.why == "takes no orders"


def test_a_replica_that_does_not_lead_sends_agents_to_the_next(connect: Connect) -> None:
    leads = [False]
    server, agent = connect(leads=lambda: leads[0])
    assert agent().error() == (grpc.StatusCode.UNAVAILABLE, "not the leader")
    leads[0] = True
    one = agent()
    one.send(HELLO)
    next_of(server)
    server.close_all("not the leader")
    assert one.error() == (grpc.StatusCode.ABORTED, "not the leader")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    ensure(directory, ["localhost"], [AGENT, "somebody-else"], datetime.now(UTC))
    return directory


def test_only_the_agents_certificate_is_let_in(connect: Connect, tls: Path) -> None:
    server, agent = connect(tls=tls)
    one = agent(tls=tls)
    one.send(HELLO)
    assert next_of(server)[1] == HELLO
    code, why = agent(tls=tls, client="somebody-else").error()
    assert (code, why) == (grpc.StatusCode.PERMISSION_DENIED, "not the agents' certificate")
    assert agent().error()[0] is grpc.StatusCode.UNAVAILABLE, "plaintext"


def test_a_client_of_another_ca_is_refused(connect: Connect, tls: Path, tmp_path: Path) -> None:
    server, agent = connect(tls=tls)
    ensure(tmp_path, ["localhost"], [AGENT], datetime.now(UTC))
    (tmp_path / "ca.crt").write_bytes((tls / "ca.crt").read_bytes())  # it trusts our server
    assert agent(tls=tmp_path).error()[0] is grpc.StatusCode.UNAVAILABLE
    assert server.streams == 0


def node_of(shown: str) -> str:
    if shown == "unreviewed":
        raise KubeUnreachable("no answer")
    if not shown.startswith("of "):
        raise NotAnAgent("the agent's token is not valid")
    return shown.removeprefix("of ")


def test_an_agent_speaks_for_the_node_of_its_token_alone(connect: Connect) -> None:
    server, agent = connect(node_of=node_of)
    one, other = agent(shows="of node-1"), agent(shows="of node-2")
    one.send(HELLO, report(1))
    assert [next_of(server)[1] for _ in range(2)] == [HELLO, report(1)]
    other.send(HELLO)
    assert other.error() == (grpc.StatusCode.ABORTED, "the token is of an agent of node-2, not of node-1")
    assert isinstance(next_of(server)[1], Closed), "and nothing that it said arrives"
    assert server.refused_total == 1
    one.send(report(2))
    assert next_of(server)[1] == report(2)


@pytest.mark.parametrize(
    ("shown", "code"),
    [
        ("", grpc.StatusCode.UNAUTHENTICATED),
        ("junk", grpc.StatusCode.UNAUTHENTICATED),
        ("unreviewed", grpc.StatusCode.UNAVAILABLE),  # the agent tries again
    ],
)
def test_without_a_token_that_is_vouched_for_nothing_is_read(
    connect: Connect, shown: str, code: grpc.StatusCode
) -> None:
    server, agent = connect(node_of=node_of)
    one = agent(shows=shown)
    one.send(HELLO)
    assert one.error()[0] is code
    assert (server.inbox.qsize(), server.streams) == (0, 0)


def test_a_slow_review_holds_up_nobody_who_has_a_stream(connect: Connect) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(shown: str) -> str:
        if shown == "of slow":
            asked.set()
            answer.wait(WAIT_S)
        return node_of(shown)

    server, agent = connect(node_of=slow)
    one = agent(shows="of node-1")
    one.send(HELLO)
    next_of(server)
    late = agent(shows="of slow")
    late.send(Hello(node="slow", boot_id="b", start=1, term=0))
    assert asked.wait(WAIT_S)
    one.send(report(1))
    assert next_of(server)[1] == report(1)
    answer.set()
    hello = next_of(server)[1]
    assert isinstance(hello, Hello)
    assert hello.node == "slow"


def test_a_port_in_use_is_one_line_that_names_the_setting(connect: Connect) -> None:
    server, _ = connect()
    with pytest.raises(SettingsError, match=rf"bind: 127\.0\.0\.1:{server.port} cannot be listened on"):
        AgentServer(f"127.0.0.1:{server.port}", None, AGENT, accepts=lambda: True)


def test_unusable_certificates_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be used"):
        AgentServer("127.0.0.1:0", tmp_path, AGENT, accepts=lambda: True)
