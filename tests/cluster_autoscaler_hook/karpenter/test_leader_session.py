"""A leader plans, rents, and takes over: a fault leaves nothing half-done."""

from __future__ import annotations

import pytest

from cluster_autoscaler_hook.karpenter import claims
from surgekit.kube.client import ApiError
from surgekit.process.modes import Mode
from tests.cluster_autoscaler_hook.karpenter.builders import pending
from tests.cluster_autoscaler_hook.karpenter.leader import (
    KIND,
    claims_of,
    give_up_launching,
    message_of,
    plan_of,
    session_of,
)
from tests.fake_api_server.server import Call, FakeApiServer


def creates_claim(call: Call) -> bool:
    return call.method == "POST" and call.path == claims.PATH


def test_a_plan_is_written_down_and_carried_out_once(kube: FakeApiServer) -> None:
    session, _ = session_of(kube)
    for _ in range(3):
        session.step()
    assert len(claims_of(kube)) == 4
    assert plan_of(kube)["phase"] == "Launched"
    assert plan_of(kube)["plannedNodes"] == 4


def test_a_replica_that_takes_over_in_the_middle_makes_the_same_claims(kube: FakeApiServer) -> None:
    made, alive = 0, False

    def dies_after_two(call: Call) -> bool:
        nonlocal made
        made += creates_claim(call)
        return made > 2 and not alive

    kube.fail(ApiError(500, "Dead", "the first replica is dead"), 1000, dies_after_two)
    first, _ = session_of(kube)
    with pytest.raises(ApiError):
        first.step()
    assert len(claims_of(kube)) == 2
    assert plan_of(kube)["phase"] == "Launching"
    wanted = {node["claim"] for node in plan_of(kube)["nodes"]}
    alive = True
    second, _ = session_of(kube, solver=lambda _: pytest.fail("the plan was made already"))
    second.step()
    assert {c["metadata"]["name"] for c in claims_of(kube)} == wanted
    assert plan_of(kube)["phase"] == "Launched"


def test_a_claim_that_is_refused_is_tried_again_and_the_others_stand(kube: FakeApiServer) -> None:
    kube.fail(ApiError(422, "Invalid", "not today"), when=creates_claim)
    session, _ = session_of(kube)
    session.step()
    assert len(claims_of(kube)) == 3
    assert "not today" in message_of(kube)
    session.step()
    assert len(claims_of(kube)) == 4


def test_insufficient_capacity_means_planning_without_the_class(kube: FakeApiServer) -> None:
    session, source = session_of(kube)
    session.step()
    first = {claims.read_claim(c).instance_class for c in claims_of(kube)}
    session.step()  # the watch tells of the claims
    give_up_launching(kube, source)
    session.step()
    assert len(claims_of(kube)) == 4
    assert not first & {claims.read_claim(c).instance_class for c in claims_of(kube)}
    assert {u["instanceClass"] for u in plan_of(kube)["unavailable"]} == first


def test_shadow_and_a_lost_lease_make_no_claim(kube: FakeApiServer) -> None:
    shadow, source = session_of(kube, mode=Mode.SHADOW)
    source.pending = pending(KIND, 4, gates=(), opt_in="shadow", unschedulable=True)
    shadow.step()
    assert plan_of(kube)["phase"] == "Shadow"
    assert plan_of(kube)["costPerHour"] > 0
    lost, _ = session_of(kube, held=False)
    lost.step()
    assert not claims_of(kube)


def test_a_new_leader_says_its_mode_at_once_and_keeps_the_last_plan_to_be_read(kube: FakeApiServer) -> None:
    first, _ = session_of(kube)
    first.step()
    assert plan_of(kube)["mode"] == "enforce"
    plan = plan_of(kube)["plan"]
    second, source = session_of(kube, mode=Mode.SHADOW)
    source.pending = ()
    second.step()
    assert plan_of(kube)["mode"] == "shadow"
    assert plan_of(kube)["plan"] == plan
    assert plan_of(kube)["waitingPods"] == 0


def test_pods_that_vanish_leave_a_plan_that_is_not_made(kube: FakeApiServer) -> None:
    session, source = session_of(kube, pods=0)
    session.step()
    assert not claims_of(kube)
    source.pending = pending(KIND, 1)
    session.step()
    assert len(claims_of(kube)) == 1


def test_a_session_that_ends_stops_gating(kube: FakeApiServer) -> None:
    session, _ = session_of(kube)
    session.step()
    assert plan_of(kube)["gating"] is True
    session.stop()
    assert plan_of(kube)["gating"] is False
