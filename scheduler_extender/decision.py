"""Score the nodes that kube-scheduler offers for a pod. Pure.

The ten cheapest nodes get 10, 9, ... 1, all others 0. The scheduler multiplies a score by weight*10 and adds
its own plugins' scores. Ranks keep the best nodes apart however close their costs are; on a linear scale one
very expensive node would push all others to 10. A node left out of the answer scores 0, so an answer has at
most ten entries whatever the size of the cluster.
"""

from __future__ import annotations

from typing import NamedTuple

from cluster_model.contention import CONTENTION
from cluster_model.cost import PodPrices
from cluster_model.model import GIB
from cluster_model.node_table import Node, NodeTable
from cluster_model.price_list import PriceLists, cheapest, pull_s
from scheduler_extender.model import HIGHEST_SCORE, Placement, PlacementRequest, Terms
from scheduler_extender.settings import Settings
from surgekit.decision import Decision

__all__ = ["Cluster", "decide"]

# Up to this many nodes, pricing each is cheaper than keeping a sorted list.
_FEW = 48
_RANKED = ("the nodes are ranked by cost per unit of concurrency",)


class Cluster(NamedTuple):
    """The cluster as this replica knows it."""

    nodes: NodeTable
    lists: PriceLists
    inputs_age_s: dict[str, float]  # seconds since the API server last confirmed each input


def decide(
    request: PlacementRequest, cluster: Cluster, settings: Settings, unix_s: float
) -> Decision[Placement]:
    """Score the offered nodes for the pod. The caller assumes the pod on the best one, in mode enforce.

    Not valid if an input is too old or no offered node is known: then every node scores 0.
    """
    pod, mode, overrides = request.pod, request.mode, request.overrides
    nodes, inputs_age_s = cluster.nodes, cluster.inputs_age_s
    prices = PodPrices(
        pod.cpu_millicores / 1000.0,
        pod.memory_bytes / GIB,
        CONTENTION[settings.contention].work(pod.containers),
        pod.concurrency,
        settings.price_weight if overrides.price_weight is None else overrides.price_weight,
        settings.price_swing if overrides.price_swing is None else overrides.price_swing,
    )
    offered = len(request.node_names)
    oldest = max(inputs_age_s, key=inputs_age_s.__getitem__)
    if inputs_age_s[oldest] > settings.max_input_age_s:
        age_s, limit_s = inputs_age_s[oldest], settings.max_input_age_s
        reason = f"no word of {oldest} for {age_s:.0f} s, more than {limit_s:.0f} s"
        return Decision(Placement(pod, mode, unix_s, prices, offered), (reason,), inputs_age_s, valid=False)
    best = _best(request, prices, cluster)
    if not best:
        reason = "none of the nodes offered is known"
        return Decision(Placement(pod, mode, unix_s, prices, offered), (reason,), inputs_age_s, valid=False)
    ranked = tuple(
        Terms(
            n.name, n.tau_create_s, n.creating + 1, n.turn_s,
            pull_s(n, pod.images, nodes), n.cpu_free, n.memory_free,
        )
        for n in best
    )  # fmt: skip
    return Decision(Placement(pod, mode, unix_s, prices, offered, ranked), _RANKED, inputs_age_s)


def _best(request: PlacementRequest, prices: PodPrices, cluster: Cluster) -> list[Node]:
    kind, nodes = (prices, request.pod.images), cluster.nodes
    found = cluster.lists.of(kind) if len(request.node_names) > _FEW else None
    if found is not None:
        return found.cheapest(request.node_names, HIGHEST_SCORE)
    known = (node for node in map(nodes.get, request.node_names) if node is not None)
    return cheapest(kind, known, nodes, HIGHEST_SCORE)
