"""ComboFunc's deployment cost for one pod on many nodes: eqs (6)-(9) and (11), vectorised.

Pure: columns in, columns out. One element per candidate node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Costs", "NodeColumns", "best_first", "deployment_cost", "price"]

Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """What the cost needs to know of each candidate node."""

    cpu_free_share: Column  # C_n^r / C_n
    memory_free_share: Column  # M_n^r / M_n
    tau_create_s: Column  # tau_n^c
    creating: Column  # containers being created there now, this pod not counted
    image_pull_s: Column  # I_p where the image is missing, 0 where it is present


@dataclass(frozen=True, slots=True)
class Costs:
    deployment: Column  # D_np / Q_p
    scaling_s: Column  # S_np
    resource_price: Column  # B_np
    cpu_price: Column  # beta_n^c
    memory_price: Column  # beta_n^m


def price(free_share: Column, swing: float) -> Column:
    """beta of eqs (7) and (8): free*(1+x) + (1-free)*(1-x), so an empty node is dear, a full one cheap."""
    return 1.0 - swing + (2.0 * swing) * free_share


def deployment_cost(
    nodes: NodeColumns,
    cpu_cores: float,
    memory_gib: float,
    containers: int,
    concurrency: float,
    price_weight: float,
    price_swing: float,
) -> Costs:
    """D_np / Q_p = (S_np + lambda * B_np) / Q_p for every node.

    S_np is eq. (6) for a creation: tau * k + I_p, where k counts the pod considered (design.md). A
    kubelet starts a pod's containers one after the other, so each adds its own tau * k.
    """
    scaling_s = nodes.tau_create_s * (nodes.creating + 1.0) * containers + nodes.image_pull_s
    cpu_price = price(nodes.cpu_free_share, price_swing)
    memory_price = price(nodes.memory_free_share, price_swing)
    resource_price = cpu_price * cpu_cores + memory_price * memory_gib  # eq. (9)
    deployment = (scaling_s + price_weight * resource_price) / concurrency  # eq. (11), per unit of Q_p
    return Costs(deployment, scaling_s, resource_price, cpu_price, memory_price)


def best_first(cost: Column, tie_break: Column, count: int) -> NDArray[np.intp]:
    """Positions of the `count` cheapest nodes, cheapest first; equal costs in the order of `tie_break`."""
    if len(cost) > 4 * count:
        # Partitioning is linear; only the few that matter are sorted. Ties at the edge must not be cut
        # by position, or every pod would see the same few of many equal nodes: hence the tiny nudge.
        nudged = cost * (1.0 + 1e-9 * tie_break)
        chosen = np.argpartition(nudged, count)[:count]
        return chosen[np.argsort(nudged[chosen], kind="stable")]
    return np.lexsort((tie_break, cost))[:count]
