"""The caller's own expanders, against figures worked out by hand."""

from __future__ import annotations

import random

import pytest

from cluster_autoscaler_hook.expander.model import Offer
from experiments.expander import baselines
from tests.cluster_autoscaler_hook.expander.builders import kind, offer, prices, template

COSTS = prices(fits=0.4, big=1.6).by_group


def two() -> Offer:
    """4 pods of 1 CPU, 4 GiB fill one `fits`; `big` has 16 CPUs, 64 GiB."""
    return offer(
        [template("fits", 4, 16), template("big", 16, 64)], [kind(["fits", "big"], 1, 4)], [4], [1, 1]
    )


def test_least_waste_and_price_take_the_one_that_fits() -> None:
    assert baselines.least_waste(random.Random(0))(two()) == "fits"
    assert baselines.price(COSTS, cluster_nodes=10)(two()) == "fits"


@pytest.mark.parametrize(
    ("cluster_nodes", "expected"), [(2, "fits"), (10, "fits"), (100, "big"), (1000, "big")]
)
def test_price_likes_larger_nodes_in_larger_clusters(cluster_nodes: int, expected: str) -> None:
    """Twice the money, but of the size it likes: unfitness 1 against 4 (preferred.go)."""
    costs = prices(fits=0.4, big=0.8).by_group
    assert baselines.price(costs, cluster_nodes)(two()) == expected


def test_price_counts_the_nodes_it_has_chosen() -> None:
    policy = baselines.price(prices(fits=0.4, big=0.8).by_group, cluster_nodes=59)
    crowd = offer([template("fits", 4, 16)], [kind(["fits"], 1, 4)], [400], [100])
    policy(crowd)
    assert policy(two()) == "big"


def test_equals_are_drawn() -> None:
    same = offer([template("a"), template("b")], [kind(["a", "b"])], [3], [1, 1])
    for make in (baselines.least_waste, baselines.most_pods, baselines.uniform):
        policy = make(random.Random(1))
        assert {policy(same) for _ in range(50)} == {"a", "b"}


def test_most_pods() -> None:
    asked = offer([template("a"), template("b")], [kind(["a", "b"]), kind(["b"])], [3, 1], [1, 1])
    assert baselines.most_pods(random.Random(0))(asked) == "b"
