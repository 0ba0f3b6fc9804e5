"""ComboFunc's deployment cost of one pod on one node: eqs (6)-(9) and (11). Pure.

    D_np / Q_p = (S_np + lambda * B_np) / Q_p                                            (11), Algorithm 1
    S_np       = work(m) * tau_n * slowdown(k_n) + I_p                                   (6), contention.py
    B_np       = beta_n^c * C_p + beta_n^m * M_p                                         (9)
    beta_n     = free_n * (1+x) + (1-free_n) * (1-x)  =  (1-x) + 2x * free_n             (7), (8)

k_n includes the pod itself (docs/decisions/reading-the-papers.md).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PodPrices", "price"]


def price(free_share: float, swing: float) -> float:
    """beta of eqs (7) and (8): 1+x on an empty node, 1-x on a full one."""
    return 1.0 - swing + 2.0 * swing * free_share


@dataclass(frozen=True, slots=True)
class PodPrices:
    """The pod's part of the cost: C_p, M_p, work(m) and Q_p, with lambda and x."""

    cpu_cores: float
    memory_gib: float
    work: float
    concurrency: float
    price_weight: float
    price_swing: float

    def resource_price(self, cpu_free: float, memory_free: float) -> float:
        """B_np, eq. (9)."""
        cpu, memory = price(cpu_free, self.price_swing), price(memory_free, self.price_swing)
        return cpu * self.cpu_cores + memory * self.memory_gib

    def scaling_s(self, turn_s: float, image_pull_s: float) -> float:
        """S_np, eq. (6); `turn_s` is tau_n * slowdown(k_n)."""
        return self.work * turn_s + image_pull_s

    def cost(self, turn_s: float, image_pull_s: float, cpu_free: float, memory_free: float) -> float:
        """D_np / Q_p."""
        scaling_s = self.scaling_s(turn_s, image_pull_s)
        return (scaling_s + self.price_weight * self.resource_price(cpu_free, memory_free)) / self.concurrency
