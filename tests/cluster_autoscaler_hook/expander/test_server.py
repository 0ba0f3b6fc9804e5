"""Over the network as Cluster Autoscaler comes: TLS with a CA of ours, no certificate of its own."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import grpc
import orjson
import pytest

from cluster_autoscaler_hook.expander.server import Server
from cluster_autoscaler_hook.expander.settings import Settings
from surgekit.process.http_port import HEALTH
from surgekit.process.modes import Mode
from surgekit.tls import CertificateError, mutual_tls
from surgekit.tls.files import ensure
from tests.cluster_autoscaler_hook.expander.builders import RECORDED, chosen, no_plan
from tests.commands import Commands

WEB = RECORDED[0].read_bytes()
Serve = Callable[[Path | None], Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    started = []

    def start(tls: Path | None) -> Server:
        settings = Settings(
            mode=Mode.ENFORCE,
            price_labels=("price",),
            bind="127.0.0.1:0",
            health_bind="127.0.0.1:0",
            explain_bind="127.0.0.1:0",
            tls_directory=tls,
            deadline_s=4.0,
            max_request_mib=1,
        )
        started.append(Server(settings, no_plan).start())
        return started[-1]

    yield start
    for server in started:
        server.stop()


def certificates(directory: Path) -> Path:
    ensure(directory, ["localhost"], ["surgekit-viewer", "prometheus"], datetime.now(UTC))
    return directory


def ask(server: Server, body: bytes, ca: bytes | None) -> bytes:
    target = f"localhost:{server.port}"
    limits = [("grpc.max_send_message_length", -1)]
    if ca is None:
        channel = grpc.insecure_channel(target, limits)
    else:
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(ca), limits)
    with channel:
        call: Callable[..., bytes] = channel.unary_unary("/grpcplugin.Expander/BestOptions")
        return call(body, timeout=5)


def get(server: Server, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_as_the_autoscaler_asks(serve: Serve, tmp_path: Path) -> None:
    directory = certificates(tmp_path)
    answer = ask(serve(directory), WEB, (directory / "ca.crt").read_bytes())
    assert chosen(answer) == ["c6g.4xlarge"]


def test_silent_connections_hold_a_share_of_the_port_for_health_only(serve: Serve) -> None:
    server = serve(None)
    before = threading.active_count()
    with contextlib.ExitStack() as silent:
        for _ in range(3 * HEALTH.per_peer):
            client = silent.enter_context(socket.create_connection(("127.0.0.1", server.http_port)))
            client.sendall(b"GET /livez HTTP/1.1\r\n")
        status, _ = get(server, "/livez")
        assert status == 200
        assert threading.active_count() - before <= HEALTH.per_peer + 1


def test_another_ca_is_not_believed(serve: Serve, tmp_path: Path) -> None:
    server = serve(certificates(tmp_path / "ours"))
    other = certificates(tmp_path / "theirs")
    with pytest.raises(grpc.RpcError) as error:
        ask(server, WEB, (other / "ca.crt").read_bytes())
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_new_certificate_is_served_without_a_restart(serve: Serve, tmp_path: Path) -> None:
    directory = certificates(tmp_path / "tls")
    server = serve(directory)
    ask(server, WEB, (directory / "ca.crt").read_bytes())
    new = certificates(tmp_path / "new")
    # Half of it is there: the old one is served on.
    (directory / "tls.crt").write_bytes((new / "tls.crt").read_bytes())
    ask(server, WEB, (directory / "ca.crt").read_bytes())
    (directory / "tls.key").write_bytes((new / "tls.key").read_bytes())
    ask(server, WEB, (new / "ca.crt").read_bytes())


def test_a_certificate_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    directory = certificates(tmp_path)
    (directory / "tls.key").write_text("nonsense")
    with pytest.raises(CertificateError, match=r"tls\.key"):
        Server(Settings(bind="127.0.0.1:0", health_bind="127.0.0.1:0", tls_directory=directory), no_plan)


def test_bad_requests_are_errors_the_caller_takes_as_no_answer(serve: Serve) -> None:
    server = serve(None)
    with pytest.raises(grpc.RpcError) as error:
        ask(server, b"\xff\xff\xff", None)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as error:
        ask(server, b"\x0a" * (2 << 20), None)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert chosen(ask(server, WEB, None)) == ["c6g.4xlarge"]


def test_health_and_metrics(serve: Serve) -> None:
    server = serve(None)
    ask(server, WEB, None)
    server.expander.explain()  # waits until the answer is recorded
    assert get(server, "/livez") == (200, b"ok")
    assert get(server, "/readyz") == (200, b"ok")
    assert get(server, "/elsewhere")[0] == 404
    status, metrics = get(server, "/metrics")
    assert status == 200
    assert b'surgekit_expander_decisions_total{mode="enforce",outcome="fallback"} 1.0' in metrics


def test_explanations_are_for_client_certificates_of_the_names_allowed(serve: Serve, tmp_path: Path) -> None:
    directory = certificates(tmp_path / "ours")
    server = serve(directory)
    ask(server, WEB, (directory / "ca.crt").read_bytes())
    url = f"https://localhost:{server.explain_port}/explain"
    status, body = mutual_tls.request(url, directory, "surgekit-viewer")
    (explained,) = orjson.loads(body)
    assert (status, explained["decision"]) == (200, ["c6g.4xlarge"])
    assert explained["reasons"]
    assert mutual_tls.request(url, directory, "prometheus")[0] == 403  # ours, but not one of client_names
    context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    assert _get_tls(server, context)[0] == 403  # no certificate at all
    other = certificates(tmp_path / "theirs")  # the right name, by another CA
    context.load_cert_chain(other / "surgekit-viewer.crt", other / "surgekit-viewer.key")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        _get_tls(server, context)
    assert get(server, "/explain")[0] == 404  # the open port has no such page


def test_without_certificates_nothing_is_explained(serve: Serve) -> None:
    server = serve(None)
    assert server.explain_port is None
    assert get(server, "/explain")[0] == 404


@pytest.mark.parametrize(
    ("key", "tls"), [("bind", True), ("health_bind", True), ("explain_bind", True), ("bind", False)]
)
def test_a_port_that_is_taken_is_one_line(key: str, tls: bool, tmp_path: Path, commands: Commands) -> None:
    arguments = ["--tls-directory", str(certificates(tmp_path))] if tls else []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        binds = dict.fromkeys(("bind", "health_bind", "explain_bind"), "127.0.0.1:0") | {key: address}
        environ = {f"SURGEKIT_EXPANDER_{name.upper()}": bind for name, bind in binds.items()}
        done = commands.run("serve", "expander", *arguments, environ=environ)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: {key}: {address} cannot be listened on: Address already in use"
    ]


def _get_tls(server: Server, context: ssl.SSLContext) -> tuple[int, bytes]:
    assert server.explain_port
    connection = http.client.HTTPSConnection("localhost", server.explain_port, timeout=5, context=context)
    try:
        connection.request("GET", "/explain")
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
