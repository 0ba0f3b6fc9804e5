"""Which of the nodes offered should take this pod: the decision of the extender, as one pure step.

Scores: the ten cheapest nodes get 10, 9, ... 1, the rest 0. The scheduler multiplies what it gets by
weight*10 and adds its own plugins' scores; ranks keep the best nodes apart however close or far their
costs lie, where a linear scale would give all of them 10 as soon as one node is terrible. A node left
out of the answer scores 0, so the answer stays ten entries long at any cluster size.
"""

from __future__ import annotations

from cluster_model.cost import PodPrices
from cluster_model.model import GIB, PodToPlace
from cluster_model.node_table import Node, NodeTable
from cluster_model.price_list import PriceLists, cheapest, pull_s
from scheduler_extender.model import HIGHEST_SCORE, Decision, Overrides, Terms
from scheduler_extender.settings import Settings
from surgekit.process.modes import Mode

__all__ = ["decide"]

# Below this many nodes pricing each of them costs less than keeping a list in order.
_FEW = 48


def decide(
    pod: PodToPlace,
    node_names: frozenset[str],
    nodes: NodeTable,
    lists: PriceLists,
    mode: Mode,
    overrides: Overrides,
    settings: Settings,
    inputs_age_s: dict[str, float],
    wall_s: float,
) -> Decision:
    """Score the nodes for the pod. Presumes nothing: that is the caller's act, if the mode is enforce."""
    prices = PodPrices(
        pod.cpu_millicores / 1000.0,
        pod.memory_bytes / GIB,
        pod.containers,
        pod.concurrency,
        settings.price_weight if overrides.price_weight is None else overrides.price_weight,
        settings.price_swing if overrides.price_swing is None else overrides.price_swing,
    )
    offered = len(node_names)
    oldest = max(inputs_age_s, key=inputs_age_s.__getitem__)
    if inputs_age_s[oldest] > settings.max_input_age_s:
        age_s, limit_s = inputs_age_s[oldest], settings.max_input_age_s
        reason = f"no word of {oldest} for {age_s:.0f} s, more than {limit_s:.0f} s"
        return Decision(pod, mode, False, reason, wall_s, prices, offered, inputs_age_s)
    best = _best(pod, prices, node_names, nodes, lists)
    if not best:
        reason = "none of the nodes offered is known"
        return Decision(pod, mode, False, reason, wall_s, prices, offered, inputs_age_s)
    ranked = tuple(
        Terms(n.name, n.tau_create_s, n.creating + 1, pull_s(n, pod.images, nodes), n.cpu_free, n.memory_free)
        for n in best
    )
    return Decision(pod, mode, True, "scored", wall_s, prices, offered, inputs_age_s, ranked)


def _best(
    pod: PodToPlace, prices: PodPrices, node_names: frozenset[str], nodes: NodeTable, lists: PriceLists
) -> list[Node]:
    kind = prices, pod.images
    found = lists.of(kind) if len(node_names) > _FEW else None
    if found is not None:
        return found.cheapest(node_names, HIGHEST_SCORE)
    known = (node for node in map(nodes.get, node_names) if node is not None)
    return cheapest(kind, known, nodes, HIGHEST_SCORE)
