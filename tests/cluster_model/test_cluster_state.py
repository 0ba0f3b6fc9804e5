"""Assumed pods, and what the watch corrects."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cluster_model.cluster_state import ClusterState, PodFacts
from cluster_model.contention import MEASURED, PAPER, Contention
from cluster_model.cost import PodPrices
from cluster_model.node_table import Node, NodeFacts, SpeedFacts
from cluster_model.price_list import cheapest, pull_s
from tests.scheduler_extender.builders import GIB, bound, nodes, state, to_place


def node(cluster: ClusterState, name: str = "node-000") -> Node:
    found = cluster.nodes.get(name)
    assert found is not None
    return found


def creating(cluster: ClusterState, name: str = "node-000") -> int:
    return node(cluster, name).creating


def test_an_assumed_pod_counts_at_once_and_gives_way_to_the_binding() -> None:
    cluster = state()
    cluster.assume(to_place("u", cpu=4000), "node-000", now_s=0.0)
    assert creating(cluster) == 1
    assert node(cluster).cpu_free == pytest.approx(0.5)
    cluster.put_pod(bound("u", "node-001", cpu=4000), now_s=0.1)  # the scheduler chose otherwise
    assert creating(cluster) == 0
    assert node(cluster).cpu_free == 1.0
    assert creating(cluster, "node-001") == 1
    assert cluster.counts["assumed"] == 0


def test_a_binding_to_the_assumed_node_changes_nothing() -> None:
    """So that no price list moves the node; the start of the containers does."""
    cluster, changed = state(), set[Node]()
    cluster.assume(to_place("u"), "node-000", now_s=0.0)
    cluster.nodes.follow(changed)
    cluster.put_pod(bound("u", "node-000"), now_s=0.1)
    assert not changed
    assert (creating(cluster), cluster.counts["assumed"], cluster.node_of("u")) == (1, 0, "node-000")
    cluster.put_pod(bound("u", "node-000", creating=False), now_s=0.2)
    assert changed == {node(cluster)}
    assert creating(cluster) == 0


def test_what_never_appears_is_forgotten() -> None:
    cluster = state(assumed_pod_ttl_s=10)
    cluster.assume(to_place("a"), "node-000", now_s=0.0)
    cluster.assume(to_place("b"), "node-000", now_s=5.0)
    assert cluster.expire(9.9) == 0
    assert cluster.expire(10.0) == 1
    assert creating(cluster) == 1
    assert cluster.expire(15.0) == 1
    assert creating(cluster) == 0


def test_a_pod_placed_again_is_assumed_once() -> None:
    cluster = state()
    cluster.assume(to_place("u"), "node-000", 0.0)
    cluster.assume(to_place("u"), "node-001", 1.0)
    assert (creating(cluster), creating(cluster, "node-001")) == (0, 1)


def test_a_bound_pod_is_not_assumed_again() -> None:
    cluster = state()
    cluster.put_pod(bound("u", "node-001"), 0.0)
    cluster.assume(to_place("u"), "node-000", 1.0)
    assert (creating(cluster), creating(cluster, "node-001")) == (0, 1)


def test_a_started_pod_keeps_its_resources_and_is_no_contention() -> None:
    cluster = state()
    cluster.put_pod(bound("u", "node-000", cpu=4000), 0.0)
    cluster.put_pod(bound("u", "node-000", creating=False, cpu=4000), 1.0)
    assert creating(cluster) == 0
    assert node(cluster).cpu_free == pytest.approx(0.5)
    cluster.put_pod(bound("u", "node-000", creating=True, cpu=4000), 2.0)  # a restart is not a creation
    assert creating(cluster) == 0


def test_a_hanging_creation_stops_counting() -> None:
    cluster = state(creation_limit_s=60)
    cluster.put_pod(bound("u", "node-000"), 0.0)
    cluster.expire(59.0)
    assert creating(cluster) == 1
    cluster.expire(60.0)
    assert creating(cluster) == 0
    cluster.drop_pod("u")
    assert creating(cluster) == 0


def test_a_node_that_comes_back_has_forgotten_its_speed_but_not_its_pods() -> None:
    cluster = state()
    cluster.nodes.put_speed(SpeedFacts("node-000", 5.0, {}), 0.0)
    cluster.put_pod(bound("u", "node-000"), 0.0)
    cluster.nodes.drop_node("node-000")
    assert cluster.nodes.get("node-000") is None
    cluster.nodes.put_node(nodes(1)[0])
    assert node(cluster).tau_create_s == 1.0
    assert creating(cluster) == 1


def test_unmeasured_nodes_get_their_peers_median_and_old_speeds_are_dropped() -> None:
    cluster = state(4)
    for name, tau in (("node-000", 2.0), ("node-001", 4.0), ("node-002", 9.0)):
        cluster.nodes.put_speed(SpeedFacts(name, tau, {}), 100.0)
    cluster.nodes.forget_old_speeds(before_s=50.0)
    assert node(cluster, "node-003").tau_create_s == 4.0
    cluster.nodes.put_speed(SpeedFacts("node-000", 2.0, {}), 1000.0)
    cluster.nodes.forget_old_speeds(before_s=500.0)
    assert node(cluster, "node-002").tau_create_s == 2.0, "measured too long ago"


def test_image_locality_prices_the_pull_where_the_image_is_missing() -> None:
    cluster = state(3)
    cluster.nodes.put_node(NodeFacts("node-001", 8000, 16 * GIB, frozenset({"shop/web:1"})))

    def pulls_s() -> list[float]:
        return [pull_s(n, ["shop/web:1"], cluster.nodes) for n in cluster.nodes]

    assert pulls_s() == [2.0, 0.0, 2.0], "nothing measured: the default"
    cluster.nodes.put_speed(SpeedFacts("node-001", 1.0, {"shop/web:1": 7.5}), 0.0)
    cluster.nodes.put_node(NodeFacts("node-002", 8000, 16 * GIB, frozenset({"shop/web:1"})))
    assert pulls_s() == [7.5, 0.0, 0.0]
    assert cluster.nodes.image_pull_s("other:1") == 7.5, "what other images took stands in"
    cluster.nodes.drop_speed("node-001")
    assert pulls_s() == [2.0, 0.0, 0.0]


def greedy(taus: list[float], pods: int, contention: Contention) -> Counter[str]:
    """Placing one by one, each seeing the ones before it: what assuming must reproduce."""
    slowdown = contention.creation.slowdown
    placed: Counter[str] = Counter()
    for _ in range(pods):
        best = min(range(len(taus)), key=lambda n: taus[n] * slowdown(placed[f"node-{n:03d}"] + 1))
        placed[f"node-{best:03d}"] += 1
    return placed


def burst(replicas: int, taus: list[float], pods: int, contention: Contention = PAPER) -> Counter[str]:
    """`pods` decided before any binding is seen, the calls going to the replicas in turn."""
    prices = PodPrices(0.001, 0.001, 1, 1.0, 0.0, 0.5)
    clusters = [state(len(taus), seed=str(r), contention=contention) for r in range(replicas)]
    for cluster in clusters:
        for n, tau in enumerate(taus):
            cluster.nodes.put_speed(SpeedFacts(f"node-{n:03d}", tau, {}), 0.0)
    placed: Counter[str] = Counter()
    for i in range(pods):
        cluster = clusters[i % replicas]
        name = cheapest((prices, ()), cluster.nodes, cluster.nodes, 1)[0].name
        cluster.assume(to_place(f"u{i}", cpu=1, memory=1), name, 0.0)
        placed[name] += 1
    return placed


def makespan(placed: Counter[str], taus: list[float], contention: Contention) -> float:
    slowdown = contention.creation.slowdown
    return max(taus[int(name[-3:])] * slowdown(count) for name, count in placed.items())


@pytest.mark.parametrize("contention", [PAPER, MEASURED])
@settings(max_examples=50)
@given(st.lists(st.floats(0.5, 1.5), min_size=4, max_size=24))
def test_fifty_pods_at_once_spread_as_if_placed_one_by_one(contention: Contention, taus: list[float]) -> None:
    one_by_one, at_once = greedy(taus, 50, contention), burst(1, taus, 50, contention)
    assert makespan(at_once, taus, contention) == pytest.approx(makespan(one_by_one, taus, contention))


@settings(max_examples=50)
@given(st.lists(st.floats(0.5, 1.5), min_size=4, max_size=24))
def test_two_replicas_that_see_nothing_of_each_other_herd_by_less_than_one_turn_each(
    taus: list[float],
) -> None:
    # Each replica spreads its half well; the halves add up. Greedy never passes the level L at which
    # every node but one has room for another: sum(L / tau - 1) <= pods. So two replicas stay below a
    # fair share and one more turn for each of them.
    at_once = burst(2, taus, 50)
    level_s = (50 + 2 * len(taus)) / sum(1 / tau for tau in taus)
    for name, count in at_once.items():
        assert count * taus[int(name[-3:])] <= level_s * (1 + 1e-9)


class Bookkeeping(RuleBasedStateMachine):
    """Whatever the order of events, the table equals the sum over what is bound and assumed."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = state(3, assumed_pod_ttl_s=10, creation_limit_s=30)
        self.now_s = 0.0

    uids = st.sampled_from([f"u{i}" for i in range(6)])
    names = st.sampled_from([f"node-00{i}" for i in range(4)])  # node-003 does not exist

    @rule(uid=uids, node=names)
    def assume(self, uid: str, node: str) -> None:
        self.cluster.assume(to_place(uid), node, self.now_s)

    @rule(uid=uids, node=names, creating=st.booleans(), cpu=st.sampled_from([100.0, 250.0]))
    def bind(self, uid: str, node: str, creating: bool, cpu: float) -> None:
        self.cluster.put_pod(bound(uid, node, creating, cpu), self.now_s)

    @rule(uid=uids)
    def drop(self, uid: str) -> None:
        self.cluster.drop_pod(uid)

    @rule(pods=st.lists(st.tuples(uids, names, st.booleans()), unique_by=lambda p: p[0]))
    def relist(self, pods: list[tuple[str, str, bool]]) -> None:
        self.cluster.keep_pods({p[0] for p in pods})
        for p in pods:
            self.cluster.put_pod(bound(*p), self.now_s)

    @rule(node=names)
    def node_goes(self, node: str) -> None:
        self.cluster.nodes.drop_node(node)

    @rule()
    def nodes_relisted(self) -> None:
        self.cluster.nodes.keep_nodes({node.name for node in nodes(3)})
        for node in nodes(3):
            self.cluster.nodes.put_node(node)

    @rule(seconds=st.floats(0, 40))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.cluster.expire(self.now_s)

    @invariant()
    def adds_up(self) -> None:
        held: list[PodFacts] = [
            *self.cluster._bound.values(),
            *(p for p, _ in self.cluster._assumed.values()),
        ]
        for node in self.cluster.nodes._nodes.values():
            here = [p for p in held if p.node == node.name]
            assert node.cpu_used == sum(p.cpu_millicores for p in here)
            assert node.memory_used == sum(p.memory_bytes for p in here)
            assert node.creating == sum(p.creating for p in here)
        assert not set(self.cluster._bound) & set(self.cluster._assumed)


TestBookkeeping = Bookkeeping.TestCase
