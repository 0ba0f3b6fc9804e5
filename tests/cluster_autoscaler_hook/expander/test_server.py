"""Over the network as Cluster Autoscaler comes: TLS with a CA of ours, no certificate of its own."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import grpc
import orjson
import pytest

from cluster_autoscaler_hook.expander.server import Server
from cluster_autoscaler_hook.expander.settings import Settings
from surgekit.certificates import CertificateError
from surgekit.certificates.files import ensure
from tests.cluster_autoscaler_hook.expander.builders import RECORDED, chosen, no_plan

WEB = RECORDED[0].read_bytes()
Serve = Callable[[Path | None], Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    started = []

    def start(tls: Path | None) -> Server:
        settings = Settings(
            price_labels=("price",),
            bind="127.0.0.1:0",
            http_bind="127.0.0.1:0",
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
    ensure(directory, ["localhost"], [], datetime.now(UTC))
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
        Server(Settings(bind="127.0.0.1:0", http_bind="127.0.0.1:0", tls_directory=directory), no_plan)


def test_bad_requests_are_errors_the_caller_takes_as_no_answer(serve: Serve) -> None:
    server = serve(None)
    with pytest.raises(grpc.RpcError) as error:
        ask(server, b"\xff\xff\xff", None)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as error:
        ask(server, b"\x0a" * (2 << 20), None)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert chosen(ask(server, WEB, None)) == ["c6g.4xlarge"]


def test_health_metrics_and_explanations(serve: Serve) -> None:
    server = serve(None)
    ask(server, WEB, None)
    assert get(server, "/livez") == (200, b"ok\n")
    assert get(server, "/readyz") == (200, b"ok\n")
    assert get(server, "/elsewhere")[0] == 404
    status, metrics = get(server, "/metrics")
    assert status == 200
    assert b'surgekit_expander_decisions_total{mode="enforce",outcome="fallback"} 1.0' in metrics
    (explained,) = orjson.loads(get(server, "/explain")[1])
    assert explained["decision"] == ["c6g.4xlarge"]
    assert explained["reasons"]
