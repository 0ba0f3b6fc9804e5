"""Plans follow from what the API server has: nothing is rented twice, limits hold, restarts go on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.karpenter.claims import claim_object, read_claim
from cluster_autoscaler_hook.karpenter.model import Claim, ClusterNode, ClusterView, Kind, Plan, PlannedNode
from cluster_autoscaler_hook.karpenter.plan import make_plan, resume, rooms_of, unplaced
from cluster_autoscaler_hook.karpenter.settings import Settings
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, KNOWN, OFFERS, solve, waiting

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
    view = ClusterView(waiting(KIND, small) + waiting(BIG, big))
    plan = make_plan(view, OFFERS, SETTINGS, solve)
    assert total(plan.nodes)[KIND.id] >= small
    made = data.draw(st.integers(0, len(plan.nodes)))
    after = replace(view, claims=claims_of(plan, made))
    rest = resume(plan.nodes, after, KNOWN, "fcma")
    assert {n.claim for n in rest.nodes} == {n.claim for n in plan.nodes[made:]}
    # All there: nothing is left to plan for.
    done = replace(view, claims=claims_of(plan))
    assert make_plan(done, OFFERS, SETTINGS, solve).nodes == ()


def test_without_the_note_a_restart_still_serves_everybody_once() -> None:
    view = ClusterView(waiting(KIND, 9))
    plan = make_plan(view, OFFERS, SETTINGS, solve)
    after = replace(view, claims=claims_of(plan, 1))
    again = make_plan(after, OFFERS, SETTINGS, solve)
    assert total(plan.nodes[:1]) + total(again.nodes) == total(plan.nodes)


def test_a_plan_whose_pods_are_gone_is_not_resumed() -> None:
    view = ClusterView(waiting(KIND, 9))
    plan = make_plan(view, OFFERS, SETTINGS, solve)
    assert resume(plan.nodes, ClusterView(waiting(KIND, 1)), KNOWN, "fcma").nodes == ()


def test_the_same_plan_has_the_same_names() -> None:
    view = ClusterView(waiting(KIND, 9))
    assert make_plan(view, OFFERS, SETTINGS, solve) == make_plan(view, OFFERS, SETTINGS, solve)


def test_what_fits_running_nodes_is_not_rented_for() -> None:
    claim = Claim("a", "medium", {}, 0.0, provider_id="p", launched=True)
    view = ClusterView(waiting(KIND, 4), (claim,), {"node-a": node_for(claim)})
    assert make_plan(view, OFFERS, SETTINGS, solve).nodes == ()
    busy = replace(view, nodes={"node-a": node_for(claim, used_cpu_millicores=2300)})
    assert total(make_plan(busy, OFFERS, SETTINGS, solve).nodes)[KIND.id] >= 3
    leaving = replace(view, nodes={"node-a": node_for(claim, deleting=True)})
    assert total(make_plan(leaving, OFFERS, SETTINGS, solve).nodes)[KIND.id] >= 4


def test_a_pod_that_should_fit_and_does_not_gets_a_node() -> None:
    claim = Claim("a", "medium", {}, 0.0, provider_id="p", launched=True)
    view = ClusterView(waiting(KIND, 1), (claim,), {"node-a": node_for(claim)})
    stuck = {view.waiting[0].uid}
    assert make_plan(view, OFFERS, SETTINGS, solve, stuck=stuck).nodes


def test_pods_that_stay_apart_do_not_share_a_room() -> None:
    apart = Kind(100, GIB, apart="x")
    claim = Claim("a", "medium", {apart.id: 1}, 0.0)
    counts, placed = unplaced(waiting(apart, 3), rooms_of(ClusterView(claims=(claim,)), KNOWN, "fcma"))
    assert counts == {apart: 2}
    assert list(placed.values()) == ["a"]


@given(st.integers(1, 40), st.integers(0, 6), st.floats(0, 2).map(lambda x: round(x, 2)), st.integers(0, 30))
def test_limits_hold_and_what_is_cut_is_said(
    pods: int, max_nodes: int, max_cost: float, max_cpu: int
) -> None:
    settings = Settings(max_nodes=max_nodes, max_cost_per_hour=max_cost, max_cpu=float(max_cpu))
    old = Claim("old", "small", {}, 0.0, launched=True)
    view = ClusterView(waiting(BIG, pods), (old,))
    plan = make_plan(view, OFFERS, settings, solve)
    if plan.nodes:
        assert 1 + len(plan.nodes) <= max_nodes
        assert 0.1 + plan.cost_per_hour <= max_cost + 1e-6
        assert 2 + sum(KNOWN[n.instance_class].cpu_millicores for n in plan.nodes) / 1000 <= max_cpu
    short = sum(s.pods for s in plan.shortages)
    fitting_old = 1  # one big pod fits the old node
    assert total(plan.nodes)[BIG.id] + short >= pods - fitting_old


def test_a_class_that_cannot_be_had_is_done_without() -> None:
    view = ClusterView(waiting(KIND, 8))
    plan = make_plan(view, OFFERS, SETTINGS, solve)
    used = {node.instance_class for node in plan.nodes}
    left = [offer for offer in OFFERS if offer.name not in used]
    again = make_plan(view, left, SETTINGS, solve, KNOWN)
    assert again.nodes
    assert not used & {node.instance_class for node in again.nodes}
    nothing = make_plan(view, [], SETTINGS, solve, KNOWN)
    assert not nothing.nodes
    assert nothing.shortages[0].pods == 8


def test_a_claim_whose_class_the_catalogue_lost_is_not_rented_for_twice() -> None:
    view = ClusterView(waiting(KIND, 8))
    plan = make_plan(view, OFFERS, SETTINGS, solve)
    used = {node.instance_class for node in plan.nodes}
    left = [offer for offer in OFFERS if offer.name not in used]
    assert make_plan(replace(view, claims=claims_of(plan)), left, SETTINGS, solve).nodes == ()


def test_a_pod_stays_with_the_node_it_is_nominated_for() -> None:
    claim = Claim("a", "small", {KIND.id: 2}, 0.0, provider_id="p", launched=True)
    node = node_for(claim)
    pods = waiting(KIND, 4)
    pods = (*pods[:2], *(replace(pod, nominated=node.name) for pod in pods[2:]))
    _, placed = unplaced(pods, rooms_of(ClusterView(pods, (claim,), {node.name: node}), KNOWN, "fcma"))
    assert set(placed) == {pod.uid for pod in pods[2:]}
    _, placed = unplaced(
        tuple(reversed(pods)), rooms_of(ClusterView(pods, (claim,), {node.name: node}), KNOWN, "fcma")
    )
    assert set(placed) == {pod.uid for pod in pods[2:]}
