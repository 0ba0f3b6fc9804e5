"""Nodes of equal cost: replicas must not all start with the same one."""

from __future__ import annotations

from cluster_model.cost import PodPrices
from cluster_model.node_table import NodeTable
from cluster_model.price_list import PriceLists, cheapest
from tests.scheduler_extender.builders import nodes

KIND = (PodPrices(0.25, 0.5, 1, 1.0, 0.25, 0.5), ())
COUNT = 64


def order(seed: str) -> list[str]:
    """Equal nodes, as the replica with this seed ranks them."""
    table = NodeTable(default_tau_create_s=1.0, default_image_pull_s=2.0, seed=seed)
    for facts in nodes(COUNT):
        table.put_node(facts)
    ranked = [node.name for node in cheapest(KIND, table, table, COUNT)]
    lists = PriceLists(table)
    assert lists.of(KIND) is None
    kept = lists.of(KIND)
    assert kept is not None
    assert [node.name for node in kept.cheapest(frozenset(ranked), COUNT)] == ranked
    return ranked


def test_replicas_rank_equal_nodes_in_orders_of_their_own() -> None:
    firsts = {order(f"replica-{number}")[0] for number in range(20)}
    assert len(firsts) > 10  # drawn from 64 nodes: about 17 of 20 differ; by name it would be one


def test_one_replica_keeps_its_order() -> None:
    assert order("replica-0") == order("replica-0")


def test_the_order_of_equal_nodes_is_not_the_order_of_their_names() -> None:
    assert order("replica-0") != sorted(order("replica-0"))
