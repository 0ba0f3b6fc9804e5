"""The NodePlan says what was planned, and is a note to go on from."""

from __future__ import annotations

from cluster_autoscaler_hook.karpenter.model import ClusterView, Kind
from cluster_autoscaler_hook.karpenter.nodeplan import Phase, intended, status_of, unavailable_of
from cluster_autoscaler_hook.karpenter.plan import make_plan
from cluster_autoscaler_hook.karpenter.settings import Settings
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, KNOWN, OFFERS, solve, waiting

KIND, HUGE = Kind(900, GIB), Kind(99000, GIB)
VIEW = ClusterView(waiting(KIND, 5) + waiting(HUGE, 2), left={"required pod affinity": 3})
PLAN = make_plan(VIEW, OFFERS, Settings(), solve)


def status(phase: str, unavailable: dict[str, float] | None = None, trouble: str = "") -> dict[str, object]:
    return status_of(PLAN, phase, VIEW, KNOWN, unavailable or {}, Settings(), "USD", trouble, 1e9)


def test_a_plan_being_carried_out_is_read_back_whole() -> None:
    assert intended({"status": status(Phase.LAUNCHING)}) == PLAN.nodes
    for phase in (Phase.LAUNCHED, Phase.SHADOW, Phase.IDLE):
        assert intended({"status": status(phase)}) == ()
    assert intended({}) == ()
    assert intended({"status": {"phase": Phase.LAUNCHING, "nodes": [{"claim": "x"}]}}) == ()


def test_classes_left_out_are_remembered_until_their_time() -> None:
    obj = {"status": status(Phase.LAUNCHED, {"small": 1e9 + 60})}
    assert unavailable_of(obj, 1e9) == {"small": 1e9 + 60}
    assert unavailable_of(obj, 1e9 + 61) == {}


def test_shortage_and_trouble_are_conditions() -> None:
    said = status(Phase.LAUNCHED)
    assert said["conditions"][0]["reason"] == "Shortage"  # type: ignore[index]
    assert said["left"] == [{"reason": "required pod affinity", "pods": 3}]
    troubled = status(Phase.LAUNCHED, trouble="claims: 404")
    assert troubled["conditions"][0]["message"] == "claims: 404"  # type: ignore[index]
