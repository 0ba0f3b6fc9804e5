"""A leader releases gated pods to their nodes, or hands them over to Karpenter."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cluster_autoscaler_hook.karpenter.labels import CAPACITY_TYPE, GATE
from cluster_autoscaler_hook.karpenter.model import ClusterNode, Kind, PendingPod, Requirement
from surgekit.kube.client import ApiError
from surgekit.process.modes import Mode
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, pending
from tests.cluster_autoscaler_hook.karpenter.leader import (
    KIND,
    claims_of,
    gated_pods,
    gates_of,
    hand_over_notes,
    launch,
    make_nodes_ready,
    object_of,
    plan_of,
    session_of,
)
from tests.fake_api_server.server import FakeApiServer


def test_a_pod_is_nominated_and_ungated_once_its_node_is_ready(kube: FakeApiServer) -> None:
    session, source = session_of(kube)
    source.pending = gated_pods(kube, *pending(KIND, 2))
    session.step()
    assert all(gates_of(kube, pod) for pod in source.pending), "they wait while the nodes are prepared"
    make_nodes_ready(kube, source)
    session.step()
    for pod in source.pending:
        assert object_of(kube, pod)["status"]["nominatedNodeName"].startswith("node-fcma-")
        assert gates_of(kube, pod) == []
    assert not hand_over_notes(kube), "these pods are not Karpenter's"


def test_a_release_is_written_once_and_again_if_it_was_lost(
    kube: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that is late shows the gate for a while; a write that was lost shows it for longer."""
    session, source = session_of(kube)
    source.pending = gated_pods(kube, *pending(KIND, 1))
    session.step()
    make_nodes_ready(kube, source)

    def nominations() -> int:
        return sum("/pods/" in call.path and call.path.endswith("/status") for call in kube.writes)

    for _ in range(3):
        session.step()
    assert nominations() == 1
    later = time.time() + 3
    monkeypatch.setattr(time, "time", lambda: later)
    session.step()
    assert nominations() == 2


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OFF])
def test_a_hook_that_does_not_rent_hands_over_every_gated_pod(kube: FakeApiServer, mode: Mode) -> None:
    session, source = session_of(kube, mode=mode)
    source.pending = gated_pods(kube, *pending(KIND, 3))
    session.step()
    assert [gates_of(kube, pod) for pod in source.pending] == [[], [], []]
    assert len(hand_over_notes(kube)) == 3
    assert plan_of(kube)["mode"] == mode
    assert plan_of(kube)["gating"] is False
    session.step()
    assert len(hand_over_notes(kube)) == 3, "said once, though the watch has not told of it yet"


def test_pods_nobody_will_plan_for_are_handed_over_and_the_others_served(kube: FakeApiServer) -> None:
    spot = Kind(900, GIB, ((Requirement(CAPACITY_TYPE, "In", ("spot",)),),))
    strange = Kind(900, GIB, ((Requirement("disk", "In", ("ssd",)),),))
    gpu = PendingPod("gpu", "default", "gpu", None, "a request for nvidia.com/gpu", gates=("other", GATE))
    session, source = session_of(kube)
    ours = pending(KIND, 2)
    source.pending = gated_pods(kube, *ours, gpu, *pending(spot, 1, "spot"), *pending(strange, 1, "strange"))
    session.step()
    assert len(claims_of(kube)) == 2
    assert [gates_of(kube, pod) for pod in source.pending] == [
        [GATE],
        [GATE],
        ["other"],
        [],
        [],
    ]
    said = " ".join(hand_over_notes(kube))
    for word in ("nvidia.com/gpu", "allows no class", "the node label disk"):
        assert word in said
    assert plan_of(kube)["waitingPods"] == 2


def test_pods_are_handed_over_when_nothing_can_be_planned_for_too_long(
    kube: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, source = session_of(kube, catalogue=tmp_path / "missing.yaml")
    source.pending = gated_pods(kube, *pending(KIND, 1))
    session.step()
    assert gates_of(kube, source.pending[0]) == [GATE]
    assert plan_of(kube)["gating"] is False, "no more pods are gated meanwhile"
    later = time.time() + 301
    monkeypatch.setattr(time, "time", lambda: later)
    kube.fail(ApiError(500, "Busy", "not now"), when=lambda call: call.writes and "/pods/" in call.path)
    session.step()
    assert gates_of(kube, source.pending[0]) == [GATE]
    monkeypatch.setattr(time, "time", lambda: later + 3)
    session.step()
    assert gates_of(kube, source.pending[0]) == []
    assert "waited 304 s" in hand_over_notes(kube)[0]


def test_a_pod_that_no_node_takes_is_not_rented_for_without_end(kube: FakeApiServer) -> None:
    """As when the nodes of a class are not what the catalogue says."""
    session, source = session_of(kube)
    source.pending = gated_pods(kube, *pending(KIND, 1))
    for _ in range(40):
        session.step()
        for claim in claims_of(kube):
            launch(kube, claim)
            name = claim["metadata"]["name"]
            source.nodes[name] = ClusterNode(name, name, "c5.large", {}, 0, 0, 0, ready=True, workload_pods=1)
        if not gates_of(kube, source.pending[0]):
            break
    assert len(claims_of(kube)) == 5
    assert gates_of(kube, source.pending[0]) == []
    assert "5 plans rented for it" in " ".join(hand_over_notes(kube))
