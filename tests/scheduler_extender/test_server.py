"""The HTTP side: what is answered, what is refused, and that nothing brings it down."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster_model.contention import MEASURED
from experiments.extender import LATENCY
from experiments.histogram import read_buckets
from scheduler_extender import fast_lane
from scheduler_extender.server import Application
from surgekit.process.connections import Limits
from surgekit.process.http_port import REQUESTS
from surgekit.process.modes import Mode
from surgekit.tls import ensure
from tests.fault_proxy import wait_until
from tests.scheduler_extender import builders
from tests.scheduler_extender.builders import pod, request

NAMES = [f"node-{i:03d}" for i in range(4)]


def test_the_cheapest_nodes_get_the_highest_scores(serve: Any) -> None:
    served = serve()
    for node, count in (("node-000", 3), ("node-001", 1), ("node-003", 2)):
        for i in range(count):
            served.extender.state.put_pod(builders.bound(f"{node}/{i}", node), time.monotonic())
    status, answer = served.ask("POST", "/prioritize", request(pod(), NAMES))
    assert status == 200
    assert answer == [
        {"Host": "node-002", "Score": 10},
        {"Host": "node-001", "Score": 9},
        {"Host": "node-003", "Score": 8},
        {"Host": "node-000", "Score": 7},
    ]


def test_only_the_ten_best_are_named_and_all_are_apart(serve: Any) -> None:
    served = serve(count=500)
    names = [f"node-{i:03d}" for i in range(500)]
    _, answer = served.ask("POST", "/prioritize", request(pod(), names))
    assert [a["Score"] for a in answer] == list(range(10, 0, -1))
    assert len({a["Host"] for a in answer}) == 10


def test_whole_nodes_are_taken_too(serve: Any) -> None:
    body = orjson.dumps(
        {"Pod": pod(), "Nodes": {"items": [{"metadata": {"name": n}} for n in NAMES]}, "NodeNames": None}
    )
    status, answer = serve().ask("POST", "/prioritize", body)
    assert status == 200
    assert {a["Host"] for a in answer} == set(NAMES)


def test_unknown_nodes_are_left_out(serve: Any) -> None:
    served = serve()
    status, answer = served.ask("POST", "/prioritize", request(pod(), [*NAMES, "never-heard-of"]))
    assert (status, len(answer)) == (200, 4)
    assert served.ask("POST", "/prioritize", request(pod(uid="2"), ["never-heard-of"])) == (200, [])
    assert "none of the nodes" in served.ask("GET", "/explain?pod=shop/web-1")[1]["reasons"][0]


@pytest.mark.parametrize(
    ("body", "status", "names"),
    [
        (b"", 400, "body"),
        (b"not json", 400, "JSON is malformed"),
        (b"[1,2]", 400, "Expected `object`"),
        (b'{"Pod": null, "NodeNames": []}', 400, "$.Pod"),
        (b'{"Pod": {"metadata": {"uid": 7}}, "NodeNames": []}', 400, "$.Pod.metadata.uid"),
        (b'{"Pod": {"metadata": {}}, "NodeNames": []}', 400, "uid"),
        (
            request(pod(), [1]),  # type: ignore[list-item]
            400,
            "Expected `str`, got `int` - at `$.NodeNames[0]`",
        ),
        (b'{"Pod": {"metadata": {"uid": "u"}}, "NodeNames": {}}', 400, "$.NodeNames"),
        (b'{"Pod": {"metadata": {"uid": "u"}}}', 400, "neither NodeNames nor Nodes"),
        (b'{"Pod": {"metadata": {"uid": "u"}}, "Nodes": {"items": [3]}}', 400, "$.Nodes.items[0]"),
        (request(pod(cpu="-1"), NAMES), 400, "spec.containers[0].resources.requests.cpu"),
        (request(pod(memory="1e300"), NAMES), 400, "spec.containers[0].resources.requests.memory"),
        (request(pod(cpu="NaN"), NAMES), 400, "not a quantity: 'NaN'"),
        (request(pod(containers="none"), NAMES), 400, "$.Pod.spec.containers"),
        (b"x" * 3000, 413, "max_body_bytes"),
        (b'{"Pod": {"metadata": {"uid": "\xff"}}, "NodeNames": []}', 400, "utf-8"),
        (b'{"Pod": {"metadata": {"uid": "u"}}, "NodeNames": ["\xff"]}', 400, "utf-8"),
        (request(pod(cpu="1" * 1500), NAMES), 400, "not a quantity"),
    ],
)
def test_bad_requests_name_the_field(serve: Any, body: bytes, status: int, names: str) -> None:
    served = serve(max_body_bytes=2048)
    got, answer = served.ask("POST", "/prioritize", body)
    assert got == status
    assert names in answer["error"]
    assert served.ask("POST", "/prioritize", request(pod(), NAMES))[0] == 200, "and it goes on serving"


def test_the_ordinary_lane_answers_like_the_fast_one(serve: Any) -> None:
    served = serve()
    fast = served.ask("POST", "/prioritize", request(pod(), NAMES))
    slow = served.ask("POST", "/prioritize", request(pod(), NAMES), Expect="100-continue")
    assert fast == slow
    assert served.ask("POST", "/prioritize", b"{", Expect="100-continue")[0] == 400
    assert served.ask("GET", "/prioritize")[0] == 405


def test_requests_written_at_once_are_answered_in_order(serve: Any) -> None:
    served = serve()
    body = request(pod(), NAMES)
    head = b"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as connection:
        last = b"GET /explain?pod=shop/web-1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        connection.sendall((head + body) * 3 + last)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    assert answer.count(b'"Score":10') == 3
    assert orjson.loads(answer.rpartition(b"\r\n\r\n")[2])["pod"]["name"] == "web-1"


def test_chunked_bodies_and_closing_connections(serve: Any) -> None:
    served = serve()
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=5)
    body = request(pod(), NAMES)
    connection.request(
        "POST", "/prioritize", iter([body[:50], body[50:]]), {"Connection": "close"}, encode_chunked=True
    )
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.getheader("connection") == "close"
    assert len(orjson.loads(answer.read())) == 4


@pytest.mark.parametrize(
    ("labels", "settings_", "scored"),
    [
        ({"surgekit.dev/placement": "enforce"}, {}, True),
        ({"surgekit.dev/placement": "shadow"}, {}, False),
        ({"surgekit.dev/placement": "off"}, {}, False),
        ({"surgekit.dev/placement": "on"}, {}, False),  # not a mode: off, never on
        ({"surgekit.dev/placement": "enforce"}, {"mode": "shadow"}, False),
        ({"surgekit.dev/placement": "enforce"}, {"mode": "off"}, False),
    ],
)
def test_modes(serve: Any, labels: dict[str, str], settings_: dict[str, str], scored: bool) -> None:
    served = serve(**{k: Mode(v) for k, v in settings_.items()})
    status, answer = served.ask("POST", "/prioritize", request(pod(labels=labels), NAMES))
    assert (status, bool(answer)) == (200, scored)
    assert served.extender.state.counts["assumed"] == int(scored)


def test_shadow_records_what_it_would_have_said(serve: Any) -> None:
    served = serve()
    body = request(pod(labels={"surgekit.dev/placement": "shadow"}), NAMES)
    assert served.ask("POST", "/prioritize", body) == (200, [])
    status, said = served.ask("GET", "/explain?pod=shop/web-1")
    assert status == 200
    assert (said["mode"], said["valid"], len(said["candidates"])) == ("shadow", True, 4)


def test_explain_shows_the_terms_of_the_cost(serve: Any) -> None:
    served = serve()
    served.extender.state.put_pod(builders.bound("other", "node-000", cpu=4000), time.monotonic())
    served.ask("POST", "/prioritize", request(pod(annotations={"surgekit.dev/price-weight": "2"}), NAMES))
    served.extender.state.put_pod(builders.bound("uid-1", "node-003"), time.monotonic())
    _, said = served.ask("GET", "/explain?pod=shop/web-1")
    assert said["bound_to"] == "node-003"
    assert (said["price_weight"], said["nodes_offered"]) == (2.0, 4)
    assert said["inputs_age_s"].keys() == {"nodes", "pods", "namespaces"}
    worst = said["candidates"][-1]
    assert (worst["node"], worst["creating"], worst["score"]) == ("node-000", 2, 7)
    for c in said["candidates"]:
        turn_s = c["tau_create_s"] * MEASURED.creation.slowdown(c["creating"])
        assert c["scaling_s"] == pytest.approx(turn_s + c["image_pull_s"])
        assert c["resource_price"] == pytest.approx(c["cpu_price"] * 0.25 + c["memory_price"] * 0.5)
        assert c["cost"] == pytest.approx(c["scaling_s"] + 2.0 * c["resource_price"])
    assert served.ask("GET", "/explain?pod=shop/unknown")[0] == 404
    assert served.ask("GET", "/explain?pod=nonsense")[0] == 400


def test_the_latest_decisions_are_told_in_order_and_bounded(serve: Any) -> None:
    served = serve()
    for i in range(60):
        served.ask("POST", "/prioritize", request(pod(uid=f"uid-{i}", name=f"web-{i}"), NAMES))
    served.extender.state.put_pod(builders.bound("uid-59", "node-003"), time.monotonic())
    status, said = served.ask("GET", "/explain?since=0")
    assert status == 200
    names = [decision["pod"]["name"] for decision in said["decisions"]]
    assert names == [f"web-{i}" for i in range(10, 60)]
    assert said["decisions"][-1]["bound_to"] == "node-003"
    latest = served.ask("GET", f"/explain?since={said['decisions'][-3]['decided_at']}")[1]["decisions"]
    assert [decision["pod"]["name"] for decision in latest] == ["web-58", "web-59"]
    assert served.ask("GET", "/explain?since=soon")[0] == 400


def test_unusable_annotations_are_ignored_and_the_pod_is_still_scored(serve: Any) -> None:
    served = serve()
    for text in ("NaN", "-1", "many", "1e999"):
        body = request(pod(uid=text, annotations={"surgekit.dev/price-weight": text}), NAMES)
        status, answer = served.ask("POST", "/prioritize", body)
        assert (status, len(answer)) == (200, 4)
        assert served.ask("GET", "/explain?pod=shop/web-1")[1]["price_weight"] == 0.25


def test_stale_inputs_mean_neutral_scores_and_not_ready(serve: Any) -> None:
    served = serve()
    assert served.ask("GET", "/readyz")[0] == 200
    served.extender.sources._watches["pods"]._last_contact_s -= 3600
    assert served.ask("POST", "/prioritize", request(pod(), NAMES)) == (200, [])
    assert served.ask("GET", "/readyz")[0] == 503
    assert served.ask("GET", "/livez") == (200, "ok"), "stale is not broken: no restart"
    assert "no word of pods" in served.ask("GET", "/explain?pod=shop/web-1")[1]["reasons"][0]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=10), children, max_size=4)
    ),
    max_leaves=12,
)


FIELDS = [
    *("metadata", "spec", "status", "containers", "resources", "requests", "cpu", "labels", "annotations"),
    *("uid", "image", "initContainers", "overhead", "containerStatuses", "namespace"),
    "surgekit.dev/placement",
]


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.lists(st.sampled_from(FIELDS), min_size=1, max_size=5),
    value=json_values,
)  # fmt: skip
def test_a_pod_with_anything_anywhere_is_answered_or_refused(path: list[str], value: Any) -> None:
    """Fuzz: any JSON value at any place of an otherwise good pod."""
    target: Any = (mangled := pod())
    for step in path[:-1]:
        if isinstance(target, list):
            target = target[0] if target else {}
        if not isinstance(target, dict):
            break
        target = target.setdefault(step, {})
    if isinstance(target, list) and target:
        target[0] = value
    elif isinstance(target, dict):
        target[path[-1]] = value
    status, answer = FUZZED.prioritize(request(mangled, NAMES))
    assert status in (200, 400)
    assert isinstance(orjson.loads(answer), list if status == 200 else dict)


@settings(max_examples=300)
@given(st.binary(max_size=200) | json_values.map(orjson.dumps))
def test_any_body_at_all_is_answered_or_refused(body: bytes) -> None:
    assert FUZZED.prioritize(body)[0] in (200, 400)


FUZZED = Application(builders.extender(max_input_age_s=3600.0))


@pytest.mark.parametrize("headers", [{}, {"Expect": "100-continue"}])
@pytest.mark.parametrize(
    "body",
    [
        b'{"Pod": {"metadata": {"uid": "u"}, "x": '
        + b"[" * 100_000
        + b"]" * 100_000
        + b'}, "NodeNames": []}',
        b'{"Pod": {"metadata": {"uid": "u"}}, "NodeNames": ["\xc3\x28"]}',
        b'{"Pod": {"metadata": {"uid": "u"}}, "NodeNames": ["\\ud800"]}',
    ],
)
def test_deep_json_and_text_that_is_no_utf_8_are_refused_and_the_connection_stays(
    serve: Any, headers: dict[str, str], body: bytes
) -> None:
    served = serve()
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    for asked, status in ((body, 400), (request(pod(), NAMES), 200)):
        connection.request("POST", "/prioritize", asked, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.close()


def test_a_fault_of_ours_is_a_500_and_the_schedulers_connection_stays(serve: Any) -> None:
    served = serve()
    served.extender.sources.apply = None
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    for _ in range(2):
        connection.request("POST", "/prioritize", request(pod(), NAMES))
        answer = connection.getresponse()
        assert (answer.status, b"the extender failed" in answer.read()) == (500, True)
    connection.close()


def test_the_assumed_node_is_priced_again_before_the_next_request(serve: Any) -> None:
    served = serve(count=100)
    names = [f"node-{i:03d}" for i in range(100)]
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    for number in range(3):
        connection.request("POST", "/prioritize", request(pod(uid=str(number)), names))
        connection.getresponse().read()
    (prices,) = served.extender._price_lists._lists.values()
    wait_until(lambda: not prices.changed, "no node that still has its old price")
    connection.close()


def test_a_fault_in_the_preparation_costs_no_connection(serve: Any) -> None:
    served = serve()
    served.extender.prepare = None
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    for _ in range(2):
        connection.request("POST", "/prioritize", request(pod(), NAMES))
        answer = connection.getresponse()
        assert (answer.status, len(orjson.loads(answer.read()))) == (200, 4)
    connection.close()


class Tls:
    """A scheduler, another client of the same CA, and somebody without a certificate."""

    def __init__(self, directory: Path) -> None:
        ensure(directory, ["localhost"], ["kube-scheduler", "other"], datetime.now(UTC))
        self._directory = directory

    def connect(self, port: int, name: str | None) -> http.client.HTTPConnection:
        context = ssl.create_default_context(cafile=str(self._directory / "ca.crt"))
        if name:
            context.load_cert_chain(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        return http.client.HTTPSConnection("localhost", port, timeout=60, context=context)

    def ask(self, port: int, name: str | None) -> int:
        with closing(self.connect(port, name)) as connection:
            return prioritized(connection)


def prioritized(connection: http.client.HTTPConnection) -> int:
    connection.request("POST", "/prioritize", request(pod(), NAMES))
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_only_the_scheduler_is_let_in_unless_others_are_named(serve: Any, tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    as_shipped = serve(tls_directory=tmp_path)
    others_too = serve(tls_directory=tmp_path, client_names=("other", "kube-scheduler"))
    clients = ("kube-scheduler", "other", None)
    assert [tls.ask(as_shipped.port, name) for name in clients] == [200, 403, 403]
    assert [tls.ask(others_too.port, name) for name in clients] == [200, 200, 403]


def test_slow_strangers_keep_neither_schedulers_nor_probes_out(serve: Any, tmp_path: Path) -> None:
    """Twice as many as there is room for, each in the middle of its handshake, of one peer and of many."""
    tls = Tls(tmp_path)
    served = serve(tls_directory=tmp_path)
    with ExitStack() as stack, closing(tls.connect(served.port, "kube-scheduler")) as old:
        assert prioritized(old) == 200
        for number in range(2 * REQUESTS.total):
            source = ("127.0.0.1" if number % 2 else f"127.0.1.{number % 200 + 1}", 0)
            opened = socket.create_connection(("127.0.0.1", served.port), timeout=60, source_address=source)
            stack.enter_context(opened).sendall(b"\x16")
        assert tls.ask(served.port, "kube-scheduler") == 200, "a new scheduler"
        assert prioritized(old) == 200, "the one before, on its connection"
        assert served.ask("GET", "/livez") == (200, "ok")


def test_a_scheduler_that_drips_is_late(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_lane, "REQUESTS", Limits(total=10, per_peer=10, request_s=2.0, idle_s=3600.0))
    served = serve()
    head = b"POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(head)
        deadline_s = time.monotonic() + 60
        with suppress(OSError):
            while time.monotonic() < deadline_s:
                connection.sendall(b" ")
                time.sleep(0.1)
        assert time.monotonic() < deadline_s
    text = served.ask("GET", "/metrics")[1]
    assert 'surgekit_server_connections_ended_total{port="requests",reason="late"} 1.0' in text


def test_replicas_on_other_hosts_start_with_other_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's name (in a cluster the pod's) orders equal nodes, so replicas do not herd."""
    names, first = [f"node-{i:03d}" for i in range(40)], set()
    for replica in ("extender-a", "extender-b", "extender-c", "extender-d"):
        monkeypatch.setattr("platform.node", lambda replica=replica: replica)
        first.add(orjson.loads(builders.extender(40).prioritize(request(pod(), names)))[0]["Host"])
    assert len(first) > 1


def test_the_latency_histogram_counts_every_answer(serve: Any) -> None:
    """`surgekit bench extender` reads its latencies from there."""
    served = serve()
    for number in range(3):
        served.ask("POST", "/prioritize", request(pod(uid=str(number)), NAMES))
    text = served.ask("GET", "/metrics")[1]
    assert "surgekit_extender_prioritize_seconds_count 3.0" in text
    assert read_buckets(text, LATENCY)[float("inf")] == 3
