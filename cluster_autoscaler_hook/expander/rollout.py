"""The cost of an option until every pod runs, with pods placed as kube-scheduler places them.

`lookahead` assumes that nodes are packed full, as the caller does. But kube-scheduler spreads pods, some stay
pending, and the caller rents more nodes for them. So each option is played to its end: its pods are spread
(`new_nodes`), `lookahead` chooses the next group for the pods still pending, and so on. If the model is true,
this choice costs no more than following `lookahead` alone (Bertsekas, Tsitsiklis, Wu, 'Rollout algorithms
for combinatorial optimization', 1997).

The order of the scheduler's queue is not known, so each option is played with several orders and averaged.
The seeds are fixed: the same request gets the same answer, and all options are compared on the same orders.
"""

from __future__ import annotations

import random

from cluster_autoscaler_hook.expander.lookahead import Lookahead, Step
from cluster_autoscaler_hook.expander.model import Option
from cluster_autoscaler_hook.expander.new_nodes import new_nodes, shuffled_order, spread
from cluster_autoscaler_hook.expander.scale_up_request import ScaleUpRequest

__all__ = ["to_go"]

# Play until about this many pods are placed: a large scale-up varies less and needs fewer plays. Chosen on
# the tuning seeds: with 16 plays small scale-ups are 0.06 % cheaper than with 4, with 32 no cheaper.
_PODS_PLACED = 1000
_MOST_PLAYS = 16


def to_go(option: Option, request: ScaleUpRequest, lookahead: Lookahead) -> float | None:
    """Cost per hour of the steps that follow `option`; None if the deadline passed first."""
    plays = min(_MOST_PLAYS, max(1, _PODS_PLACED // max(1, sum(request.offer.pending))))
    costs = []
    for play in range(plays):
        costs.append(_play(option, request, lookahead, random.Random(play)))
        if request.deadline.reached():  # the last play may have been cut short
            return None
    return sum(costs) / plays


def _play(option: Option, request: ScaleUpRequest, lookahead: Lookahead, draw: random.Random) -> float:
    offer = request.offer
    cost, left, used = 0.0, list(offer.pending), frozenset[str]()
    step: Step | None = Step(option.group, option.nodes)
    while step is not None:
        waiting = {i: n for i, n in enumerate(left) if n and step.group in offer.kinds[i].groups}
        nodes = new_nodes(offer.templates[step.group], request.overhead, offer.kinds, step.nodes)
        placed = spread(nodes, shuffled_order(waiting, draw), draw, request.deadline)
        if not placed:  # the caller says that these pods fit where our model says that they do not
            return cost + lookahead.bound(tuple(left))
        for kind, pods in placed.items():
            left[kind] -= pods
        used = lookahead.used(step.group, used)
        step = lookahead.next_step(tuple(left), used)
        cost += step.nodes * request.prices.by_group[step.group].per_hour if step else 0.0
    return cost
