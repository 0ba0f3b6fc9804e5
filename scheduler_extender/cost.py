"""ComboFunc's deployment cost of one pod on many nodes: eqs (6)-(9) and (11). Pure.

For a given pod the cost is linear in three numbers of a node, so that pricing every candidate is one
product of a table with a vector:

    D_np / Q_p = (S_np + lambda * B_np) / Q_p                                            (11), Algorithm 1
    S_np       = m * tau_n * k_n + I_p                                                   (6)
    B_np       = beta_n^c * C_p + beta_n^m * M_p                                         (9)
    beta_n     = free_n * (1+x) + (1-free_n) * (1-x)  =  (1-x) + 2x * free_n             (7), (8)

k_n counts the pod considered (design.md). A kubelet starts a pod's m containers one after the other,
so each takes its own tau_n * k_n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLUMNS", "PodPrices", "best_first", "price"]

# Columns of the node table: tau_n * k_n, the free shares of cpu and memory, a tie-breaker in 0..1; and
# tau_n and k_n by themselves, which the cost does not need but its explanation does.
COLUMNS = ("turn_s", "cpu_free", "memory_free", "tie", "tau_create_s", "creating")
_TIE_WEIGHT = 1e-9  # seconds: orders equal nodes, and nothing else


def price(free_share: float, swing: float) -> float:
    """beta of eqs (7) and (8): an empty node is dear (1+x), a full one cheap (1-x)."""
    return 1.0 - swing + 2.0 * swing * free_share


@dataclass(frozen=True, slots=True)
class PodPrices:
    """One pod's side of the cost: C_p, M_p, m and Q_p with lambda and x."""

    cpu_cores: float
    memory_gib: float
    containers: int
    concurrency: float
    price_weight: float
    price_swing: float

    def resource_price(self, cpu_free: float, memory_free: float) -> float:
        """B_np, eq. (9)."""
        cpu, memory = price(cpu_free, self.price_swing), price(memory_free, self.price_swing)
        return cpu * self.cpu_cores + memory * self.memory_gib

    def cost(self, turn_s: float, image_pull_s: float, cpu_free: float, memory_free: float) -> float:
        """D_np / Q_p for one node, term by term as the paper has it."""
        scaling_s = self.containers * turn_s + image_pull_s
        return (scaling_s + self.price_weight * self.resource_price(cpu_free, memory_free)) / self.concurrency

    def costs(
        self, nodes: NDArray[np.float64], image_pull_s: NDArray[np.float64] | float
    ) -> NDArray[np.float64]:
        """D_np / Q_p for every row of `nodes` (columns as above), up to what is the same for all of them."""
        swing = 2.0 * self.price_swing * self.price_weight
        weights = np.array(
            [self.containers, swing * self.cpu_cores, swing * self.memory_gib, _TIE_WEIGHT, 0, 0]
        )
        costs: NDArray[np.float64] = (nodes @ weights + image_pull_s) / self.concurrency
        return costs


def best_first(costs: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Positions of the `count` cheapest, cheapest first."""
    if len(costs) <= count:
        return np.argsort(costs, kind="stable")
    chosen = np.argpartition(costs, count)[:count]  # linear; only the few that matter are sorted
    return chosen[np.argsort(costs[chosen], kind="stable")]
