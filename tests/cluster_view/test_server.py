"""The page's server: who gets an answer, what a browser may do with it, and what slow readers cost."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cluster_view import server
from cluster_view.publisher import Publisher
from cluster_view.readers import read_node
from cluster_view.server import application, hosts
from cluster_view.state import State
from surgekit.errors import UserError
from surgekit.process.http_port import HttpPort
from tests.cluster_view import objects
from tests.served_ports import served

Json = dict[str, Any]


class Nothing:
    def apply(self) -> None: ...


class Served:
    def __init__(self) -> None:
        self.state = State("test", {})
        self.publisher = Publisher(self.state, Nothing())
        self.asked: list[str] = []
        self.answer: Json | Exception = objects.placement("web-1", {"n0": 0.4, "n1": 0.9})
        self.port = 0
        self.streams: list[Stream] = []

    def ask(self, pod: str) -> Json:
        self.asked.append(pod)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def add_node(self, name: str) -> None:
        with self.publisher._news:
            self.state.put_node(read_node(objects.node(name)))
        self.publisher.round(time.time())

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.putrequest(method, path, skip_host=True)
            for name, value in ({"Host": f"localhost:{self.port}"} | named).items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def stream(self) -> Stream:
        self.streams.append(Stream(self.port))
        return self.streams[-1]


class Stream:
    """Reads server-sent events, without those that only say that nothing changed."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.sendall(b"GET /events HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % port)
        answer = http.client.HTTPResponse(self.socket)
        answer.begin()
        self.type, self._lines = answer.headers["Content-Type"], answer

    def next(self) -> tuple[str, Json]:
        kind = ""
        while line := self._lines.readline().decode():
            line = line.rstrip("\n")
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found: Json = json.loads(line.removeprefix("data: "))
                self._lines.readline()
                if kind != "alive":
                    return kind, found
        raise AssertionError("the stream ended")

    def shut(self) -> None:
        """Wake a thread that reads."""
        self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Iterator[Served]:
    made = Served()
    allowed: set[str] = set()
    limits = replace(server.LIMITS, **getattr(request, "param", {}))
    app = application(made.publisher, made.ask, allowed)
    with served([HttpPort(app.wsgi_app, limits)]) as (made.port,):
        allowed |= hosts("127.0.0.1", made.port)
        yield made
        for stream in made.streams:
            stream.close()
        made.publisher.stop()


def test_a_stream_begins_with_everything_and_goes_on_with_changes(page: Served) -> None:
    page.add_node("n0")
    stream = page.stream()
    assert stream.type.startswith("text/event-stream")
    kind, snapshot = stream.next()
    assert (kind, list(snapshot["nodes"])) == ("state", ["n0"])
    page.add_node("n1")
    kind, change = stream.next()
    assert (kind, list(change["nodes"])) == ("change", ["n1"])
    assert change["head"]["nodes"] == 2


@pytest.mark.parametrize("host", ["evil.example", "localhost", "localhost:1", "", "127.0.0.1.evil.example"])
@pytest.mark.parametrize("path", ["/", "/events", "/static/x.js", "/explain/pod/shop/web-1"])
def test_a_name_that_was_bound_to_this_address_gets_nothing(page: Served, host: str, path: str) -> None:
    """DNS rebinding: the browser takes us for the attacker's server, and says so in Host."""
    status, _, body = page.get(path, Host=host)
    assert status == 421
    assert b"own address" in body
    assert page.asked == []


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "LOCALHOST"])
def test_names_of_this_machine_get_an_answer(page: Served, name: str) -> None:
    status, _, _ = page.get("/explain/pod/shop/web-1", Host=f"{name}:{page.port}")
    assert status == 200


def test_other_sites_may_not_ask(page: Served) -> None:
    for site in ("cross-site", "same-site"):
        assert page.get("/events", Sec_Fetch_Site=site)[0] == 403
    assert page.get("/explain/pod/shop/web-1", Sec_Fetch_Site="same-origin")[0] == 200


@pytest.mark.parametrize("path", ["/", "/explain/pod/shop/web-1", "/nowhere", "/static/../server.py"])
def test_every_answer_forbids_what_the_page_does_not_need(page: Served, path: str) -> None:
    _, headers, _ = page.get(path)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert not [name for name in headers if name.startswith("access-control-")]
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(page: Served, method: str) -> None:
    status, headers, _ = page.get("/explain/pod/shop/web-1", method)
    assert status == (200 if method == "OPTIONS" else 405)
    assert page.asked == []
    assert not [name for name in headers if name.startswith("access-control-")]


@pytest.mark.parametrize("name", ["../server.py", "..%2fserver.py", "%2fetc/passwd", "nothing.js", "."])
def test_files_are_those_of_the_page(page: Served, name: str) -> None:
    assert page.get(f"/static/{name}")[0] == 404


def test_an_explanation_names_the_losers(page: Served) -> None:
    status, headers, body = page.get("/explain/pod/shop/web-1")
    assert (status, headers["content-type"]) == (200, "application/json")
    said = json.loads(body)
    assert page.asked == ["shop/web-1"]
    assert [(n["name"], n["rank"], n["lost_by"]) for n in said["nodes"]] == [("n0", 1, 0.0), ("n1", 2, 0.5)]
    assert said["nodes"][1]["terms"] == pytest.approx(
        {"creation alone": 0.9, "containers beside it": 0, "image pull": 0, "price of the room": 1.0}
    )
    assert said["decided_at"] == "2026-11-19T21:00:00.000Z"
    assert said["mode"] == "shadow"
    assert "n0 would have been chosen" in said["reasons"][0]


@pytest.mark.parametrize("path", ["shop/..%2f..", "Shop/web", "shop/web_1", "shop/%00", "a.b/web", "-/web"])
def test_what_names_no_pod_is_not_asked_about(page: Served, path: str) -> None:
    assert page.get(f"/explain/pod/{path}")[0] in (400, 404)
    assert page.asked == []


@pytest.mark.parametrize(
    ("answer", "status"), [(UserError("no extender runs"), 404), ({"mode": "shadow"}, 502), ({}, 502)]
)
def test_why_there_is_no_explanation(page: Served, answer: Any, status: int) -> None:
    page.answer = answer
    found, _, body = page.get("/explain/pod/shop/web-1")
    assert (found, "error" in json.loads(body)) == (status, True)


def test_terms_add_up_to_the_cost(page: Served) -> None:
    candidate = {"cost": 2.9 / 4, "scaling_s": 1.9, "tau_create_s": 0.6, "creating": 2, "image_pull_s": 0.5}
    page.answer = objects.placement("web-1", {"n0": 0.4})
    page.answer["candidates"][0] |= candidate
    page.answer["pod"]["concurrency"] = 4.0
    (node,) = json.loads(page.get("/explain/pod/shop/web-1")[2])["nodes"]
    assert sum(node["terms"].values()) == pytest.approx(node["cost"])
    assert node["terms"]["containers beside it"] == pytest.approx(0.2)


@pytest.mark.parametrize("page", [{"request_s": 0.6, "idle_s": 0.6}], indirect=True)
def test_half_open_clients_are_ended_and_a_stream_is_not(
    page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_HEARTBEAT_S", 0.1)
    silent = socket.create_connection(("127.0.0.1", page.port), timeout=30)
    half = socket.create_connection(("127.0.0.1", page.port), timeout=30)
    half.sendall(b"GET / HTTP/1.1\r\nHost: local")
    stream = page.stream()
    assert stream.next()[0] == "state"
    for client in (silent, half):
        while client.recv(4096):  # what is said before the end does not matter
            pass
        client.close()
    page.add_node("n0")
    assert stream.next()[0] == "change"


@pytest.mark.parametrize("page", [{"request_s": 0.8, "idle_s": 0.8}], indirect=True)
def test_a_reader_that_takes_nothing_is_ended(page: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent is more than the kernel holds for a reader, so the server waits for it."""
    ended = threading.Event()

    def endless(*_: Any) -> Iterator[tuple[str, bytes]]:
        try:
            while True:
                yield "change", bytes(8 << 20)
        finally:
            ended.set()

    monkeypatch.setattr(server, "events", endless)
    with socket.create_connection(("127.0.0.1", page.port), timeout=30) as stuck:
        stuck.sendall(b"GET /events HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % page.port)
        assert ended.wait(60.0)


@pytest.mark.parametrize("page", [{"total": 8, "per_peer": 8}], indirect=True)
def test_connections_are_bounded_and_a_newcomer_is_served(page: Served) -> None:
    held = [socket.create_connection(("127.0.0.1", page.port), timeout=30) for _ in range(40)]
    for client in held:
        client.sendall(b"GET /events HTTP/1.1\r\nHost: x")
    assert page.get("/explain/pod/shop/web-1")[0] == 200
    for client in held:
        client.close()


def test_a_slow_reader_starts_again_with_everything() -> None:
    made = Served()
    number, _ = made.publisher.snapshot()
    for i in range(100):
        made.add_node(f"n{i}")
    assert made.publisher.after(number, 0.0) is None
    number, snapshot = made.publisher.snapshot()
    assert len(json.loads(snapshot)["nodes"]) == 100
    assert made.publisher.after(number, 0.0) == (number, [])
    made.add_node("one more")
    news = made.publisher.after(number, 0.0)
    assert news is not None
    assert len(news[1]) == 1
    assert made.publisher.snapshot()[1] is made.publisher.snapshot()[1]  # made once


def test_an_end_wakes_all_readers() -> None:
    made = Served()
    ended: list[object] = []
    reader = threading.Thread(target=lambda: ended.append(made.publisher.after(0, 60.0)))
    reader.start()
    made.publisher.stop()
    reader.join(timeout=30)
    assert ended == [None]
