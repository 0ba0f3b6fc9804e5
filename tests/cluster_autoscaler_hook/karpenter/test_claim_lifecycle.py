"""Pods released to their nodes, claims removed, pods handed over to Karpenter."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from cluster_autoscaler_hook.karpenter.claim_lifecycle import (
    ClaimActions,
    History,
    WaitHistory,
    reconcile_claims,
)
from cluster_autoscaler_hook.karpenter.labels import CAPACITY_TYPE, ZONE
from cluster_autoscaler_hook.karpenter.model import (
    Claim,
    ClusterNode,
    ClusterView,
    Kind,
    Market,
    Offer,
    Requirement,
)
from cluster_autoscaler_hook.karpenter.settings import Settings
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, KNOWN, MARKET, OFFERS, waiting

SETTINGS = Settings(empty_after_s=30.0, launch_timeout_s=60.0)
KIND = Kind(900, GIB)
NOW = 1000.0


def claim(name: str, planned: dict[str, int] | None = None, **rest: object) -> Claim:
    return Claim(name, "medium", planned or {}, NOW - 10, f"p-{name}", launched=True, **rest)  # type: ignore[arg-type]


def node(name: str, **rest: object) -> ClusterNode:
    offer = KNOWN["medium"]
    return ClusterNode(
        f"node-{name}", f"p-{name}", "medium", offer.labels, offer.cpu_millicores, offer.memory_bytes, 110,
        ready=True, **rest,  # type: ignore[arg-type]
    )  # fmt: skip


def view(*claims: Claim, pods: int = 0, **nodes: ClusterNode) -> ClusterView:
    return ClusterView(waiting=waiting(KIND, pods), claims=claims, nodes={n.name: n for n in nodes.values()})


def look(seen: ClusterView, empty: dict[str, float] | None = None, now: float = NOW) -> ClaimActions:
    return reconcile_claims(seen, MARKET, SETTINGS, History(empty or {}), now)


def test_pods_are_released_to_the_node_they_were_planned_on_once_it_is_there() -> None:
    seen = view(claim("a", {KIND.id: 2}), claim("b", {KIND.id: 3}), pods=5, b=node("b"))
    assert [r.node for r in look(seen).releases] == ["node-b"] * 3  # a has no node yet
    both = view(claim("a", {KIND.id: 2}), claim("b", {KIND.id: 3}), pods=5, a=node("a"), b=node("b"))
    assert sorted(r.node for r in look(both).releases) == ["node-a"] * 2 + ["node-b"] * 3


def test_a_pod_is_released_once() -> None:
    seen = view(claim("a", {KIND.id: 1}), pods=1, a=node("a"))
    for changed in ({"released": True, "nominated": "node-a"}, {"gated": False}):
        done = replace(seen, waiting=tuple(replace(p, **changed) for p in seen.waiting))
        assert look(done).releases == (), changed


def test_a_node_that_is_not_ready_or_goes_gets_no_pods() -> None:
    for bad in (replace(node("a"), ready=False), node("a", deleting=True)):
        assert look(view(claim("a"), pods=1, a=bad)).releases == ()


def test_room_that_released_pods_will_take_is_taken() -> None:
    full = node("a", used_cpu_millicores=3600, used_pods=4, bound={KIND.id: 4})
    assert look(view(claim("a", {KIND.id: 5}), pods=1, a=full)).releases == ()


def test_an_empty_node_goes_after_a_while_and_a_busy_one_does_not() -> None:
    busy = view(claim("a"), a=node("a", workload_pods=1, used_pods=1))
    assert look(busy).removals == ()
    empty = view(claim("a"), a=node("a"))
    waits = look(empty, empty={"a": NOW - 10})
    assert waits.removals == ()
    assert waits.requeue_after_s == pytest.approx(20.0)
    assert [r.claim for r in look(empty, empty={"a": NOW - 31}).removals] == ["a"]


@pytest.mark.parametrize("kept", ["do_not_disrupt", "deleting"])
def test_what_may_not_be_disrupted_stays(kept: str) -> None:
    assert look(view(claim("a"), a=node("a", **{kept: True})), empty={"a": 0.0}).removals == ()


def test_an_empty_node_that_waiting_pods_will_use_stays() -> None:
    assert look(view(claim("a"), pods=1, a=node("a")), empty={"a": 0.0}).removals == ()


def test_a_claim_nobody_needs_any_more_goes_before_it_launches() -> None:
    unlaunched = replace(claim("a", {KIND.id: 4}), launched=False, provider_id="")
    assert [r.claim for r in look(view(unlaunched), empty={"a": NOW - 31}).removals] == ["a"]


def test_a_claim_that_does_not_launch_is_given_up_and_its_class_left_out() -> None:
    failing = replace(
        claim("a", {KIND.id: 1}), launched=False, provider_id="", failure="LaunchFailed: no such type"
    )
    assert look(view(failing, pods=1)).removals == ()
    (removal,) = look(view(failing, pods=1), now=NOW + 60).removals
    assert removal.unavailable_class == "medium"
    # One that Karpenter never looked at (it may be down) stays: there is nothing to learn from it.
    ignored = replace(failing, failure="")
    assert look(view(ignored, pods=1), now=NOW + 3600).removals == ()


def hand_over_reasons(
    kind: Kind, wait: WaitHistory, offered: Collection[Offer] | None = OFFERS, **settings: Any
) -> list[str]:
    """Why the one pod that waits is handed over."""
    seen = ClusterView(waiting=waiting(kind, 1))
    waits = {pod.uid: wait for pod in seen.waiting}
    market = Market(KNOWN, None if offered is None else tuple(offered))
    actions = reconcile_claims(seen, market, replace(SETTINGS, **settings), History(waits=waits), NOW)
    return [pod.reason for pod in actions.hand_overs]


def test_a_pod_that_no_class_can_serve_is_handed_over_at_once() -> None:
    spot = Kind(900, GIB, ((Requirement(CAPACITY_TYPE, "In", ("spot",)),),))
    assert "allows no class" in hand_over_reasons(spot, WaitHistory(NOW))[0]
    assert "the largest class has" in hand_over_reasons(Kind(64000, GIB), WaitHistory(NOW))[0]
    assert hand_over_reasons(KIND, WaitHistory(NOW)) == []
    # Every class it could have is out for now: Karpenter's pools may have others.
    assert hand_over_reasons(KIND, WaitHistory(NOW), offered=())
    # Nothing is known of classes while the catalogue cannot be read: that may pass.
    assert hand_over_reasons(spot, WaitHistory(NOW), offered=None) == []


def test_zones_count_for_who_can_be_served() -> None:
    in_b = Kind(900, GIB, ((Requirement(ZONE, "In", ("b",)),),))
    assert hand_over_reasons(in_b, WaitHistory(NOW), zones=("a", "b")) == []
    assert hand_over_reasons(in_b, WaitHistory(NOW), zones=("a",))


def test_nobody_waits_behind_the_gate_for_ever() -> None:
    assert hand_over_reasons(KIND, WaitHistory(NOW - 299)) == []
    assert "waited 301 s" in hand_over_reasons(KIND, WaitHistory(NOW - 301))[0]
    assert hand_over_reasons(KIND, WaitHistory(NOW - 301), offered=None)
    assert hand_over_reasons(KIND, WaitHistory(NOW, plans=4)) == []
    assert "5 plans" in hand_over_reasons(KIND, WaitHistory(NOW, plans=5))[0]


def test_a_pod_that_has_a_node_on_its_way_waits_for_it() -> None:
    seen = view(replace(claim("a", {KIND.id: 1}), launched=False, provider_id=""), pods=1)
    old = {pod.uid: WaitHistory(0.0, plans=9) for pod in seen.waiting}
    assert reconcile_claims(seen, MARKET, SETTINGS, History(waits=old), NOW).hand_overs == ()


def test_it_looks_again_when_the_first_claim_is_due() -> None:
    both = view(claim("a"), claim("b"), a=node("a"), b=node("b"))
    assert look(both, empty={"a": NOW - 10, "b": NOW - 25}).requeue_after_s == pytest.approx(5.0)
    # Not at once: the clock of the next look may show a little less.
    assert look(both, empty={"a": NOW - 10, "b": NOW - 29.99}).requeue_after_s == pytest.approx(0.05)
    failing = replace(claim("c", {KIND.id: 1}), launched=False, provider_id="", failure="LaunchFailed")
    assert look(view(failing, pods=1)).requeue_after_s == pytest.approx(50.0)
    assert look(view(claim("a"), a=node("a", workload_pods=1))).requeue_after_s is None
    assert [r.claim for r in look(both, empty={"a": NOW - 10, "b": NOW - 30}).removals] == ["b"]
