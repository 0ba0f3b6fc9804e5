"""A whole scale-up, loop by loop."""

from __future__ import annotations

import random

from cluster_autoscaler_hook.expander.model import Offer
from cluster_autoscaler_hook.expander.scale_up import scale_up
from tests.cluster_autoscaler_hook.expander.builders import kind, template


def first(asked: Offer) -> str:
    return asked.options[0].group


def test_it_goes_on_until_no_pod_can_be_helped() -> None:
    """Groups at their maximum leave the rest to others; a pod that fits nowhere stays."""
    templates = [template("small", 2, 8), template("large", 8, 32)]
    kinds = [kind(["small", "large"], 1.9, 4), kind(["large"], 6, 4), kind(["large"], 9, 4)]
    grown = scale_up(templates, kinds, [5, 1, 1], first, random.Random(1), {"small": 2})
    assert [(g.group, g.nodes) for g in grown[:2]] == [("small", 2), ("large", 2)]
    assert sum(g.pods for g in grown) == 6


def test_pods_that_spreading_leaves_pending_lead_to_another_scale_up() -> None:
    """Packed, two nodes take all; three small pods on each leave no room for the one of 3 CPUs."""
    kinds = [kind(["g"], 0.7, 1), kind(["g"], 3, 1)]
    grown = [scale_up([template("g")], kinds, [6, 1], first, random.Random(seed)) for seed in range(20)]
    assert {tuple((g.nodes, g.pods, g.promised) for g in growths) for growths in grown} == {
        ((2, 7, 7),),  # the large one came early in the queue
        ((2, 6, 7), (1, 1, 1)),
    }
