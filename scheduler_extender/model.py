"""The words of a placement decision. Millicores and bytes inside, cores and GiB in prices (eq. 9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from surgekit.modes import Mode

__all__ = ["GIB", "Candidate", "Decision", "Overrides", "PodToPlace"]

GIB = float(1 << 30)


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


class Candidate(NamedTuple):  # ten of them a request: a frozen dataclass takes ten times as long to make
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
    """An answer to /prioritize that explains itself. `valid=False`: every node scores the same (0)."""

    pod: PodToPlace
    mode: Mode
    valid: bool
    reason: str
    decided_at: float  # seconds since the epoch
    price_weight: float = 0.0
    price_swing: float = 0.0
    nodes_considered: int = 0
    nodes_unknown: int = 0
    best: tuple[Candidate, ...] = field(default=())
    inputs_age_s: dict[str, float] = field(default_factory=dict)
