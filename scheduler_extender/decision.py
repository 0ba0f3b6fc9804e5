"""Which of the nodes offered should take this pod: the decision of the extender, as one pure step.

Scores: the ten cheapest nodes get 10, 9, ... 1, the rest 0. The scheduler multiplies what it gets by
weight*10 and adds its own plugins' scores; ranks keep the best nodes apart however close or far their
costs lie, where a linear scale would give all of them 10 as soon as one node is terrible. A node left
out of the answer scores 0, so the answer stays ten entries long at any cluster size.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from scheduler_extender.cluster_state import ClusterState
from scheduler_extender.cost import best_first, deployment_cost
from scheduler_extender.model import GIB, Candidate, Decision, Overrides, PodToPlace
from scheduler_extender.settings import Settings
from surgekit.modes import Mode

__all__ = ["HIGHEST_SCORE", "decide"]

HIGHEST_SCORE = 10  # MaxExtenderPriority in k8s.io/kube-scheduler/extender/v1


def decide(
    pod: PodToPlace,
    node_names: Sequence[str],
    cluster: ClusterState,
    mode: Mode,
    overrides: Overrides,
    settings: Settings,
    inputs_age_s: dict[str, float],
    now_s: float,
    wall_s: float,
) -> Decision:
    """Score the nodes for the pod. Presumes nothing: that is the caller's act, if the mode is enforce."""
    weight = settings.price_weight if overrides.price_weight is None else overrides.price_weight
    swing = settings.price_swing if overrides.price_swing is None else overrides.price_swing

    def neutral(reason: str) -> Decision:
        return Decision(pod, mode, False, reason, wall_s, weight, swing, len(node_names), 0, (), inputs_age_s)

    oldest = max(inputs_age_s, key=inputs_age_s.__getitem__)
    if inputs_age_s[oldest] > settings.max_input_age_s:
        return neutral(
            f"no word of {oldest} for {inputs_age_s[oldest]:.0f} s, more than {settings.max_input_age_s:.0f} s"
        )
    rows = cluster.rows(node_names)
    known = len(rows)
    if not known:
        return neutral("none of the nodes offered is known")
    nodes = cluster.columns(rows, pod.images, now_s)
    costs = deployment_cost(
        nodes,
        pod.cpu_millicores / 1000.0,
        pod.memory_bytes / GIB,
        pod.containers,
        pod.concurrency,
        weight,
        swing,
    )
    order = best_first(
        costs.deployment, cluster.tie_break(rows, crc32(pod.uid.encode())), min(HIGHEST_SCORE, known)
    )
    best = tuple(
        map(
            Candidate,
            [cluster.name(row) for row in rows[order].tolist()],
            range(HIGHEST_SCORE, 0, -1),
            costs.deployment[order].tolist(),
            costs.scaling_s[order].tolist(),
            costs.resource_price[order].tolist(),
            nodes.tau_create_s[order].tolist(),
            [int(k) + 1 for k in nodes.creating[order].tolist()],
            nodes.image_pull_s[order].tolist(),
            costs.cpu_price[order].tolist(),
            costs.memory_price[order].tolist(),
        )
    )
    return Decision(
        pod, mode, True, "scored", wall_s, weight, swing, known, len(node_names) - known, best, inputs_age_s
    )
