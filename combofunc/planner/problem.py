"""A plan request as arrays: checked, ordered and priced. Both planners start here.

Everything is ordered by name, so the order of the input does not matter. Nodes that are not listed but have
containers come last. Such containers can only be kept (at price 1) or removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from cluster_model.contention import Sharing
from cluster_model.cost import price
from combofunc.planner.model import Container, Node, PlanRequest, Size, Weights

__all__ = ["CORE_MILLICORES", "GIB", "Floats", "Problem", "Slowdowns", "Whole", "prepare"]

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

GIB = 2**30
CORE_MILLICORES = 1000
# With lambda = 0 keeping a container would cost nothing. Among plans that take the same time we want the one
# that reserves less, so resources keep a tiny price.
_LEAST_PRICE_WEIGHT = 1e-6
_COLUMNS = (
    "cpu_millicores",
    "memory_bytes",
    "cpu_free_millicores",
    "memory_free_bytes",
    "pods_free",
    "creating",
    "tau_create_s",
    "tau_resize_s",
    "image_pull_s",
    "accepts",
)


@dataclass(frozen=True, slots=True, eq=False)
class Slowdowns:
    """How much jobs on one node slow each other down, by their number."""

    each: Floats  # of the i-th job; the 0th is 0
    total: Floats  # of the first i jobs together


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Arrays have one element a node. Whole numbers in them are exact (below 2**53)."""

    sizes: tuple[Size, ...]
    nodes: tuple[Node, ...]  # the listed ones
    names: tuple[str, ...]  # of all nodes, also those not listed
    containers: tuple[Container, ...]  # can be kept or resized; alike ones are neighbours
    gone: tuple[Container, ...]  # can neither be kept nor resized
    own: Mapping[int, tuple[int, ...]]  # containers by node
    known_sizes: tuple[Size, ...]  # the offered ones, then those that only containers have
    size_of: tuple[int, ...]  # by container, in known_sizes
    keepable: tuple[bool, ...]
    resizable: tuple[bool, ...]
    target: int
    weights: Weights
    cpu_free: Floats  # C_n^r in millicores, including what `gone` containers release
    memory_free: Floats
    pods_free: Floats
    creating: Whole
    tau_create_s: Floats
    tau_resize_s: Floats
    image_pull_s: Floats
    accepts: NDArray[np.bool_]
    cpu_beta: Floats  # eq. (7), at the start of the plan
    memory_beta: Floats  # eq. (8)
    cpu_price: Floats  # lambda * beta of a millicore
    memory_price: Floats  # lambda * beta of a byte
    creation: Slowdowns
    resize: Slowdowns

    @property
    def price_weight(self) -> float:
        return max(self.weights.price_weight, _LEAST_PRICE_WEIGHT)

    def prices(self, nodes: Sequence[int] | slice) -> Floats:
        """lambda * B_np, by node and size."""
        cpu = np.array([size.cpu_millicores for size in self.sizes], dtype=float)
        memory = np.array([size.memory_bytes for size in self.sizes], dtype=float)
        found: Floats = self.cpu_price[nodes, None] * cpu + self.memory_price[nodes, None] * memory
        return found


def prepare(request: PlanRequest) -> Problem:
    """Raises ValueError that names the wrong input."""
    _check(request)
    containers, weights = request.containers, request.weights
    offered = sorted(request.sizes, key=_order)
    known = {size: i for i, size in enumerate(offered)}
    listed = sorted(request.nodes, key=attrgetter("name"))
    index = {node.name: i for i, node in enumerate(listed)}
    strange = sorted({c.node for c in containers} - index.keys())
    index |= {name: len(listed) + i for i, name in enumerate(strange)}

    def moves(container: Container) -> bool:
        return weights.in_place and container.resizable and index[container.node] < len(listed)

    in_order = sorted(containers, key=lambda c: (c.node, _order(c.size), not c.resizable, c.pod))
    stay: list[Container] = []
    gone: list[Container] = []
    size_of: list[int] = []
    own: dict[int, list[int]] = {}
    for container in in_order:
        size = known.setdefault(container.size, len(known))
        if size < len(offered) or moves(container):
            at = index[container.node]
            own.setdefault(at, []).append(len(stay))
            stay.append(container)
            size_of.append(size)
        else:
            gone.append(container)

    columns = np.zeros((len(_COLUMNS), len(index)))
    for column, name in zip(columns, _COLUMNS, strict=True):
        column[: len(listed)] = list(map(attrgetter(name), listed))
    capacity, free, seconds = columns[:2], columns[2:4], columns[6:9]
    cpu_free, memory_free, pods_free, creating, tau_create, tau_resize, pull, accepts = columns[2:]
    _check_seconds(listed, seconds)
    betas = _betas(free, capacity, weights.price_swing)
    betas[:, len(listed) :] = 1.0
    cpu_beta, memory_beta = betas
    for container in gone:
        at = index[container.node]
        cpu_free[at] += container.size.cpu_millicores
        memory_free[at] += container.size.memory_bytes
        pods_free[at] += 1
    price_weight = max(weights.price_weight, _LEAST_PRICE_WEIGHT)
    most_own = max(map(len, own.values()), default=0)
    most_new = min(int(pods_free.max(initial=0)), request.target) + most_own + 1
    most_creating = int(creating.max(initial=0))
    return Problem(
        sizes=tuple(offered),
        nodes=tuple(listed),
        names=tuple(index),
        containers=tuple(stay),
        gone=tuple(gone),
        own={at: tuple(here) for at, here in own.items()},
        known_sizes=tuple(known),
        size_of=tuple(size_of),
        keepable=tuple(size < len(offered) for size in size_of),
        resizable=tuple(moves(c) for c in stay),
        target=request.target,
        weights=weights,
        cpu_free=cpu_free,
        memory_free=memory_free,
        pods_free=pods_free,
        creating=creating.astype(np.int64),
        tau_create_s=tau_create,
        tau_resize_s=tau_resize,
        image_pull_s=pull,
        accepts=accepts.astype(bool),
        cpu_beta=cpu_beta,
        memory_beta=memory_beta,
        cpu_price=price_weight * cpu_beta / CORE_MILLICORES,
        memory_price=price_weight * memory_beta / GIB,
        creation=_slowdowns(request.contention.creation, most_creating + most_new),
        resize=_slowdowns(request.contention.resize, most_new),
    )


def _order(size: Size) -> tuple[int, int, int, str]:
    return size.concurrency, size.cpu_millicores, size.memory_bytes, size.name


def _betas(free: Floats, capacity: Floats, swing: float) -> Floats:
    """Eqs (7), (8): linear from full to empty. A node over-committed or without capacity counts as full."""
    share = np.clip(np.divide(free, capacity, out=np.zeros_like(free), where=capacity > 0), 0.0, 1.0)
    full, empty = price(0.0, swing), price(1.0, swing)
    betas: Floats = full + (empty - full) * share
    return betas


def _check(request: PlanRequest) -> None:
    sizes, weights = request.sizes, request.weights
    if not sizes:
        raise ValueError("sizes: none offered")
    for size in (*sizes, *(c.size for c in request.containers)):
        if size.concurrency < 1:
            raise ValueError(f"size {size.name!r}: concurrency {size.concurrency} is below 1")
        if size.cpu_millicores < 0 or size.memory_bytes < 0:
            raise ValueError(
                f"size {size.name!r}: {size.cpu_millicores} millicores, {size.memory_bytes} bytes: below 0"
            )
    _once("size", [size.name for size in sizes])
    _once("node", [node.name for node in request.nodes])
    _once("pod", [container.pod for container in request.containers])
    if request.target < 0:
        raise ValueError(f"target: {request.target} is below 0")
    if not 0 <= weights.price_weight < np.inf:
        raise ValueError(f"price_weight: {weights.price_weight} must be 0 or more, and finite")
    if not 0 <= weights.price_swing <= 1:
        raise ValueError(f"price_swing: {weights.price_swing} is not within 0..1")


def _slowdowns(sharing: Sharing, most: int) -> Slowdowns:
    each = np.array([0.0, *map(sharing.slowdown, range(1, most + 1))])
    return Slowdowns(each, np.cumsum(each))


def _check_seconds(nodes: Sequence[Node], seconds: Floats) -> None:
    for i in np.flatnonzero(~((seconds >= 0) & (seconds < np.inf)).all(axis=0)):
        node = nodes[int(i)]
        raise ValueError(
            f"node {node.name!r}: tau_create_s {node.tau_create_s}, tau_resize_s {node.tau_resize_s}, "
            f"image_pull_s {node.image_pull_s}: each must be 0 or more, and finite"
        )


def _once(what: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        name, times = Counter(names).most_common(1)[0]
        raise ValueError(f"{what} {name!r}: {times} times")
