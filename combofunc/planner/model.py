"""Values of a deployment plan (table 1 of the paper). Millicores and bytes are whole numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cluster_model.contention import PAPER, Contention

__all__ = [
    "CUT_SHORT", "Container", "Creation", "Node", "Plan", "PlanRequest", "Planner", "Resize", "Size",
    "Weights",
]  # fmt: skip


# A plan's reason if the search was limited.
CUT_SHORT = "cut short: too many combinations to try all, this is the best of those tried"


@dataclass(frozen=True, slots=True)
class Size:
    """p of P_f: C_p, M_p, Q_p."""

    name: str
    cpu_millicores: int
    memory_bytes: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Node:
    """n: its capacity, what is free, and how fast it creates and resizes containers."""

    name: str
    cpu_millicores: int  # C_n
    memory_bytes: int  # M_n
    cpu_free_millicores: int  # C_n^r; the function's own containers count as used
    memory_free_bytes: int  # M_n^r
    pods_free: int
    creating: int  # k_n: containers being created there now
    tau_create_s: float  # tau_n^c times work(m): a pod of the function, created alone
    tau_resize_s: float  # tau_n^u
    image_pull_s: float = 0.0  # I_p; 0 if the node has the image
    accepts: bool = True  # takes new containers; False: cordoned, tainted, not Ready, or not selected


@dataclass(frozen=True, slots=True)
class Container:
    """A container of the function that runs or is being created. Not kept if its size is not offered."""

    pod: str
    node: str
    size: Size
    resizable: bool = True  # False: being created, or its last resize is not done
    least_memory_bytes: int = 0  # with a size below this it keeps the memory it holds

    def memory_as(self, size: Size) -> int:
        """Memory it holds after a resize to this size."""
        if size.memory_bytes >= self.least_memory_bytes:
            return size.memory_bytes
        return max(self.size.memory_bytes, self.least_memory_bytes)


@dataclass(frozen=True, slots=True)
class Resize:
    container: Container
    to: Size


@dataclass(frozen=True, slots=True)
class Creation:
    node: str
    size: Size


@dataclass(frozen=True, slots=True)
class Weights:
    """lambda of eq. (11), in seconds per priced unit (a core or GiB at price 1), and x of eqs (7), (8)."""

    price_weight: float = 0.25
    price_swing: float = 0.5
    in_place: bool = True  # False: no resizes, the paper's ComboFunc without in-place


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """One function with its target, its sizes, its containers, and the nodes. Lists may be in any order."""

    sizes: Sequence[Size]  # P_f: the sizes on offer
    nodes: Sequence[Node]
    containers: Sequence[Container]
    target: int  # Q'
    weights: Weights = Weights()
    contention: Contention = PAPER  # the form of eq. (6); the controller passes its setting


@dataclass(frozen=True, slots=True)
class Plan:
    """R_f(Q'): what to keep, resize, remove and create."""

    target: int  # Q'
    kept: tuple[Container, ...]
    resized: tuple[Resize, ...]
    removed: tuple[Container, ...]
    created: tuple[Creation, ...]  # in order of creation
    scaling_s: float  # sum of S_np over all changes
    resource_price: float  # sum of B_np over all containers afterwards
    cost: float  # scaling_s + lambda * resource_price
    reasons: tuple[str, ...] = ()

    @property
    def concurrency(self) -> int:
        """Concurrency afterwards: the sum of X_np * Q_p."""
        sizes = (*(c.size for c in self.kept), *(r.to for r in self.resized), *(c.size for c in self.created))
        return sum(size.concurrency for size in sizes)

    @property
    def shortage(self) -> int:
        """Concurrency below the target, because no node has room."""
        return max(self.target - self.concurrency, 0)

    @property
    def replicas(self) -> Mapping[str, int]:
        """Number of containers afterwards, by name of size."""
        sizes = (*(c.size for c in self.kept), *(r.to for r in self.resized), *(c.size for c in self.created))
        return Counter(size.name for size in sizes)


Planner = Callable[[PlanRequest], Plan]
