"""A whole scale-up, loop by loop."""

from __future__ import annotations

import random
from collections.abc import Sequence

from cluster_autoscaler_hook.expander.caller_model import Overhead
from cluster_autoscaler_hook.expander.model import Kind, Offer, Template
from experiments.expander.mixes import Mix
from experiments.expander.scale_up import Growth, scale_up
from tests.cluster_autoscaler_hook.expander.builders import kind, template


def first(asked: Offer) -> str:
    return asked.options[0].group


def grow(
    templates: Sequence[Template],
    kinds: Sequence[Kind],
    pending: Sequence[int],
    seed: int,
    **most_nodes: int,
) -> tuple[Growth, ...]:
    mix = Mix("test", templates, {}, kinds, pending, most_nodes, Overhead())
    return scale_up(mix, first, random.Random(seed))


def test_it_goes_on_until_no_pod_can_be_helped() -> None:
    """Groups at their maximum leave the rest to others; a pod that fits nowhere stays."""
    templates = [template("small", 2, 8), template("large", 8, 32)]
    kinds = [kind(["small", "large"], 1.9, 4), kind(["large"], 6, 4), kind(["large"], 9, 4)]
    grown = grow(templates, kinds, [5, 1, 1], 1, small=2)
    assert [(g.group, g.nodes) for g in grown[:2]] == [("small", 2), ("large", 2)]
    assert sum(g.pods for g in grown) == 6


def test_pods_that_spreading_leaves_pending_lead_to_another_scale_up() -> None:
    """Packed, two nodes take all; three small pods on each leave no room for the one of 3 CPUs."""
    kinds = [kind(["g"], 0.7, 1), kind(["g"], 3, 1)]
    grown = [grow([template("g")], kinds, [6, 1], seed) for seed in range(20)]
    assert {tuple((g.nodes, g.pods, g.promised) for g in growths) for growths in grown} == {
        ((2, 7, 7),),  # the large one came early in the queue
        ((2, 6, 7), (1, 1, 1)),
    }
