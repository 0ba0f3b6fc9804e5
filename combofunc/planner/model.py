"""The words of a deployment plan (table 1 of the paper). Millicores and bytes are whole numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "CUT_SHORT", "Container", "Creation", "Node", "Plan", "PlanRequest", "Planner", "Resize", "Size",
    "Weights",
]  # fmt: skip


# One of a plan's reasons.
CUT_SHORT = "cut short: there are too many ways to look at all, this is the best of those looked at"


@dataclass(frozen=True, slots=True)
class Size:
    """p of P_f: C_p, M_p, Q_p."""

    name: str
    cpu_millicores: int
    memory_bytes: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Node:
    """n: its capacity, what is left of it beside all that runs there, and how fast it works."""

    name: str
    cpu_millicores: int  # C_n
    memory_bytes: int  # M_n
    cpu_free_millicores: int  # C_n^r; the function's own containers are taken off
    memory_free_bytes: int  # M_n^r
    pods_free: int
    creating: int  # k_n: containers being created there now
    tau_create_s: float  # tau_n^c
    tau_resize_s: float  # tau_n^u
    image_pull_s: float = 0.0  # I_p; 0 where the image is there
    accepts: bool = True  # new containers; False: cordoned, tainted, not Ready, or not selected


@dataclass(frozen=True, slots=True)
class Container:
    """One of the function's that runs or is on its way. A size that is not offered any more is not kept."""

    pod: str
    node: str
    size: Size
    resizable: bool = True  # False: on its way, or its last resize is not over
    least_memory_bytes: int = 0  # above its size's: what it holds. As a size with less it keeps what it holds

    def memory_as(self, size: Size) -> int:
        """What it holds as that size."""
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
    """Of eq. (11): lambda in seconds per priced unit (a core or GiB at price 1), x of eqs (7) and (8)."""

    price_weight: float = 0.25
    price_swing: float = 0.5
    in_place: bool = True  # False: the paper's ComboFunc without in-place


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """One function with its target, its sizes, its containers, and the nodes. Lists may be in any order."""

    sizes: Sequence[Size]  # P_f: the sizes on offer
    nodes: Sequence[Node]
    containers: Sequence[Container]
    target: int  # Q'
    weights: Weights = Weights()


@dataclass(frozen=True, slots=True)
class Plan:
    """R_f(Q'). What is short of the target fits nowhere."""

    target: int  # Q'
    kept: tuple[Container, ...]
    resized: tuple[Resize, ...]
    removed: tuple[Container, ...]
    created: tuple[Creation, ...]  # in the order they are to be created
    scaling_s: float  # the sum of S_np over what changes
    resource_price: float  # the sum of B_np over what will be there
    cost: float  # scaling_s + lambda * resource_price
    reasons: tuple[str, ...] = ()

    @property
    def concurrency(self) -> int:
        """Of all that will be there: the sum of X_np * Q_p."""
        sizes = (*(c.size for c in self.kept), *(r.to for r in self.resized), *(c.size for c in self.created))
        return sum(size.concurrency for size in sizes)

    @property
    def shortage(self) -> int:
        return max(self.target - self.concurrency, 0)

    @property
    def replicas(self) -> Mapping[str, int]:
        """By size."""
        sizes = (*(c.size for c in self.kept), *(r.to for r in self.resized), *(c.size for c in self.created))
        return Counter(size.name for size in sizes)


Planner = Callable[[PlanRequest], Plan]
