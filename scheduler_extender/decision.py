"""Which of the nodes offered should take this pod: the decision of the extender, as one pure step.

Scores: the ten cheapest nodes get 10, 9, ... 1, the rest 0. The scheduler multiplies what it gets by
weight*10 and adds its own plugins' scores; ranks keep the best nodes apart however close or far their
costs lie, where a linear scale would give all of them 10 as soon as one node is terrible. A node left
out of the answer scores 0, so the answer stays ten entries long at any cluster size.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_extender.cost import PodPrices, best_first
from scheduler_extender.model import GIB, HIGHEST_SCORE, Decision, Overrides, PodToPlace
from scheduler_extender.node_table import NodeTable
from scheduler_extender.settings import Settings
from surgekit.modes import Mode

__all__ = ["decide"]


def decide(
    pod: PodToPlace,
    node_names: Sequence[str],
    nodes: NodeTable,
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
    rows = nodes.rows(node_names)
    if not len(rows):
        reason = "none of the nodes offered is known"
        return Decision(pod, mode, False, reason, wall_s, prices, offered, inputs_age_s)
    terms, pulls_s = nodes.terms(rows), nodes.image_pulls_s(rows, pod.images)
    order = best_first(prices.costs(terms, pulls_s), HIGHEST_SCORE)
    return Decision(
        pod,
        mode,
        True,
        "scored",
        wall_s,
        prices,
        offered,
        inputs_age_s,
        nodes_known=len(rows),
        ranked=tuple(map(nodes.name, rows[order].tolist())),
        terms=terms[order],
        pulls_s=pulls_s if isinstance(pulls_s, float) else pulls_s[order],
    )
