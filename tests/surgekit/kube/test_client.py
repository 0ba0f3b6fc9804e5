"""The client against an API server that answers badly, late or not at all."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from surgekit.kube import client
from surgekit.kube.api_path import InvalidPath
from surgekit.kube.client import ApiError, Kube, KubeUnreachable, NoCluster
from tests.fake_api_server import FakeApiServer
from tests.fake_api_server.over_http import serve
from tests.fault_proxy import (
    Fault,
    FaultProxy,
    answer,
    answer_raw,
    close,
    cut_at,
    delay,
    drip,
    fault_proxy,
    plain_dial,
    silence,
    silence_at,
    stream,
)

MAPS = "/api/v1/namespaces/shop/configmaps"


@pytest.fixture
def fake() -> FakeApiServer:
    return FakeApiServer()


@pytest.fixture
def proxy(fake: FakeApiServer) -> Iterator[FaultProxy]:
    with serve(fake) as address, fault_proxy(plain_dial(address)) as proxy:
        yield proxy


@pytest.fixture
def kube(proxy: FaultProxy) -> Kube:
    return proxy.kube()


def config_map(name: str) -> client.Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}}


def test_requests_reach_the_server_as_they_were_meant(kube: Kube, fake: FakeApiServer) -> None:
    made = kube.create(MAPS, config_map("a") | {"data": {"k": "ä"}})
    assert kube.get(f"{MAPS}/a") == made
    assert kube.patch(f"{MAPS}/a", {"data": {"k": "1"}})["data"] == {"k": "1"}
    operations = [{"op": "add", "path": "/data/l", "value": "2"}]
    patched = kube.patch(f"{MAPS}/a", operations, "application/json-patch+json")
    assert patched["data"] == {"k": "1", "l": "2"}
    assert kube.replace(f"{MAPS}/a", patched | {"data": {}})["data"] == {}
    with pytest.raises(ApiError, match="Conflict"):
        kube.delete(f"{MAPS}/a", {"preconditions": {"uid": "another"}})
    kube.delete(f"{MAPS}/a")
    assert fake.objects("configmaps") == []


def test_a_list_is_fetched_in_pages_and_each_object_says_its_kind(
    kube: Kube, fake: FakeApiServer, proxy: FaultProxy
) -> None:
    fake.add(*(config_map(f"m{i:04}") for i in range(1200)))
    found, version = kube.list_all(MAPS)
    assert [obj["metadata"]["name"] for obj in found] == [f"m{i:04}" for i in range(1200)]
    assert {(obj["apiVersion"], obj["kind"]) for obj in found} == {("v1", "ConfigMap")}
    assert version == found[-1]["metadata"]["resourceVersion"]
    assert proxy.count("limit=500") == 3


def test_a_path_that_is_none_is_not_sent(kube: Kube, proxy: FaultProxy) -> None:
    with pytest.raises(InvalidPath):
        kube.get("/api/v1/namespaces/../secrets")
    assert proxy.targets == []


@pytest.mark.parametrize("code", [410, 429, 500, 503])
def test_an_error_status_says_code_reason_and_message(kube: Kube, proxy: FaultProxy, code: int) -> None:
    proxy.inject(answer(code, "Because", "it is so"))
    with pytest.raises(ApiError) as raised:
        kube.get(MAPS)
    error = raised.value
    assert (error.code, error.reason, error.message) == (code, "Because", "it is so")
    assert kube.get(MAPS)["items"] == []


@pytest.mark.parametrize("body", [b"<html>Bad Gateway</html>", b"", b"\xff\xfe", b'"text"', b"[1]", b"null"])
def test_an_error_that_is_no_status_is_an_error_all_the_same(
    kube: Kube, proxy: FaultProxy, body: bytes
) -> None:
    proxy.inject(answer_raw(502, body))
    with pytest.raises(ApiError) as raised:
        kube.get(MAPS)
    assert raised.value.code == 502


@pytest.mark.parametrize(
    "fault",
    [
        close,
        cut_at(b'"items"'),
        answer_raw(200, b'{"kind": "ConfigMapList", "ite', length=1000),
        answer_raw(200, b'{"kind": "ConfigMapList", "ite'),
        answer_raw(200, b"<html>Log in here</html>"),
        answer_raw(200, b'"no object"'),
        answer_raw(302, b""),
        answer_raw(500, b'{"reason": "In', length=1000),
        stream(b'{"kind": "Config'),
    ],
    ids=["closed", "cut", "short", "half", "html", "text", "elsewhere", "short error", "half chunked"],
)
def test_an_answer_that_cannot_be_read_is_no_answer(kube: Kube, proxy: FaultProxy, fault: Fault) -> None:
    proxy.inject(fault)
    with pytest.raises(KubeUnreachable):
        kube.get(MAPS)
    assert kube.get(MAPS)["items"] == []


def test_a_silent_server_is_given_up_in_time(
    kube: Kube, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_READ_S", 0.2)
    proxy.inject(silence)
    began_s = time.monotonic()
    with pytest.raises(KubeUnreachable):
        kube.get(MAPS)
    assert time.monotonic() - began_s < 3.0


def test_a_slow_answer_is_an_answer(kube: Kube, proxy: FaultProxy) -> None:
    proxy.inject(delay(0.2))
    assert kube.get(MAPS)["items"] == []
    proxy.inject(drip(0.0005))
    assert kube.get(MAPS)["items"] == []


def test_where_nobody_listens(fake: FakeApiServer) -> None:
    with serve(fake) as address, fault_proxy(plain_dial(address)) as proxy:
        kube = proxy.kube()
    with pytest.raises(KubeUnreachable):
        kube.get(MAPS)


def test_a_write_whose_answer_is_lost_was_made(kube: Kube, proxy: FaultProxy, fake: FakeApiServer) -> None:
    proxy.inject(cut_at(b"HTTP/1.1"))
    with pytest.raises(KubeUnreachable):
        kube.create(MAPS, config_map("a"))
    assert len(fake.objects("configmaps")) == 1
    assert proxy.count("/configmaps") == 1, "the client does not repeat a write by itself"


def test_lines_of_a_watch_arrive_whole(kube: Kube, proxy: FaultProxy) -> None:
    proxy.inject(stream(b'{"a', b'": 1}\n{"b": 2}\n{"c"', b": 3}\n", b'{"half": '))
    batches = list(kube.stream(MAPS, watch=True, timeoutSeconds=1))
    assert [line for lines in batches for line in lines] == [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}']


def test_a_watch_that_breaks_off_says_so_after_its_whole_lines(
    kube: Kube, proxy: FaultProxy, fake: FakeApiServer
) -> None:
    fake.add(config_map("a"))
    proxy.inject(cut_at(b'"name":"b"'))
    batches = kube.stream(MAPS, watch=True, resourceVersion="1", timeoutSeconds=5)
    (line,) = next(batches)[:1]
    assert b'"name":"a"' in line
    fake.add(config_map("b"))
    with pytest.raises(KubeUnreachable):
        next(batches)


@pytest.mark.parametrize("fault", [silence, silence_at(b'"name":"a"')], ids=["from the start", "in a line"])
def test_a_watch_that_falls_silent_is_given_up(
    kube: Kube, proxy: FaultProxy, fake: FakeApiServer, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr(client, "_WATCH_GRACE_S", 0.2)
    fake.add(config_map("a"))
    proxy.inject(fault)
    began_s = time.monotonic()
    with pytest.raises(KubeUnreachable):
        list(kube.stream(MAPS, watch=True, resourceVersion="1", timeoutSeconds=1))
    assert time.monotonic() - began_s < 6.0


def test_no_cluster_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match="--kubeconfig"):
        Kube.connect(tmp_path / "none")


def test_a_context_names_another_cluster_than_the_current(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    names = ("here", "there")
    clusters = [{"name": name, "cluster": {"server": f"https://{name}:6443"}} for name in names]
    contexts = [{"name": name, "context": {"cluster": name, "user": "me"}} for name in names]
    users = [{"name": "me", "user": {"token": "t"}}]
    content = {"clusters": clusters, "contexts": contexts, "users": users, "current-context": "here"}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config"} | content))
    assert Kube.connect(file).host == "https://here:6443"
    assert Kube.connect(file, "there").host == "https://there:6443"
    with pytest.raises(NoCluster, match="nowhere"):
        Kube.connect(file, "nowhere")
