"""Over TLS: who is answered what, and that nothing brings it down."""

from __future__ import annotations

import http.client
import socket
import ssl
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from hpa_replacement.adapter import server
from hpa_replacement.adapter.authentication import CONFIG_MAP, FrontProxyError
from hpa_replacement.adapter.settings import Settings
from surgekit.process.http_port import REQUESTS
from tests.hpa_replacement.adapter.builders import (
    GOOD_TOKEN,
    FakeKube,
    authentication_data,
    heard_of_just_now,
    not_allowed_to_ask,
    policy,
    unreachable,
)
from tests.hpa_replacement.adapter.conftest import HPA, PROXY, STRANGER, Served, read

EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2"
VALUE = f"{EXTERNAL}/namespaces/shop/knee-replicas?labelSelector=policy%3Dcheckout"
OBJECT = f"{CUSTOM}/namespaces/shop/kneepolicies.surgekit.dev/checkout/knee-replicas"
PODS = f"{CUSTOM}/namespaces/shop/pods/*/knee-replicas?labelSelector=uid%3Dcheckout"
TOKEN = {"Authorization": f"Bearer {GOOD_TOKEN}"}


def test_both_apis_answer_the_front_proxy(serve: Any) -> None:
    served = serve(policy(replicas=37), policy("cart"))
    for path in (VALUE, OBJECT):
        status, answer = served.ask(path)
        assert (status, [item["value"] for item in answer["items"]]) == (200, ["37"])
    asked = [review["spec"]["resourceAttributes"] for review in served.kube.reviews]
    assert asked == [
        {
            "verb": "list", "group": "external.metrics.k8s.io", "version": "v1beta1",
            "resource": "knee-replicas", "subresource": "", "namespace": "shop", "name": "",
        },
        {
            "verb": "get", "group": "custom.metrics.k8s.io", "version": "v1beta2", "namespace": "shop",
            "resource": "kneepolicies.surgekit.dev", "name": "checkout", "subresource": "knee-replicas",
        },
    ]  # fmt: skip


def test_a_pods_metric_answers_for_the_pods_of_a_revision(serve: Any) -> None:
    served = serve(policy("web-00001", replicas=3), knative=True)
    path = PODS.replace("checkout", "web-00001")
    assert "the adapter knows no pods" in served.ask(path)[1]["message"]
    pods = served.application.pods
    heard_of_just_now(pods._watch)
    for name, phase in (("a", "Running"), ("b", "Running"), ("c", "Pending"), ("d", "Failed")):
        pods._watch._consumer.apply("ADDED", knative_pod(name, phase), 0.0)
    pods._watch._consumer.apply("ADDED", knative_pod("e", "Running", "bank"), 0.0)
    status, answer = served.ask(path)
    assert status == 200
    shown = [(item["describedObject"]["name"], item["value"]) for item in answer["items"]]
    assert shown == [("a", "1500m"), ("b", "1500m")]
    asked = served.kube.reviews[0]["spec"]["resourceAttributes"]
    assert asked == {
        "verb": "get", "group": "custom.metrics.k8s.io", "version": "v1beta2", "namespace": "shop",
        "resource": "pods", "name": "*", "subresource": "knee-replicas",
    }  # fmt: skip
    for changed, why in (
        ("uid%3Dnever", "must be of one revision of Knative's, are of: none"),
        ("a", "must be of one revision of Knative's, are of: none"),
    ):
        status, answer = served.ask(path.replace("uid%3Dweb-00001", changed))
        assert (status, why in answer["message"]) == (404, True)
    pods._watch._consumer.apply("ADDED", knative_pod("f", "Running", revision="stray-00001"), 0.0)
    message = served.ask(path.replace("%3Dweb-00001", ""))[1]["message"]
    assert "are of: stray-00001, web-00001" in message
    message = served.ask(path.replace("web-00001", "stray-00001"))[1]["message"]
    assert "there is no KneePolicy shop/stray-00001: revisions get one from the annotations" in message
    for name in "abc":
        pods._watch._consumer.apply("DELETED", knative_pod(name, "Running"), 0.0)
    assert served.ask(path)[0] == 404


def test_pods_metrics_are_off_unless_they_are_set(serve: Any) -> None:
    status, answer = serve(policy("web-00001")).ask(PODS)
    assert (status, "setting `knative`" in answer["message"]) == (404, True)


def knative_pod(name: str, phase: str, namespace: str = "shop", revision: str = "web-00001") -> Any:
    labels = {"serving.knative.dev/revision": revision, "uid": revision}
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "labels": labels}
    return {"kind": "Pod", "metadata": metadata, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("path", "kind", "names"),
    [
        ("/apis", "APIGroupList", ["external.metrics.k8s.io", "custom.metrics.k8s.io"]),
        ("/apis/external.metrics.k8s.io", "APIGroup", ["v1beta1"]),
        ("/apis/custom.metrics.k8s.io", "APIGroup", ["v1beta2"]),
        (EXTERNAL, "APIResourceList", ["knee-replicas"]),
        (CUSTOM, "APIResourceList", ["kneepolicies.surgekit.dev/knee-replicas", "pods/knee-replicas"]),
    ],
)
def test_discovery(serve: Any, path: str, kind: str, names: list[str]) -> None:
    status, answer = serve().ask(path)
    assert (status, answer["kind"]) == (200, kind)
    listed = {"APIGroupList": ("groups", "name"), "APIGroup": ("versions", "version")}
    items, key = listed.get(kind, ("resources", "name"))
    assert [item[key] for item in answer[items]] == names


@pytest.mark.parametrize(
    ("path", "status", "reason", "message"),
    [
        (VALUE.replace("checkout", "never"), 404, "NotFound", "no KneePolicy in namespace 'shop' matches"),
        (VALUE.replace("knee-", "other-"), 404, "NotFound", "metric 'other-replicas' is not served here"),
        (VALUE.replace("%3D", "%3D%3D%3D"), 400, "BadRequest", "label selector"),
        (OBJECT.replace("checkout", "never"), 404, "NotFound", "there is no KneePolicy shop/never"),
        (OBJECT.replace("kneepolicies.surgekit.dev", "pods"), 404, "NotFound", "Not Found"),
        (f"{CUSTOM}/namespaces/shop/metrics/knee-replicas", 404, "NotFound", "Not Found"),
        ("/apis/metrics.k8s.io", 404, "NotFound", "metrics.k8s.io is not served here"),
        ("/apis/custom.metrics.k8s.io/v1beta1", 404, "NotFound", "custom.metrics.k8s.io/v1beta1 is not"),
        ("/openapi/v3", 404, "NotFound", "/openapi/v3"),
    ],
)
def test_what_is_not_there_is_a_status_with_a_reason(
    serve: Any, path: str, status: int, reason: str, message: str
) -> None:
    got, answer = serve().ask(path)
    assert (got, answer["kind"], answer["status"]) == (status, "Status", "Failure")
    assert (answer["code"], answer["reason"]) == (status, reason)
    assert message in answer["message"]


def test_nothing_can_be_written(serve: Any) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        status, answer = serve().ask(VALUE, method=method)
        assert (status, answer["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("headers", "client", "message"),
    [
        ({}, None, "no certificate"),
        (HPA, None, "no certificate"),  # headers anybody can write
        (HPA, STRANGER, "'somebody-else', which is not an allowed name"),
        ({}, PROXY, "names no user"),
        ({"X-Remote-Group": "system:masters"}, PROXY, "names no user"),
        ({"X_Remote_User": "hpa"}, PROXY, "names no user"),
        ({"Authorization": "Bearer bad"}, None, "not valid"),
        ({"Authorization": "Basic aHBhOmhwYQ=="}, None, "nor a bearer token"),
        (HPA | {"Authorization": "Bearer bad"}, None, "not valid"),
    ],
)
def test_strangers_are_refused(serve: Any, headers: dict[str, str], client: str | None, message: str) -> None:
    served = serve()
    for path in (VALUE, OBJECT, "/apis", EXTERNAL, "/nowhere"):
        status, answer = served.ask(path, headers, client)
        assert (status, answer["kind"], answer["reason"]) == (401, "Status", "Unauthorized")
        assert message in answer["message"]
    assert not [r for r in served.kube.reviews if r["kind"] == "SubjectAccessReview"]


def test_a_front_proxy_of_another_ca_is_not_let_in(serve: Any) -> None:
    served = serve()
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        served.ask(VALUE, client=PROXY, signed_by=served.other_ca)
    assert served.ask(VALUE)[0] == 200, "and it goes on serving"


def test_a_direct_caller_with_a_token_is_who_the_token_says(serve: Any) -> None:
    served = serve()
    assert served.ask(VALUE, TOKEN | {"X-Remote-User": "admin"}, None)[0] == 200
    assert served.kube.reviews[-1]["spec"]["user"] == "prometheus"
    assert served.ask("/apis", TOKEN, None)[0] == 200
    assert served.kube.reviews[-1]["spec"]["nonResourceAttributes"] == {"path": "/apis", "verb": "get"}


def test_who_may_not_is_told_what(serve: Any) -> None:
    served = serve()
    status, answer = served.ask(VALUE, {"X-Remote-User": "ann"})
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == (
        "User 'ann' cannot list resource 'knee-replicas' in API group 'external.metrics.k8s.io' "
        "in the namespace 'shop'"
    )
    assert served.ask("/apis", {"X-Remote-User": "ann"})[0] == 403


def test_repeated_groups_reach_the_review_one_by_one(serve: Any) -> None:
    served = serve()
    groups = ["cn=ops,ou=x", "system:authenticated"]
    served.ask(VALUE, [("X-Remote-User", "hpa"), *(("X-Remote-Group", g) for g in groups)])
    assert served.kube.reviews[-1]["spec"]["groups"] == groups


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("path", [VALUE, OBJECT])
def test_whatever_the_method_a_metric_wants_the_same_right(serve: Any, path: str, method: str) -> None:
    served = serve()
    assert served.ask(path, {}, None, method)[0] == 401
    assert served.ask(path, {"X-Remote-User": "ann"}, method=method)[0] == 403
    assert served.ask(path, method=method)[0] == 200
    verbs = [r["spec"]["resourceAttributes"]["verb"] for r in served.kube.reviews]
    assert verbs == ["list" if path is VALUE else "get"] * 2


def test_without_the_api_server_nobody_new_is_let_in(serve: Any) -> None:
    served = serve()
    for served.kube.failing, status in ((unreachable(), 503), (not_allowed_to_ask(), 500)):
        assert served.ask(VALUE)[0] == status
        assert served.ask(VALUE, TOKEN, None)[0] == status


def test_health_is_open_and_says_what_is_known(serve: Any) -> None:
    served = serve()
    assert served.health("/livez") == (200, "ok")
    assert served.health("/readyz") == (200, "ok")
    served.application.policies._watch._last_contact_s = -float("inf")
    assert served.health("/readyz") == (503, "no word of KneePolicies from the API server")
    status, answer = served.ask(VALUE)
    assert status == 404
    assert "has not heard of KneePolicies from the API server yet" in answer["message"]


def test_requests_are_counted_by_group_and_status(serve: Any) -> None:
    served = serve()
    served.ask(VALUE)
    served.ask(VALUE.replace("checkout", "never"))
    served.ask(OBJECT, client=None)
    text = served.health("/metrics")[1]
    for line in (
        'surgekit_adapter_requests_total{code="200",group="external.metrics.k8s.io"} 1.0',
        'surgekit_adapter_requests_total{code="404",group="external.metrics.k8s.io"} 1.0',
        'surgekit_adapter_requests_total{code="401",group="custom.metrics.k8s.io"} 1.0',
        "surgekit_adapter_request_seconds_count 3.0",
        "surgekit_adapter_policies 1.0",
    ):
        assert line in text


def test_a_connection_is_kept_and_each_request_is_of_its_own_user(serve: Any) -> None:
    served = serve()
    connection = served.connect()
    try:
        found = []
        for user in ("hpa", "ann", "hpa", ""):
            connection.request("GET", VALUE, headers={"X-Remote-User": user})
            found.append((read(connection)[0], connection.sock))
    finally:
        connection.close()
    assert [status for status, _ in found] == [200, 403, 200, 401]
    assert len({sock for _, sock in found}) == 1


def test_a_new_name_and_a_new_ca_of_the_front_proxy_count_at_once(serve: Any) -> None:
    served: Served = serve()
    follow = served.application._front_proxy
    old_ca, new_ca = (d / "ca.crt" for d in (served.front_proxy, served.other_ca))
    config_map = {"metadata": {"name": CONFIG_MAP, "uid": "u"}}
    data = {"data": authentication_data(old_ca.read_text(), (STRANGER,))}
    follow.apply("MODIFIED", config_map | data, 0.0)
    assert (served.ask(VALUE)[0], served.ask(VALUE, client=STRANGER)[0]) == (401, 200)
    follow.apply("MODIFIED", config_map | {"data": authentication_data(new_ca.read_text())}, 0.0)
    assert served.ask(VALUE, signed_by=served.other_ca)[0] == 200
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        served.ask(VALUE)


@pytest.mark.parametrize(
    "raw",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /apis HTTP/1.1\r\nX-Remote-User\r\n\r\n",
        b"GET /apis HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /apis HTTP/1.1\r\nX-Remote-User: \xff\xfe\r\n\r\n",
        b"GET /apis HTTP/1.1\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
        b"GET /apis/%ff%fe HTTP/1.1\r\nX-Remote-User: hpa\r\n\r\n",
        b"GET " + VALUE.encode() + b"%ff HTTP/1.1\r\nX-Remote-User: hpa\r\n\r\n",
        b"GET /apis/%ed%a0%80 HTTP/1.1\r\nX-Remote-User: hpa\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nX-Remote-User: hpa\r\n\r\n",
        b"\x00\x01\r\n\r\n",
    ],
)
def test_nonsense_gets_an_error_and_the_next_is_served(serve: Any, raw: bytes) -> None:
    served = serve()
    connection = served.connect()
    connection.connect()
    connection.sock.sendall(raw)
    assert connection.sock.recv(65536).startswith(b"HTTP/1.1 4")
    connection.close()
    assert served.ask(VALUE)[0] == 200


def test_slow_strangers_keep_neither_the_front_proxy_nor_probes_out(serve: Any) -> None:
    """Twice as many as there is room for, each in the middle of its handshake, of one peer and of many."""
    served = serve()
    with ExitStack() as stack, closing(served.connect()) as old:
        old.request("GET", VALUE, headers=HPA)
        assert read(old)[0] == 200
        for number in range(2 * REQUESTS.total):
            source = ("127.0.0.1" if number % 2 else f"127.0.1.{number % 200 + 1}", 0)
            opened = socket.create_connection(("127.0.0.1", served.port), timeout=60, source_address=source)
            stack.enter_context(opened).sendall(b"\x16")
        assert served.ask(VALUE)[0] == 200
        old.request("GET", VALUE, headers=HPA)
        assert read(old)[0] == 200
        assert served.health("/livez") == (200, "ok")


def test_a_broken_policy_table_is_an_error_of_ours_and_no_value(serve: Any) -> None:
    served = serve()
    served.application.policies.table = {"shop": {"checkout": None}}
    status, answer = served.ask(VALUE)
    assert (status, answer["reason"]) == (500, "InternalError")


def test_without_a_front_proxy_to_trust_it_does_not_begin(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_LOAD_S", -1.0)
    kube = FakeKube(certificates / "front-proxy" / "ca.crt")
    kube.data = {"client-ca-file": "..."}
    application = server.Application(Settings(tls_directory=certificates / "server"), kube)  # type: ignore[arg-type]
    with pytest.raises(FrontProxyError, match="requestheader-client-ca-file"):
        application.load()
    application.stop()
