"""The balancer tells the owner of a function that is past its share, on the function's Service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from function_gateway.controller import Controller
from function_gateway.endpoints import COMBOFUNC, CONCURRENCY, Function
from function_gateway.settings import Settings
from tests.fake_api_server import FakeApiServer

WEB = Function("shop", "web")


def endpoint_slice(**owner: str) -> dict[str, Any]:
    metadata = {"uid": "s", "name": "web-1", "namespace": "shop", "labels": {COMBOFUNC: "web"}}
    owners = [{"apiVersion": "v1", "kind": "Service"} | owner] if owner else []
    return {
        "metadata": metadata | {"ownerReferences": owners},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": ["10.0.0.1"], "targetRef": {"kind": "Pod", "uid": "p"}}],
    }


def pod(concurrency: str) -> dict[str, Any]:
    return {
        "metadata": {
            "uid": "p", "name": "p", "namespace": "shop", "annotations": {CONCURRENCY: concurrency},
        }
    }  # fmt: skip


def balancer(kube: FakeApiServer, **owner: str) -> Controller:
    made = Controller(Settings(directory=Path("nowhere")), kube)
    made._watches["endpointslices"]._consumer.replace([endpoint_slice(**owner)], 1.0)
    return made


def flushed(controller: Controller, kube: FakeApiServer) -> list[dict[str, Any]]:
    controller._events.start()
    controller._events.stop()
    return kube.objects("events")


def test_an_owner_is_told_on_the_service() -> None:
    kube = FakeApiServer()
    controller = balancer(kube, name="web-service", uid="u")
    for _ in range(3):
        controller._notify(WEB, "NoBackend", "all backends are in use")
    (event,) = flushed(controller, kube)
    assert event["regarding"] == {
        "apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web-service", "uid": "u",
    }  # fmt: skip
    assert (event["reason"], event["note"], event["type"]) == (
        "NoBackend", "all backends are in use", "Warning",
    )  # fmt: skip


def test_without_a_service_there_is_nothing_to_post_on() -> None:
    kube = FakeApiServer()
    controller = balancer(kube)
    controller._notify(WEB, "NoBackend", "all backends are in use")
    controller._notify(Function("shop", "unknown"), "NoBackend", "all backends are in use")
    assert flushed(controller, kube) == []


def test_haproxy_is_told_of_changes_and_only_of_them() -> None:
    controller = balancer(FakeApiServer(), name="web", uid="u")
    changed, pods = controller._changed, controller._watches["pods"]._consumer
    assert changed.is_set(), "a list is news, whatever is in it"
    for kind, says, news in (
        ("ADDED", "4", True),
        ("MODIFIED", "4", False),
        ("MODIFIED", "many", False),
        ("MODIFIED", "5", True),
        ("DELETED", "5", True),
        ("DELETED", "5", False),
    ):
        changed.clear()
        pods.apply(kind, pod(says), 2.0)
        assert changed.is_set() is news, (kind, says)
