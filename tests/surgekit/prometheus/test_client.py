"""Answers over HTTP as Prometheus, or something in its place, gives them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kwok.ports import free_ports
from surgekit.prometheus.client import NoAnswer, Prometheus, QueryFailed


class Server:
    """Says `answer` to whatever it is asked."""

    def __init__(self) -> None:
        self.status, self.answer = 200, b""
        self.asked: list[tuple[str, str | None]] = []
        self.silent = threading.Event()
        self.silent.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization")))
                if not outer.silent.is_set():
                    outer.silent.wait(10)
                    return
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(outer.answer)))
                self.end_headers()
                self.wfile.write(outer.answer)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def say(self, result: Any, status: int = 200) -> None:
        self.status, self.answer = status, json.dumps({"data": {"result": result}}).encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.silent.set()
    server.http.shutdown()
    thread.join()
    server.http.server_close()


def series(value: str, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [1000.0, value]}


def test_values_by_their_labels_as_they_were_then(server: Server) -> None:
    server.say([series("1.5", a="x", b="y"), series("0", a="z")])
    found = Prometheus(server.url, 5.0).values("up", 1234.5678)
    assert found == {frozenset({("a", "x"), ("b", "y")}): 1.5, frozenset({("a", "z")}): 0.0}
    assert server.asked == [("/api/v1/query?query=up&time=1234.568&timeout=5000ms", None)]


def test_what_is_no_finite_number_is_no_value(server: Server) -> None:
    server.say([series("NaN", a="x"), series("+Inf", a="y"), series("-Inf", a="z")])
    assert Prometheus(server.url, 5.0).values("up", 0.0) == {}


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ([1000.0, "5"], "gives a scalar or text"),
        ([{"metric": {}, "values": [[1.0, "1"]]}], "gives ranges or histograms"),
        ([{"metric": {}, "histogram": [1.0, {}]}], "gives ranges or histograms"),
    ],
)
def test_answers_of_another_type_are_refused(server: Server, result: Any, why: str) -> None:
    server.say(result)
    with pytest.raises(QueryFailed, match=why):
        Prometheus(server.url, 5.0).values("up", 0.0)


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        (400, b'{"error": "parse error"}', "Prometheus refused 'up': .*400.*parse error"),
        (503, b"busy", "Prometheus refused 'up': .*503.*busy"),
        (401, b"who?", "Prometheus refused 'up': .*401"),
        (200, b"<html>log in</html>", "is not Prometheus"),
        (200, b'{"status": "success"}', "Prometheus refused 'up'"),
        (200, b"[]", "Prometheus refused 'up'"),
    ],
)
def test_refusals(server: Server, status: int, answer: bytes, why: str) -> None:
    server.status, server.answer = status, answer
    with pytest.raises(QueryFailed, match=why) as error:
        Prometheus(server.url, 5.0).values("up", 0.0)
    assert not isinstance(error.value, NoAnswer)
    assert len(server.asked) == 1, "asked once"


def test_nobody_there() -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(NoAnswer) as error:
        Prometheus(url, 5.0).values("up", 0.0)
    why = "Failed to establish a new connection: [Errno 111] Connection refused"
    assert str(error.value) == f"Prometheus at {url} does not answer: {why}"


def test_one_that_hangs(server: Server) -> None:
    server.silent.clear()
    with pytest.raises(NoAnswer, match="does not answer: timed out"):
        Prometheus(server.url, 0.2).values("up", 0.0)


def test_the_token_is_read_anew_each_time(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    prometheus = Prometheus(server.url, 5.0, token_file=file)
    with pytest.raises(NoAnswer, match="No such file"):
        prometheus.values("up", 0.0)
    server.say([])
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        prometheus.values("up", 0.0)
    assert [header for _, header in server.asked] == ["Bearer first", "Bearer second"]
