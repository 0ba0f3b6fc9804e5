"""A leader posts an Event for what a user must know, once."""

from __future__ import annotations

from pathlib import Path

from cluster_autoscaler_hook.karpenter import claims
from cluster_autoscaler_hook.karpenter.model import PendingPod
from cluster_autoscaler_hook.solver.model import InvalidProblem, Problem, Solution
from tests.cluster_autoscaler_hook.karpenter.builders import pending
from tests.cluster_autoscaler_hook.karpenter.leader import (
    KIND,
    claims_of,
    events,
    give_up_launching,
    session_of,
)
from tests.fake_api_server.server import FakeApiServer


def test_a_class_that_is_left_out_is_an_event(kube: FakeApiServer) -> None:
    session, source = session_of(kube)
    session.step()
    refused = claims.read_claim(claims_of(kube)[0])
    give_up_launching(kube, source, refused.name)
    session.step()
    ((reason, note),) = events(kube)
    assert reason == "ClassLeftOut"
    assert refused.instance_class in note
    assert refused.name in note


def test_what_a_user_must_know_is_an_event_once(kube: FakeApiServer) -> None:
    session, source = session_of(kube, max_nodes=1)
    gpu = PendingPod("gpu", "shop", "gpu-0", None, "a request for nvidia.com/gpu", "enforce", (), True)
    source.pending = (*pending(KIND, 2), gpu)
    for _ in range(3):
        session.step()
    said = dict(events(kube))
    assert said["PodsNotPlanned"] == (
        "1 pods are left to Karpenter (shop/gpu-0 is one): a request for nvidia.com/gpu"
    )
    assert "1 pods that request 900m/3072Mi: max_nodes is 1" in said["PodsWithoutNode"]
    assert len(events(kube)) == 2


def test_a_plan_that_fails_is_an_event_and_so_is_the_next_failure(
    kube: FakeApiServer, tmp_path: Path
) -> None:
    def fail(_problem: Problem) -> Solution:
        raise InvalidProblem("no such thing")

    failing, _ = session_of(kube, solver=fail)
    failing.step()
    blind, _ = session_of(kube, catalogue=tmp_path / "missing.yaml")
    blind.step()
    said = dict(events(kube))
    assert "no such thing" in said["PlanFailed"]
    assert "missing.yaml" in said["CatalogueUnusable"]
