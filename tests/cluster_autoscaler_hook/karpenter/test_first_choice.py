"""The estimate of Karpenter's first choice, against what the real one rented (record_first_choices.py)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.karpenter.demand import offers, unservable
from cluster_autoscaler_hook.karpenter.first_choice import first_choice
from cluster_autoscaler_hook.karpenter.labels import INSTANCE_TYPE
from cluster_autoscaler_hook.karpenter.model import MIB, Kind, Requirement
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.strict_catalogue import StrictCatalogue
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, KNOWN, OFFERS, offer
from tests.cluster_autoscaler_hook.karpenter.record_first_choices import RECORDED, SMALL_CPUS


@pytest.mark.parametrize(
    "played",
    json.loads(RECORDED.read_text()),
    ids=lambda played: f"{played['mix']}{', small classes' if played['only_small_classes'] else ''}",
)
def test_as_the_real_karpenter_chose(played: dict[str, Any]) -> None:
    offered = offers(StrictCatalogue(None).read()[0], Settings())
    if played["only_small_classes"]:
        offered = tuple(o for o in offered if o.cpu_millicores <= SMALL_CPUS * 1000)
    counts: Counter[Kind] = Counter()
    for cpu_millicores, memory_mib, count in played["sizes"]:
        counts[Kind(cpu_millicores, memory_mib * MIB)] += count
    said = first_choice(counts, offered)
    assert said.classes == played["classes"]
    assert said.cost_per_hour == pytest.approx(played["cost_per_hour"])


@pytest.mark.parametrize(
    ("counts", "classes"),
    [
        ({}, {}),
        ({Kind(500, GIB): 1}, {"small": 1}),
        # It grows to the largest class before a second node is opened, though two small would be cheaper.
        ({Kind(500, GIB): 8}, {"medium": 1}),
        ({Kind(500, GIB): 9}, {"medium": 1, "small": 1}),
        ({Kind(500, GIB, exclusive=("app",)): 3}, {"small": 3}),
        # The large first; the small join the one with the fewest pods.
        ({Kind(3000, GIB): 2, Kind(1000, GIB): 2}, {"medium": 2}),
        ({Kind(500, GIB, ((Requirement(INSTANCE_TYPE, "In", ("fat",)),),)): 1}, {"fat": 1}),
        ({Kind(500, 64 * GIB): 2, Kind(100, GIB): 1}, {"small": 1}),
    ],
)
def test_by_hand(counts: dict[Kind, int], classes: dict[str, int]) -> None:
    assert first_choice(counts, OFFERS).classes == classes


def test_a_node_takes_no_more_pods_than_its_class_may_run() -> None:
    assert first_choice({Kind(10, MIB): 25}, [offer("few", 8, 8, 1.0, pods=10)]).classes == {"few": 3}


@given(
    st.dictionaries(
        st.builds(Kind, st.integers(50, 4000), st.integers(1, 32).map(lambda gib: gib * GIB)),
        st.integers(1, 6),
        min_size=1,
        max_size=3,
    )
)
def test_what_it_rents_has_room_for_all_that_can_be_served(counts: dict[Kind, int]) -> None:
    said = first_choice(counts, OFFERS)
    hopeless = {shortage.kind for shortage in unservable(counts, OFFERS)}
    servable = {kind: count for kind, count in counts.items() if kind.id not in hopeless}
    rented = [KNOWN[name] for name, count in said.classes.items() for _ in range(count)]
    assert len(rented) <= sum(servable.values())
    for amount in ("cpu_millicores", "memory_bytes"):
        asked = sum(count * getattr(kind, amount) for kind, count in servable.items())
        assert asked <= sum(getattr(node, amount) for node in rented)
    assert said.cost_per_hour == pytest.approx(sum(node.price_per_hour for node in rented))
