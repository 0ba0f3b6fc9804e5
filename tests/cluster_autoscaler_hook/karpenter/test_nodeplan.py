"""The NodePlan says what was planned, and is a note to go on from."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from cluster_autoscaler_hook.karpenter.model import ClusterView, Kind, PodGroup
from cluster_autoscaler_hook.karpenter.nodeplan import (
    Phase,
    Report,
    live_fields,
    plan_fields,
    unavailable_classes,
    unfinished_nodes,
)
from cluster_autoscaler_hook.karpenter.plan import make_plan
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.decision import Decision
from surgekit.process.modes import Mode
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, KNOWN, MARKET, solve, waiting

KIND, HUGE = Kind(900, GIB), Kind(99000, GIB)
LEFT, HELD = (
    PodGroup("a request for nvidia.com/gpu", 3, "shop/gpu-0"),
    PodGroup("another gate", 1, "shop/kueue-0"),
)
VIEW = ClusterView(waiting=waiting(KIND, 5) + waiting(HUGE, 2), left_to_karpenter=(LEFT,), held=(HELD,))
DECISION = make_plan(VIEW, MARKET, Settings(zones=("a",)), solve)
PLAN = DECISION.action
# Only what the file says counts here; enforce wants a node class and a catalogue.
ENFORCE = replace(Settings(), zones=("a",))
object.__setattr__(ENFORCE, "mode", Mode.ENFORCE)


def live(
    view: ClusterView = VIEW,
    placed: tuple[str, ...] = (),
    unavailable: dict[str, float] | None = None,
    settings: Settings = ENFORCE,
    catalogue_error: str = "",
    plan_error: str = "",
) -> dict[str, Any]:
    report = Report(view, placed, PLAN, KNOWN, {"a"}, unavailable or {}, "USD", catalogue_error, plan_error)
    return live_fields(report, settings, 1e9)


def test_a_plan_being_carried_out_is_read_back_whole() -> None:
    assert PLAN.nodes
    assert unfinished_nodes({"status": plan_fields(DECISION, Phase.LAUNCHING, ())}) == PLAN.nodes
    for phase in (Phase.LAUNCHED, Phase.SHADOW, Phase.IDLE):
        assert unfinished_nodes({"status": plan_fields(DECISION, phase, ())}) == ()
    assert unfinished_nodes({}) == ()
    assert unfinished_nodes({"status": {"phase": Phase.LAUNCHING, "nodes": [{"claim": "x"}]}}) == ()


def test_classes_left_out_are_remembered_until_their_time() -> None:
    obj = {"status": live(unavailable={"small": 1e9 + 60})}
    assert unavailable_classes(obj, 1e9) == {"small": 1e9 + 60}
    assert unavailable_classes(obj, 1e9 + 61) == {}


def test_whatever_waits_is_counted_and_named_with_what_it_waits_for() -> None:
    said = live(placed=(VIEW.waiting[0].uid,))
    assert said["waitingPods"] == 8
    by_reason = {group["reason"]: (group["pods"], group["example"]) for group in said["waiting"]}
    assert by_reason["its node is being prepared"] == (1, "default/pod-0")
    assert by_reason["the next plan"] == (4, "default/pod-1")
    assert by_reason[PLAN.shortages[0].reason] == (2, "default/pod-0")
    assert by_reason["another gate"] == (1, "shop/kueue-0")
    assert said["left"] == [{"reason": "a request for nvidia.com/gpu", "pods": 3, "example": "shop/gpu-0"}]
    assert said["leftPods"] == 3


def test_new_pods_are_gated_only_while_somebody_plans() -> None:
    assert live()["gating"] is True
    assert live(plan_error="claims: 404")["gating"] is True
    assert live(catalogue_error="catalogue: gone")["gating"] is False
    assert live(settings=Settings())["gating"] is False


def test_shortages_and_errors_are_conditions() -> None:
    (condition,) = live()["conditions"]
    assert condition["reason"] == "Shortage"
    assert condition["message"].startswith("2 pods not served: it requests 99000m")
    assert live(plan_error="claims: 404")["conditions"][0]["message"] == "claims: 404"
    assert (
        live(catalogue_error="catalogue: gone", plan_error="x")["conditions"][0]["message"]
        == "catalogue: gone"
    )
    assert live(ClusterView())["conditions"][0]["reason"] == "NothingToDo"


def test_what_tenants_make_up_does_not_make_the_object_too_large() -> None:
    kinds = [Kind(100 + i, GIB) for i in range(3000)]
    pods = tuple(pod for kind in kinds for pod in waiting(kind, 1))
    plan = replace(PLAN, kinds={kind.id: kind for kind in kinds})
    fields = plan_fields(Decision(plan), Phase.LAUNCHED, pods)
    assert len(json.dumps(fields)) < 100_000
