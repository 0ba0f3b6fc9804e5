"""The words of a placement decision. Millicores and bytes inside, cores and GiB in prices (eq. 9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler_extender.cost import PodPrices, price
from surgekit.modes import Mode

__all__ = ["GIB", "HIGHEST_SCORE", "Candidate", "Decision", "Overrides", "PodToPlace"]

GIB = float(1 << 30)
HIGHEST_SCORE = 10  # MaxExtenderPriority in k8s.io/kube-scheduler/extender/v1


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a pod's or namespace's annotations change; None leaves the setting."""

    price_weight: float | None = None
    price_swing: float | None = None
    concurrency: float = 1.0


@dataclass(frozen=True, slots=True)
class PodToPlace:
    """One pod as the cost model sees it: C_p, M_p, Q_p, its containers and its images."""

    uid: str
    namespace: str
    name: str
    cpu_millicores: float
    memory_bytes: float
    containers: int
    images: tuple[str, ...] = ()
    concurrency: float = 1.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One node's terms: why it has the score it has."""

    node: str
    score: int
    cost: float  # D_np / Q_p
    scaling_s: float  # S_np, eq. (6)
    resource_price: float  # B_np, eq. (9)
    tau_create_s: float
    creating: int  # k_n, the pod considered included
    image_pull_s: float  # I_p on this node
    cpu_price: float  # beta_n^c, eq. (7)
    memory_price: float  # beta_n^m, eq. (8)


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer to /prioritize that explains itself. `valid=False`: every node scores the same (0).

    `terms` (a row of cost.COLUMNS a node) and `pulls_s` are the inputs of the best nodes as they were;
    `candidates` spells them out when somebody asks, off the hot path.
    """

    pod: PodToPlace
    mode: Mode
    valid: bool
    reason: str
    decided_at: float  # seconds since the epoch
    prices: PodPrices
    nodes_offered: int
    inputs_age_s: dict[str, float]
    nodes_known: int = 0
    ranked: tuple[str, ...] = ()  # the best nodes, cheapest first: scores 10, 9, ...
    terms: NDArray[np.float64] | None = None
    pulls_s: NDArray[np.float64] | float = 0.0

    def candidates(self) -> list[Candidate]:
        if self.terms is None:
            return []
        pulls_s = np.broadcast_to(self.pulls_s, len(self.ranked)).tolist()
        return [
            _candidate(node, HIGHEST_SCORE - rank, self.prices, row, pull_s)
            for rank, (node, row, pull_s) in enumerate(
                zip(self.ranked, self.terms.tolist(), pulls_s, strict=True)
            )
        ]


def _candidate(node: str, score: int, prices: PodPrices, row: list[float], pull_s: float) -> Candidate:
    turn_s, cpu_free, memory_free, _, tau_create_s, creating = row
    return Candidate(
        node=node,
        score=score,
        cost=prices.cost(turn_s, pull_s, cpu_free, memory_free),
        scaling_s=prices.containers * turn_s + pull_s,
        resource_price=prices.resource_price(cpu_free, memory_free),
        tau_create_s=tau_create_s,
        creating=int(creating),
        image_pull_s=pull_s,
        cpu_price=price(cpu_free, prices.price_swing),
        memory_price=price(memory_free, prices.price_swing),
    )
