"""Plans follow from what the API server has: nothing is rented twice, limits hold, restarts go on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.karpenter.claims import claim_object, read_claim
from cluster_autoscaler_hook.karpenter.labels import ARCHITECTURE, ZONE
from cluster_autoscaler_hook.karpenter.model import (
    Claim,
    ClusterNode,
    ClusterView,
    Kind,
    Plan,
    PlannedNode,
    Requirement,
)
from cluster_autoscaler_hook.karpenter.plan import make_plan, resume, rooms_of, unplaced
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.solver.model import Problem, Solution
from cluster_autoscaler_hook.solver.verifier import VerificationError
from tests.cluster_autoscaler_hook.karpenter.builders import (
    GIB,
    KNOWN,
    MARKET,
    OFFERS,
    market,
    offer,
    solve,
    waiting,
)

SETTINGS = Settings()
KIND, BIG = Kind(900, GIB), Kind(1800, 3 * GIB)


def claims_of(plan: Plan, only: int | None = None) -> tuple[Claim, ...]:
    """What the API server has after the plan's claims (the first `only`) were made."""
    made = plan.nodes if only is None else plan.nodes[:only]
    return tuple(read_claim(claim_object(node, plan.kinds, plan.id, SETTINGS)) for node in made)


def total(nodes: tuple[PlannedNode, ...]) -> Counter[str]:
    served: Counter[str] = Counter()
    for node in nodes:
        served.update(node.pods)
    return served


def node_for(claim: Claim, used_cpu_millicores: int = 0, **rest: object) -> ClusterNode:
    offer = KNOWN[claim.instance_class]
    return ClusterNode(
        f"node-{claim.name}", claim.provider_id, offer.name, offer.labels, offer.cpu_millicores,
        offer.memory_bytes, offer.pods, used_cpu_millicores=used_cpu_millicores, **rest,  # type: ignore[arg-type]
    )  # fmt: skip


@given(st.integers(1, 25), st.integers(0, 8), st.data())
def test_a_restart_in_the_middle_makes_the_rest_and_nothing_twice(
    small: int, big: int, data: st.DataObject
) -> None:
    view = ClusterView(waiting=waiting(KIND, small) + waiting(BIG, big))
    plan = make_plan(view, MARKET, SETTINGS, solve).action
    assert total(plan.nodes)[KIND.id] >= small
    made = data.draw(st.integers(0, len(plan.nodes)))
    after = replace(view, claims=claims_of(plan, made))
    rest = resume(plan.nodes, after, KNOWN, "fcma").action
    assert {n.claim for n in rest.nodes} == {n.claim for n in plan.nodes[made:]}
    # All there: nothing is left to plan for.
    done = replace(view, claims=claims_of(plan))
    assert make_plan(done, MARKET, SETTINGS, solve).action.nodes == ()


def test_without_the_note_a_restart_still_serves_everybody_once() -> None:
    view = ClusterView(waiting=waiting(KIND, 9))
    plan = make_plan(view, MARKET, SETTINGS, solve).action
    after = replace(view, claims=claims_of(plan, 1))
    again = make_plan(after, MARKET, SETTINGS, solve).action
    assert total(plan.nodes[:1]) + total(again.nodes) == total(plan.nodes)


def test_a_plan_whose_pods_are_gone_is_not_resumed() -> None:
    view = ClusterView(waiting=waiting(KIND, 9))
    plan = make_plan(view, MARKET, SETTINGS, solve).action
    assert resume(plan.nodes, ClusterView(waiting=waiting(KIND, 1)), KNOWN, "fcma").action.nodes == ()


def test_the_same_plan_has_the_same_names() -> None:
    view = ClusterView(waiting=waiting(KIND, 9))
    assert make_plan(view, MARKET, SETTINGS, solve) == make_plan(view, MARKET, SETTINGS, solve)


def test_what_fits_running_nodes_is_not_rented_for() -> None:
    claim = Claim("a", "medium", {}, 0.0, provider_id="p", launched=True)
    view = ClusterView(waiting=waiting(KIND, 4), claims=(claim,), nodes={"node-a": node_for(claim)})
    assert make_plan(view, MARKET, SETTINGS, solve).action.nodes == ()
    busy = replace(view, nodes={"node-a": node_for(claim, used_cpu_millicores=2300)})
    assert total(make_plan(busy, MARKET, SETTINGS, solve).action.nodes)[KIND.id] >= 3
    going = replace(view, nodes={"node-a": node_for(claim, deleting=True)})
    assert total(make_plan(going, MARKET, SETTINGS, solve).action.nodes)[KIND.id] >= 4


def test_pods_that_stay_apart_do_not_share_a_room() -> None:
    apart, larger = Kind(100, GIB, exclusive=("x",)), Kind(200, GIB, exclusive=("x", "y"))
    claim = Claim("a", "medium", {apart.id: 1}, 0.0)
    pods = waiting(apart, 3) + waiting(larger, 1)
    counts, placed = unplaced(pods, rooms_of(ClusterView(claims=(claim,)), KNOWN, "fcma"))
    assert counts == {apart: 2, larger: 1}
    assert list(placed.values()) == ["a"]
    # Whatever is on a node already counts as well.
    there = Claim("b", "medium", {}, 0.0, provider_id="p", launched=True)
    taken = node_for(there, exclusive=frozenset({"y"}))
    rooms = rooms_of(ClusterView(claims=(there,), nodes={taken.name: taken}), KNOWN, "fcma")
    assert unplaced(waiting(larger, 1), rooms)[0] == {larger: 1}


def test_pods_that_name_a_zone_get_claims_in_it() -> None:
    settings = replace(SETTINGS, zones=("a", "b"))
    in_b = Kind(900, GIB, ((Requirement(ZONE, "In", ("b",)),),))
    not_b = Kind(900, GIB, ((Requirement(ZONE, "NotIn", ("b",)),),))
    view = ClusterView(waiting=waiting(in_b, 3) + waiting(not_b, 3) + waiting(KIND, 3))
    plan = make_plan(view, MARKET, settings, solve).action
    for node in plan.nodes:
        assert node.zone in ("a", "b")
        assert node.zone == "b" or in_b.id not in node.pods
        assert node.zone == "a" or not_b.id not in node.pods
    served = total(plan.nodes)
    assert all(served[kind.id] >= 3 for kind in (in_b, not_b, KIND))
    # What is on its way is in the zone that the claim names.
    done = replace(view, claims=claims_of(plan))
    assert make_plan(done, MARKET, settings, solve).action.nodes == ()


def test_without_a_wish_for_a_zone_the_provider_chooses() -> None:
    settings = replace(SETTINGS, zones=("a", "b"))
    view = ClusterView(waiting=waiting(KIND, 3))
    plan = make_plan(view, MARKET, settings, solve).action
    assert {node.zone for node in plan.nodes} == {""}
    body = claim_object(plan.nodes[0], plan.kinds, plan.id, settings)
    assert {"key": ZONE, "operator": "In", "values": ["a", "b"]} in body["spec"]["requirements"]
    # Which of them it is is not known before the node is there.
    picky = Kind(100, GIB, ((Requirement(ZONE, "NotIn", ("a",)),),))
    rooms = rooms_of(ClusterView(claims=claims_of(plan)), KNOWN, "fcma")
    assert unplaced(waiting(picky, 1), rooms)[0] == {picky: 1}


def test_pods_that_name_no_architecture_get_none_that_the_cluster_lacks() -> None:
    cheap = offer("arm", 4, 8, 0.01, arch="arm64")
    plain = replace(KIND, architectures=frozenset({"amd64"}))
    asks = replace(plain, terms=((Requirement(ARCHITECTURE, "In", ("arm64",)),),))
    plan = make_plan(ClusterView(waiting=waiting(plain, 3)), market(*OFFERS, cheap), SETTINGS, solve).action
    assert plan.nodes
    assert "arm" not in {node.instance_class for node in plan.nodes}
    asked = make_plan(ClusterView(waiting=waiting(asks, 3)), market(*OFFERS, cheap), SETTINGS, solve).action
    assert {node.instance_class for node in asked.nodes} == {"arm"}
    # Nor room on a node of ours that is there for others.
    arm = Claim("a", "arm", {}, 0.0)
    rooms = rooms_of(ClusterView(claims=(arm,)), KNOWN | {"arm": cheap}, "fcma")
    assert unplaced(waiting(plain, 1), rooms)[0] == {plain: 1}


@given(st.integers(1, 40), st.integers(0, 6), st.floats(0, 2).map(lambda x: round(x, 2)), st.integers(0, 30))
def test_limits_hold_and_what_is_cut_is_said(
    pods: int, max_nodes: int, max_cost: float, max_cpu: int
) -> None:
    settings = Settings(max_nodes=max_nodes, max_cost_per_hour=max_cost, max_cpu=float(max_cpu))
    old = Claim("old", "small", {}, 0.0, launched=True)
    view = ClusterView(waiting=waiting(BIG, pods), claims=(old,))
    plan = make_plan(view, MARKET, settings, solve).action
    if plan.nodes:
        assert 1 + len(plan.nodes) <= max_nodes
        assert 0.1 + plan.cost_per_hour <= max_cost + 1e-6
        assert 2 + sum(KNOWN[n.instance_class].cpu_millicores for n in plan.nodes) / 1000 <= max_cpu
    short = sum(s.pods for s in plan.shortages)
    fitting_old = 1  # one big pod fits the old node
    assert total(plan.nodes)[BIG.id] + short >= pods - fitting_old


def test_a_class_that_cannot_be_had_is_done_without() -> None:
    view = ClusterView(waiting=waiting(KIND, 8))
    plan = make_plan(view, MARKET, SETTINGS, solve).action
    used = {node.instance_class for node in plan.nodes}
    again = make_plan(view, market(*OFFERS, left_out=[*used]), SETTINGS, solve).action
    assert again.nodes
    assert not used & {node.instance_class for node in again.nodes}
    nothing = make_plan(view, market(*OFFERS, left_out=[*KNOWN]), SETTINGS, solve).action
    assert not nothing.nodes
    assert nothing.shortages[0].pods == 8


def test_a_claim_whose_class_the_catalogue_lost_is_not_rented_for_twice() -> None:
    view = ClusterView(waiting=waiting(KIND, 8))
    plan = make_plan(view, MARKET, SETTINGS, solve).action
    used = {node.instance_class for node in plan.nodes}
    rest = market(*(offer for offer in OFFERS if offer.name not in used))
    assert make_plan(replace(view, claims=claims_of(plan)), rest, SETTINGS, solve).action.nodes == ()


def test_a_pod_stays_with_the_node_it_is_nominated_for() -> None:
    claim = Claim("a", "small", {KIND.id: 2}, 0.0, provider_id="p", launched=True)
    node = node_for(claim)
    pods = waiting(KIND, 4)
    pods = (*pods[:2], *(replace(pod, nominated=node.name) for pod in pods[2:]))
    view = ClusterView(waiting=pods, claims=(claim,), nodes={node.name: node})
    for order in (pods, tuple(reversed(pods))):
        _, placed = unplaced(order, rooms_of(view, KNOWN, "fcma"))
        assert set(placed) == {pod.uid for pod in pods[2:]}


def test_a_solver_that_fails_is_no_basis_for_renting() -> None:
    def fail(_: Problem) -> Solution:
        raise VerificationError("node 0: too full")

    view = ClusterView(waiting=waiting(KIND, 2), ages_s={"pods": 1.5})
    decision = make_plan(view, MARKET, SETTINGS, fail)
    assert (decision.valid, decision.action) == (False, Plan())
    assert decision.reasons == ("solver: node 0: too full",)
    assert decision.inputs_age_s == {"pods": 1.5}


def test_pods_without_any_class_are_a_shortage_and_the_decision_is_valid() -> None:
    view = ClusterView(waiting=waiting(Kind(99000, GIB), 2), ages_s={"pods": 1.5})
    decision = make_plan(view, MARKET, SETTINGS, solve)
    assert decision.valid
    assert [(s.pods, decision.inputs_age_s) for s in decision.action.shortages] == [(2, {"pods": 1.5})]
    nothing = make_plan(ClusterView(ages_s={"pods": 1.5}), MARKET, SETTINGS, solve)
    assert (nothing.valid, nothing.action, nothing.inputs_age_s) == (True, Plan(), {"pods": 1.5})
