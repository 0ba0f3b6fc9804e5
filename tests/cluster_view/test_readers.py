"""Readers: what is hostile or makes no sense harms nothing else, and acts on no terminal."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_view.decisions import read_event
from cluster_view.readers import read_node, read_pod
from cluster_view.sources import Sources
from cluster_view.state import State
from cluster_view.text import LONGEST, plain
from surgekit.kube.table import Table
from surgekit.kube.watch import Watch
from tests.cluster_view import objects
from tests.readers import hostile_objects
from tests.readers.hostile_objects import ODD_TEXTS, Json, spoilt
from tests.readers.test_readers_are_total import KUBE, feed, often

Original = Callable[[], Json]


def node_plan() -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "NodePlan",
        "metadata": hostile_objects.metadata("fcma"),
        "spec": {},
        "status": {
            "mode": "shadow", "phase": "Shadow", "plan": "abc", "currency": "USD", "costPerHour": 0.4,
            "lowerBoundPerHour": 0.3, "observedTime": "2026-01-01T00:00:00Z",
            "nodes": [{"claim": "c", "instanceClass": "m5.large", "pricePerHour": 0.4, "pods": {"k": 2}}],
            "kinds": [{"id": "k", "example": "shop/web-1"}],
            "conditions": [{"type": "Served", "status": "False", "reason": "Shortage", "message": "m"}],
        },
    }  # fmt: skip


def our_event() -> Json:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": hostile_objects.metadata("good"),
        "eventTime": "2026-01-01T00:00:00Z",
        "reportingController": "surgekit.dev/kneescale",
        "reason": "NoData",
        "note": "no sample",
        "regarding": {"kind": "KneePolicy", "namespace": "shop", "name": "web"},
    }


ORIGINALS: dict[str, Original] = {
    "/api/v1/nodes": hostile_objects.node,
    "/api/v1/pods": hostile_objects.pod,
    "/apis/surgekit.dev/v1alpha1/nodespeeds": hostile_objects.speed,
    "/apis/surgekit.dev/v1alpha1/nodeplans": node_plan,
    "/apis/surgekit.dev/v1alpha1/combofuncs": hostile_objects.combofunc,
    "/apis/surgekit.dev/v1alpha1/kneepolicies": hostile_objects.kneepolicy,
    "/apis/surgekit.dev/v1alpha1/burstfunctions": hostile_objects.burst_function,
    "/apis/surgekit.dev/v1alpha1/distributedcontainers": hostile_objects.distributed_container,
    "/apis/events.k8s.io/v1/events": our_event,
}


def watches(sources: Sources) -> dict[str, Watch]:
    return {watch._path: watch for watch in (*sources._required.values(), *sources._optional)}


def test_every_watch_feeds_a_table() -> None:
    found = watches(Sources(KUBE, State("test", {}), ()))
    assert found.keys() == ORIGINALS.keys()
    assert all(isinstance(watch._consumer, Table) for watch in found.values())


@pytest.mark.parametrize("path", ORIGINALS)
@often
@given(data=st.data())
def test_a_spoilt_object_does_not_keep_the_others_from_being_shown(path: str, data: st.DataObject) -> None:
    state = State("test", {})
    sources = Sources(KUBE, state, ("surgekit.dev/price-per-hour",))
    found = watches(sources)
    for other, original in ORIGINALS.items():
        consumer: Any = found[other]._consumer
        if other == path:
            feed(consumer, original(), data.draw(spoilt(original())))
        else:
            consumer.replace([original()], time.monotonic())
    inbox = list(sources._inbox)
    sources._inbox.clear()
    for change in inbox:
        change()  # none raises
    at_s = time.time()
    state.change(at_s)
    said = orjson.dumps(state.snapshot(at_s))
    shown = json.loads(said)
    assert {"good", "n1"} & shown["nodes"].keys()
    assert "shop/good" in shown["pods"]
    assert {"KneePolicy/shop/good", "BurstFunction/shop/good"} <= shown["functions"].keys()
    assert len(said) < 100_000
    assert not any(ord(c) < 32 or c in "\u202e\u2066" for c in "".join(texts(shown)))


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *texts(item))]
    return [text for item in value for text in texts(item)] if isinstance(value, list) else []


@given(st.text(max_size=2 * LONGEST) | st.sampled_from(ODD_TEXTS) | st.integers() | st.none())
def test_text_is_bounded_and_acts_on_no_terminal(value: object) -> None:
    text = plain(value)
    assert len(text) <= LONGEST
    kinds = {unicodedata.category(c) for c in text if c != "\ufffd"}
    assert not kinds & {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}


def test_a_terminals_commands_in_a_message_are_shown_as_marks() -> None:
    pod = objects.pod("a", "", phase="Pending")
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "message": "no \x1b[31mroom\x1b[0m\n<script>"}
    ]
    read = read_pod(pod)
    assert read is not None
    assert read.why == ("not scheduled: no \ufffd[31mroom\ufffd[0m <script>",)


@pytest.mark.parametrize(
    ("labels", "rented_by"),
    [
        ({}, None),
        ({"karpenter.sh/nodepool": "default"}, "Karpenter's pool default"),
        ({"surgekit.dev/pool": "fcma", "karpenter.sh/nodepool": ""}, "surgekit's pool fcma"),
        ({"eks.amazonaws.com/nodegroup": "blue"}, "node group blue"),
    ],
)
def test_who_rented_a_node(labels: dict[str, str], rented_by: str | None) -> None:
    assert read_node(objects.node("n", labels)).rented_by == rented_by


@pytest.mark.parametrize(
    ("pod", "phase"),
    [
        (objects.pod("a"), "Pending"),
        (objects.pod("a", "n"), "Creating"),
        (objects.pod("a", "n", ready_s=objects.START_S), "Ready"),
        (objects.pod("a", "n", ready_s=objects.START_S, deleting=True), "Terminating"),
        (objects.pod("a", "n", phase="Failed"), "Failed"),
        (
            objects.pod("a", "n", containerStatuses=[{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]),
            "Failed",
        ),
    ],
)
def test_phases(pod: Json, phase: str) -> None:
    read = read_pod(pod)
    assert read is not None
    assert read.phase == phase


def test_a_pod_that_has_ended_holds_nothing() -> None:
    assert read_pod(objects.pod("a", "n", phase="Succeeded")) is None
    failed = read_pod(objects.pod("a", "n", phase="Failed"))
    assert failed is not None
    assert (failed.cpu, failed.memory) == (0.0, 0.0)


def test_only_events_of_our_parts_are_decisions() -> None:
    told = read_event(our_event())
    assert told is not None
    assert (told.part, told.sentence) == ("hpa_replacement", "NoData: no sample")
    assert read_event(our_event() | {"reportingController": "kubelet"}) is None
    assert read_event(our_event() | {"reason": "Rescaled"}) is None
