"""Functions are asked for other sizes before nodes are rented, once, and for a few seconds."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.karpenter.labels import GATE, SIZE_LABEL, SIZE_OFFER_ANNOTATION
from cluster_autoscaler_hook.karpenter.model import Kind, PendingPod, SizeOffer, SizeOption
from cluster_autoscaler_hook.karpenter.records import pending, read_pod
from cluster_autoscaler_hook.karpenter.size_offers import read_offer
from cluster_autoscaler_hook.karpenter.size_requests import HELD_REASON, read_requests
from cluster_autoscaler_hook.solver.solve import solve
from surgekit.process.modes import Mode
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, pod
from tests.cluster_autoscaler_hook.karpenter.leader import claims_of, gated_pods, plan_of, session_of
from tests.fake_api_server.server import FakeApiServer

Json = dict[str, Any]
# By the shipped table one large pod takes most of a 2xlarge; four small ones fit an xlarge.
SMALL, LARGE = SizeOption("small", 900, GIB, 2), SizeOption("large", 4100, 4 * GIB, 4)


def offering(
    count: int, size: SizeOption = LARGE, need: int = 8, batch: str = "b1"
) -> tuple[PendingPod, ...]:
    offer = SizeOffer("uid-f", batch, need, 50, size.name, (SMALL, LARGE))
    kind = Kind(size.cpu_millicores, size.memory_bytes)
    return tuple(
        PendingPod(f"{batch}-{i}", "default", f"{batch}-{i}", kind, gates=(GATE,), offer=offer)
        for i in range(count)
    )


def price(problem: Any) -> Any:
    return solve(problem, 0.3)


def test_cheaper_sizes_are_asked_for_and_nothing_is_rented_meanwhile(
    kube: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, source = session_of(kube, solver=price)
    source.pending = gated_pods(kube, *offering(2))
    session.step()
    later_s = time.monotonic() + 2  # reports come a second apart
    monkeypatch.setattr(time, "monotonic", lambda: later_s)
    session.step()
    (request,) = plan_of(kube)["sizeRequests"]
    assert (request["function"], request["batch"], request["sizes"]) == ("uid-f", "b1", {"small": 4})
    assert claims_of(kube) == []
    assert {group["reason"] for group in plan_of(kube)["waiting"]} == {HELD_REASON}


def test_the_pods_that_answer_are_planned_for(kube: FakeApiServer) -> None:
    session, source = session_of(kube, solver=price)
    source.pending = gated_pods(kube, *offering(2))
    session.step()
    answer = [replace(one, offer=None) for one in offering(4, SMALL, batch="chosen")]
    source.pending = gated_pods(kube, *answer)
    for _ in range(2):
        session.step()
    assert claims_of(kube)
    assert sum(sum(node["pods"].values()) for node in plan_of(kube)["nodes"]) == 4


def test_without_an_answer_the_pods_are_planned_for_as_they_are(
    kube: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, source = session_of(kube, solver=price)
    source.pending = gated_pods(kube, *offering(2))
    session.step()
    assert claims_of(kube) == []
    later, later_s = time.time() + 21, time.monotonic() + 21
    monkeypatch.setattr(time, "time", lambda: later)
    monkeypatch.setattr(time, "monotonic", lambda: later_s)
    for _ in range(2):
        session.step()
    assert claims_of(kube), "rented for two large pods"
    assert plan_of(kube)["sizeRequests"] == []


def test_a_new_leader_does_not_ask_again(kube: FakeApiServer) -> None:
    session, source = session_of(kube, solver=price)
    source.pending = gated_pods(kube, *offering(2))
    session.step()
    until = plan_of(kube)["sizeRequests"][0]["until"]
    again, later = session_of(kube, solver=price)
    later.pending = source.pending
    again.step()
    assert claims_of(kube) == []
    assert plan_of(kube)["sizeRequests"][0]["until"] == until


def test_in_shadow_nothing_is_asked(kube: FakeApiServer) -> None:
    session, source = session_of(kube, solver=price, mode=Mode.SHADOW)
    source.pending = tuple(replace(one, gates=(), unschedulable=True, opt_in="shadow") for one in offering(2))
    session.step()
    assert plan_of(kube)["sizeRequests"] == []
    assert plan_of(kube)["phase"] == "Shadow"


def test_a_pod_that_is_not_what_its_offer_says_is_planned_for_as_it_is(kube: FakeApiServer) -> None:
    session, source = session_of(kube, solver=price)
    other = [replace(one, kind=Kind(4000, 4 * GIB)) for one in offering(2)]
    source.pending = gated_pods(kube, *other)
    session.step()
    assert plan_of(kube)["sizeRequests"] == []
    assert claims_of(kube)


# --- what is written on pods, by anybody ---


def offer_text(**changes: Any) -> str:
    sizes = [
        {"name": s.name, "cpuMillicores": s.cpu_millicores, "memoryBytes": s.memory_bytes,
         "concurrency": s.concurrency}
        for s in (SMALL, LARGE)
    ]  # fmt: skip
    return json.dumps({"batch": "b1", "need": 8, "mostPods": 50, "sizes": sizes} | changes)


def offering_pod(text: object, **owner: Any) -> Json:
    obj = pod()
    owned = {"apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc", "uid": "uid-f", "controller": True}
    obj["metadata"] |= {
        "ownerReferences": [owned | owner],
        "annotations": {SIZE_OFFER_ANNOTATION: text},
        "labels": {SIZE_LABEL: "large"},
    }
    return obj


def test_an_offer_is_read_from_the_pods_of_combofuncs_only() -> None:
    assert read_offer(offering_pod(offer_text())) == SizeOffer("uid-f", "b1", 8, 50, "large", (SMALL, LARGE))
    assert read_offer(offering_pod(offer_text(), kind="ReplicaSet")) is None
    assert read_offer(offering_pod(offer_text(), controller=False)) is None
    record = read_pod(offering_pod(offer_text()), "fcma")
    assert record is not None
    (one,) = pending([record], {})
    assert one.offer is not None


@pytest.mark.parametrize(
    "text",
    [
        None, 7, "", "null", "[]", "{", "[" * 20_000, "7" * 6000, '{"batch": "b1"}',
        offer_text(need=0), offer_text(need=True), offer_text(need=1e3), offer_text(need=10**30),
        offer_text(mostPods=0), offer_text(batch=""), offer_text(batch="x" * 64),
        offer_text(sizes=[]), offer_text(sizes={"a": 1}),
        offer_text(sizes=[{"name": "large", "cpuMillicores": -1, "memoryBytes": 1, "concurrency": 1}]),
        offer_text(sizes=[{"name": "large", "cpuMillicores": 1, "memoryBytes": 1, "concurrency": 1}] * 2),
    ],
)  # fmt: skip
def test_an_offer_that_makes_no_sense_is_none(text: object) -> None:
    assert read_offer(offering_pod(text)) is None


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_whatever_is_written_is_read_or_is_none(value: Any) -> None:
    read_offer(offering_pod(json.dumps(value)))
    read_offer(offering_pod(offer_text(sizes=value)))
    read_offer(offering_pod(offer_text(need=value)))


def test_requests_of_another_leader_that_cannot_be_read_were_not_made() -> None:
    good = {"namespace": "n", "function": "f", "batch": "b", "sizes": {"s": 1}}
    entries = [good | {"until": "2026-01-01T00:00:00Z"}, good, good | {"until": 7}, {}, None, 7]
    assert Counter(request.batch for request in read_requests({"sizeRequests": entries})) == {"b": 1}
