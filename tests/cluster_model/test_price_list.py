"""The list kept in order against the plain way of pricing every node."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cluster_model.contention import PAPER
from cluster_model.cost import PodPrices
from cluster_model.node_table import NodeFacts, NodeTable, SpeedFacts
from cluster_model.price_list import PriceLists, cheapest
from tests.scheduler_extender.builders import GIB

NAMES = [f"node-{i}" for i in range(30)]
KINDS = [
    (PodPrices(0.25, 0.5, 1, 1.0, 1.0, 0.5), ()),
    (PodPrices(2.0, 1.0, 2, 4.0, 3.0, 1.0), ("web:1", "side:2")),
]
names = st.sampled_from(NAMES)


class KeptInOrder(RuleBasedStateMachine):
    """Whatever happens to the nodes, the list answers as pricing each of them anew would."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = NodeTable(1.0, 2.0, "a")
        self.lists = PriceLists(self.nodes)
        for kind in KINDS:
            assert self.lists.of(kind) is None, "not for a kind asked for once"

    @rule(
        name=names,
        images=st.sets(st.sampled_from(["web:1", "side:2", "other:3"])),
        cpu=st.sampled_from([4000, 8000]),
    )
    def node_comes(self, name: str, images: set[str], cpu: float) -> None:
        self.nodes.put_node(NodeFacts(name, cpu, 16 * GIB, frozenset(images)))

    @rule(present=st.sets(names))
    def relist(self, present: set[str]) -> None:
        self.nodes.keep_nodes(present)
        for name in present:
            self.nodes.put_node(NodeFacts(name, 8000, 16 * GIB, frozenset()))

    @rule(name=names)
    def node_goes(self, name: str) -> None:
        self.nodes.drop_node(name)

    @rule(name=names, cpu=st.sampled_from([-250.0, 250.0, 1000.0]), creating=st.sampled_from([-1, 0, 1]))
    def pod_moves(self, name: str, cpu: float, creating: int) -> None:
        self.nodes.hold(name, cpu, cpu * 2**20, creating)

    @rule(
        name=names,
        tau_s=st.floats(0.1, 9),
        pulls=st.dictionaries(st.sampled_from(["web:1", "other:3"]), st.floats(0, 60)),
    )
    def speed_is_measured(self, name: str, tau_s: float, pulls: dict[str, float]) -> None:
        self.nodes.put_speed(SpeedFacts(name, tau_s, pulls), 0.0)

    @rule(before_s=st.sampled_from([-1.0, 1.0]))
    def speeds_age(self, before_s: float) -> None:
        self.nodes.forget_old_speeds(before_s)

    @rule(offered=st.lists(names, unique=True), kind=st.sampled_from(KINDS), count=st.integers(1, 12))
    def answers_agree(self, offered: list[str], kind: tuple[PodPrices, tuple[str, ...]], count: int) -> None:
        kept = self.lists.of(kind)
        assert kept is not None
        known = [node for node in map(self.nodes.get, offered) if node]
        plain = cheapest(kind, known, self.nodes, count)
        assert kept.cheapest(frozenset(offered), count) == plain

    @invariant()
    def free_shares_are_shares(self) -> None:
        for node in self.nodes:
            assert 0.0 <= node.cpu_free <= 1.0
            assert 0.0 <= node.memory_free <= 1.0


TestKeptInOrder = KeptInOrder.TestCase


def test_a_pull_that_was_measured_elsewhere_changes_the_order() -> None:
    """On the node that was measured the image is, so only other nodes cost less now."""
    nodes = NodeTable(1.0, 2.0, "a", PAPER)
    for name, images in (("has-it", {"web:1"}), ("lacks-it", set[str]()), ("elsewhere", {"web:1"})):
        nodes.put_node(NodeFacts(name, 8000, 16 * GIB, frozenset(images)))
    nodes.hold("has-it", 0.0, 0.0, creating=1)  # 2 s, against 1 s and a pull
    kind, lists, offered = (KINDS[0][0], ("web:1",)), PriceLists(nodes), frozenset({"has-it", "lacks-it"})
    lists.of(kind)
    kept = lists.of(kind)
    assert kept is not None
    assert [node.name for node in kept.cheapest(offered, 2)] == ["has-it", "lacks-it"]
    nodes.put_speed(SpeedFacts("elsewhere", 1.0, {"web:1": 0.5}), 0.0)
    for _ in range(2):
        assert [node.name for node in kept.cheapest(offered, 2)] == ["lacks-it", "has-it"]


def test_lists_of_kinds_not_asked_for_are_dropped_and_no_longer_fed() -> None:
    nodes = NodeTable(1.0, 2.0, "a")
    lists = PriceLists(nodes)
    for i in range(200):
        kind = (PodPrices(i, 1.0, 1, 1.0, 1.0, 0.5), ())
        lists.of(kind)
        assert lists.of(kind) is not None
    assert len(nodes._followers) == 64
