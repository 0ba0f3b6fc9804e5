from __future__ import annotations

import math
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement.knative.activators import Activators, Address, read_addresses, read_requests
from surgekit.kube.checked import WrongType

SHOP, BANK = ("fns", "shop-00001"), ("fns", "bank-00002")
# As an activator of Knative Serving v0.50.0 wrote it, but for the numbers (and many other lines).
PAGE = """\
# HELP kn_revision_request_active Number of requests currently being proxied by the activator
# TYPE kn_revision_request_active gauge
kn_revision_request_active{k8s_namespace_name="fns",kn_revision_name="shop-00001",otel_scope_name="knative.dev/serving/pkg/activator",otel_scope_schema_url="",otel_scope_version=""} 2
kn_revision_request_active{k8s_namespace_name="fns",kn_revision_name="bank-00002",otel_scope_name="knative.dev/serving/pkg/activator",otel_scope_schema_url="",otel_scope_version=""} 0
# TYPE kn_revision_request_queued gauge
kn_revision_request_queued{k8s_namespace_name="fns",kn_revision_name="shop-00001",otel_scope_name="knative.dev/serving/pkg/activator",otel_scope_schema_url="",otel_scope_version=""} 5
kn_revision_request_queued{k8s_namespace_name="fns",kn_revision_name="lost-00001",otel_scope_name="knative.dev/serving/pkg/activator",otel_scope_schema_url="",otel_scope_version=""} NaN
kn_revision_request_queued{kn_revision_name="stranger"} 7
kn_revision_request_concurrency{k8s_namespace_name="fns",kn_revision_name="bank-00002"} 9
"""  # noqa: E501


@contextmanager
def activator(page: str, code: int = 200) -> Iterator[Address]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield ("127.0.0.1", server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def activators() -> Iterator[Activators]:
    asked = Activators()
    yield asked
    asked.stop()


@pytest.fixture
def nobody() -> Iterator[Address]:
    """A port where nobody answers."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()


def test_requests_that_wait_and_that_pass_count() -> None:
    assert read_requests(PAGE) == {SHOP: 7}
    assert read_requests("") == {}


@given(st.text(max_size=200))
def test_a_page_is_read_or_refused(text: str) -> None:
    for page in (text, f"kn_revision_request_queued{{{text}"):
        try:
            read_requests(page)
        except ValueError:
            continue


def test_all_activators_are_added_up(activators: Activators) -> None:
    with activator(PAGE) as one, activator(PAGE) as other:
        activators.ask([one, other, one], 100.0)
        demand = activators.demand(SHOP, 101.0)
        assert (demand.requests, demand.age_s, demand.blind_s) == (14, 1.0, 1.0)
        assert activators.demand(BANK, 100.0).requests == 0
        activators.ask([one], 102.0)  # the other one is gone
        assert activators.demand(SHOP, 102.0).requests == 7


def test_one_that_never_answered_leaves_the_requests_unknown(activators: Activators, nobody: Address) -> None:
    with activator(PAGE) as one:
        for now_s in (100.0, 105.0):
            activators.ask([one, nobody], now_s)
        demand = activators.demand(SHOP, 106.0)
    assert (demand.requests, demand.age_s, demand.blind_s) == (7, math.inf, 6.0)
    assert demand.problem.startswith(f"activator 127.0.0.1:{nobody[1]}: [Errno 111] Connection refused; ")
    assert "`metrics-protocol: prometheus`" in demand.problem


def test_one_that_stops_answering_gets_old(activators: Activators) -> None:
    with activator(PAGE) as one:
        activators.ask([one], 100.0)
    activators.ask([one], 105.0)
    demand = activators.demand(SHOP, 109.0)
    assert (demand.requests, demand.age_s, demand.blind_s) == (7, 9.0, 9.0)
    assert "refused" in demand.problem


@pytest.mark.parametrize(("page", "code", "said"), [("", 404, "HTTP 404"), (PAGE[:-3] + "x\n", 200, "")])
def test_an_answer_that_makes_no_sense_is_none(
    activators: Activators, page: str, code: int, said: str
) -> None:
    with activator(page, code) as one:
        activators.ask([one], 100.0)
        assert said in activators.demand(SHOP, 100.0).problem
        assert math.isinf(activators.demand(SHOP, 100.0).age_s) is bool(said)


def test_without_activators_the_requests_are_unknown(activators: Activators) -> None:
    activators.ask([], 100.0)
    assert activators.demand(SHOP, 100.0).blind_s == 0.0
    activators.ask([], 130.0)
    demand = activators.demand(SHOP, 130.0)
    assert (demand.age_s, demand.blind_s) == (math.inf, 30.0)
    assert demand.problem == "activator-service has no address"
    activators.forget()  # another replica led
    activators.ask([], 500.0)
    assert activators.demand(SHOP, 500.0).blind_s == 0.0


def slice_(**changed: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 8012}, {"name": "http-metrics", "port": 9090}]
    endpoints = [
        {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
        {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
        {"addresses": ["10.0.0.3"]},
    ]
    return {"ports": ports, "endpoints": endpoints} | changed


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, {("10.0.0.1", 9090), ("10.0.0.3", 9090)}),
        (
            {"ports": [{"name": "http-metrics", "port": 9191}], "endpoints": [{"addresses": ["fd00::1"]}]},
            {("fd00::1", 9191)},
        ),
        ({"ports": None, "endpoints": [{"addresses": ["10.0.0.1"]}]}, {("10.0.0.1", 9090)}),
        ({"endpoints": None}, set()),
    ],
)
def test_addresses(changed: dict[str, Any], found: set[Address]) -> None:
    assert read_addresses(slice_(**changed)) == found


@pytest.mark.parametrize("address", ["activator.example.com", 7])
def test_what_is_no_address_is_refused(address: object) -> None:
    with pytest.raises((ValueError, WrongType)):
        read_addresses(slice_(endpoints=[{"addresses": [address, "x"]}]))
