"""The values of a placement decision. Millicores and bytes inside, cores and GiB in prices (eq. 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cluster_model.cost import PodPrices, price
from cluster_model.model import PodToPlace
from surgekit.process.modes import Mode

__all__ = ["HIGHEST_SCORE", "Candidate", "Overrides", "Placement", "PlacementRequest", "Terms"]

HIGHEST_SCORE = 10  # MaxExtenderPriority in k8s.io/kube-scheduler/extender/v1


@dataclass(frozen=True, slots=True)
class Overrides:
    """Values from the annotations of a pod or namespace; None keeps the setting."""

    price_weight: float | None = None
    price_swing: float | None = None
    concurrency: float = 1.0


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """One pod to score, and the nodes that the scheduler offers for it."""

    pod: PodToPlace
    node_names: frozenset[str]
    mode: Mode
    overrides: Overrides


class Terms(NamedTuple):
    """A node's inputs to the cost at the moment the pod was scored."""

    node: str
    tau_create_s: float
    creating: int  # k_n, with the pod being scored
    turn_s: float  # tau_create_s slowed down by k_n
    image_pull_s: float
    cpu_free: float
    memory_free: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """Why a node has its score: each term of its cost."""

    node: str
    score: int
    cost: float  # D_np / Q_p
    scaling_s: float  # S_np, eq. (6)
    resource_price: float  # B_np, eq. (9)
    tau_create_s: float
    creating: int  # k_n, with the pod being scored
    image_pull_s: float  # I_p on this node
    cpu_price: float  # beta_n^c, eq. (7)
    memory_price: float  # beta_n^m, eq. (8)


class Placement(NamedTuple):
    """What to answer to /prioritize, and what it was computed from. A tuple: made on the hot path."""

    pod: PodToPlace
    mode: Mode
    decided_at: float  # seconds since the epoch
    prices: PodPrices
    nodes_offered: int
    ranked: tuple[Terms, ...] = ()  # the best nodes, cheapest first: scores 10, 9, ...

    def candidates(self) -> list[Candidate]:
        """The best nodes with all terms of their cost. Computed on demand, off the hot path."""
        return [
            _candidate(terms, HIGHEST_SCORE - rank, self.prices) for rank, terms in enumerate(self.ranked)
        ]


def _candidate(terms: Terms, score: int, prices: PodPrices) -> Candidate:
    return Candidate(
        node=terms.node,
        score=score,
        cost=prices.cost(terms.turn_s, terms.image_pull_s, terms.cpu_free, terms.memory_free),
        scaling_s=prices.scaling_s(terms.turn_s, terms.image_pull_s),
        resource_price=prices.resource_price(terms.cpu_free, terms.memory_free),
        tau_create_s=terms.tau_create_s,
        creating=terms.creating,
        image_pull_s=terms.image_pull_s,
        cpu_price=price(terms.cpu_free, prices.price_swing),
        memory_price=price(terms.memory_free, prices.price_swing),
    )
