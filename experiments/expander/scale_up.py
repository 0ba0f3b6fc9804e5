"""Simulates a scale-up: the caller rents nodes and kube-scheduler spreads pods, until none is pending."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from cluster_autoscaler_hook.expander.caller_model import offer
from cluster_autoscaler_hook.expander.model import Offer
from cluster_autoscaler_hook.expander.new_nodes import new_nodes, shuffled_order, spread
from experiments.expander.mixes import Mix

__all__ = ["Growth", "scale_up"]


@dataclass(frozen=True, slots=True)
class Growth:
    """The choice of one loop. The caller expected `promised` pods to fit the new nodes; `pods` did."""

    group: str
    nodes: int
    pods: int
    promised: int


def scale_up(mix: Mix, choose: Callable[[Offer], str], draw: random.Random) -> tuple[Growth, ...]:
    """Loop until no pod can be helped any more. `draw` mixes the scheduler's queue and breaks its ties."""
    left, room, kinds = list(mix.pending), dict(mix.room), mix.kinds
    grown = []
    while (asked := offer(mix.templates, kinds, left, room, mix.overhead)).options:
        chosen = choose(asked)
        option = next(o for o in asked.options if o.group == chosen)
        waiting = {i: n for i, n in enumerate(left) if n and chosen in kinds[i].groups}
        nodes = new_nodes(asked.templates[chosen], mix.overhead, kinds, option.nodes)
        placed = spread(nodes, shuffled_order(waiting, draw), draw)
        grown.append(Growth(chosen, option.nodes, sum(placed.values()), option.pod_count))
        for kind, pods in placed.items():
            left[kind] -= pods
        if chosen in room:
            room[chosen] -= option.nodes
    return tuple(grown)
