"""Events as the API server takes them: notes of at most 1024 bytes, names of at most 253 characters."""

from __future__ import annotations

import pytest

from surgekit.kube.client import ApiError, KubeUnreachable
from tests.events_at_once import EventsAtOnce
from tests.fake_api_server import FakeApiServer

POD = {"name": "web-1", "namespace": "shop", "uid": "u-1"}


@pytest.fixture
def kube() -> FakeApiServer:
    return FakeApiServer()


@pytest.mark.parametrize(
    ("note", "posted"),
    [
        ("short", "short"),
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1024),
        ("ä" * 512, "ä" * 512),  # 1024 bytes
        ("ä" * 513, "ä" * 512),
        ("x" + "ä" * 600, "x" + "ä" * 511),  # byte 1024 is half an ä
        ("€" * 400, "€" * 341),  # three bytes each: byte 1024 begins one
        ("xx" + "€" * 400, "xx" + "€" * 340),
        ("🙂" * 300, "🙂" * 256),
        ("xxx" + "🙂" * 300, "xxx" + "🙂" * 255),
    ],
)
def test_a_long_note_is_cut_between_characters(kube: FakeApiServer, note: str, posted: str) -> None:
    EventsAtOnce(kube, "probe").about("v1", "Pod").post(POD, "Reason", note)
    (event,) = kube.objects("events")
    assert event["note"] == posted
    assert len(event["note"].encode()) <= 1024


def test_an_event_says_about_what_by_whom_and_why(kube: FakeApiServer) -> None:
    EventsAtOnce(kube, "probe").about("v1", "Pod").post(POD, "TooSlow", "it is slow", "Warning")
    (event,) = kube.objects("events")
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Pod"} | POD
    assert (event["reason"], event["action"], event["type"]) == ("TooSlow", "TooSlow", "Warning")
    assert event["reportingController"] == "surgekit.dev/probe"
    assert event["metadata"]["namespace"] == "shop"


def test_an_event_about_an_object_in_no_namespace_is_in_default(kube: FakeApiServer) -> None:
    EventsAtOnce(kube, "probe").about("v1", "Node").post({"name": "node-1", "uid": "u"}, "Reason", "note")
    (event,) = kube.objects("events")
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["regarding"]


def test_an_event_about_a_long_name_has_a_name_that_is_taken(kube: FakeApiServer) -> None:
    name = "a." * 126 + "a"
    EventsAtOnce(kube, "x").about("v1", "Pod").post(POD | {"name": name}, "Reason", "note")
    (event,) = kube.objects("events")
    assert len(event["metadata"]["name"]) <= 253
    assert ".." not in event["metadata"]["name"]
    assert event["regarding"]["name"] == name


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "no"), KubeUnreachable("down")])
def test_an_event_that_cannot_be_posted_is_let_go(kube: FakeApiServer, error: Exception) -> None:
    kube.fail(error)
    EventsAtOnce(kube, "x").about("v1", "Pod").post(POD, "Reason", "note")
    assert kube.objects("events") == []
