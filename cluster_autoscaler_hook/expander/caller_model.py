"""Models Cluster Autoscaler, the caller: how it computes its options, and what it does with the chosen one.

In every loop it tries each node group alone: it sorts the pods that the group's nodes could take by size and
packs them on new nodes (estimator/binpacking_estimator.go, decreasing_pod_orderer.go). The group that the
expander names gets *all* those nodes. Pods that do not fit the group are left for the next loop
(core/scaleup/orchestrator). So a chosen group takes every pod it can help, and an expander cannot carry out a
plan that mixes two classes for the same pods.

Taken from the source: the order of the pods (cpu/allocatable + memory/allocatable, descending). Pods go round
the nodes opened so far, and each search starts after the node found last (`lastIndex` in the predicate
runner). Then they go onto new nodes, which are filled one by one. Max pods, extended resources, one-per-node
pods and the group's maximum size count. The templates do not show DaemonSet pods, which the caller subtracts;
`overhead` does that here. The tests check it against recorded requests of 1.36.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cluster_autoscaler_hook.expander.model import Demand, Kind, Offer, Option, Template

__all__ = ["Estimate", "Overhead", "estimate", "offer"]

_Ints = NDArray[np.int64]
# Means "no limit": more pods than any node takes, and small enough that sums do not overflow.
_MANY = 1 << 31


@dataclass(frozen=True, slots=True)
class Overhead:
    """The resources that DaemonSet pods take on every new node."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    pods: int = 0

    def off(self, template: Template) -> Template:
        return replace(
            template,
            cpu_millis=max(0, template.cpu_millis - self.cpu_millis),
            memory_bytes=max(0, template.memory_bytes - self.memory_bytes),
            max_pods=max(0, template.max_pods - self.pods),
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """`nodes` new nodes take `placed` pods of each kind."""

    nodes: int
    placed: Mapping[int, int]


def estimate(
    template: Template, kinds: Sequence[Kind], counts: Mapping[int, int], max_nodes: int = _MANY
) -> Estimate:
    """The caller's BinpackingNodeEstimator, for `counts` pods of each kind."""
    names = sorted({name for kind in counts for name, _ in kinds[kind].demand.others})
    empty = _vector(template.cpu_millis, template.memory_bytes, template.max_pods, template.others, names)
    free: _Ints = np.empty((0, len(empty)), dtype=np.int64)
    placed: dict[int, int] = {}
    start = 0
    order = sorted(counts, key=lambda kind: (-_size(kinds[kind].demand, template), kind))
    for kind in order:
        demand, left = kinds[kind].demand, counts[kind]
        need = _vector(demand.cpu_millis, demand.memory_bytes, 1, dict(demand.others), names)
        taken, start = _go_round(_fitting(free, need, demand.alone), left, start)
        free = free - np.outer(taken, need)
        left -= int(taken.sum())
        per_node = int(_fitting(empty[None, :], need, demand.alone)[0])
        nodes = min(-(-left // per_node), max_nodes - len(free)) if per_node else 0
        if nodes > 0:
            fresh = np.full(nodes, per_node, dtype=np.int64)
            fresh[-1] = min(per_node, left - per_node * (nodes - 1))
            free = np.vstack([free, empty - np.outer(fresh, need)])
            left -= int(fresh.sum())
        if counts[kind] > left:
            placed[kind] = counts[kind] - left
    return Estimate(len(free), placed)


def _vector(cpu: int, memory: int, pods: int, others: Mapping[str, int], names: Sequence[str]) -> _Ints:
    return np.array([cpu, memory, pods, *(others.get(name, 0) for name in names)], dtype=np.int64)


def _size(demand: Demand, template: Template) -> float:
    size = demand.cpu_millis / template.cpu_millis if template.cpu_millis else 0.0
    return size + (demand.memory_bytes / template.memory_bytes if template.memory_bytes else 0.0)


def _fitting(free: _Ints, need: _Ints, alone: bool) -> _Ints:
    """The number of such pods that fit each node."""
    wanted = need > 0
    found: _Ints = (free[:, wanted] // need[wanted]).min(axis=1)  # every pod needs at least one of max_pods
    return np.minimum(found, 1) if alone else found


def _go_round(room: _Ints, pods: int, start: int) -> tuple[_Ints, int]:
    """Give nodes one pod each in turn. Return the pods of each node, and where the next search starts."""
    if int(room.sum()) <= pods:
        return room, start
    low, high = 0, int(room.max())
    while low < high:  # find the largest number of whole rounds
        middle = (low + high + 1) // 2
        low, high = (middle, high) if int(np.minimum(room, middle).sum()) <= pods else (low, middle - 1)
    taken: _Ints = np.minimum(room, low)
    rest = pods - int(taken.sum())
    if rest == 0:
        return taken, start
    turn = (np.arange(len(room)) + start) % len(room)
    last_round = turn[room[turn] > low][:rest]
    taken[last_round] += 1
    return taken, int(last_round[-1] + 1) % len(room)


def offer(
    templates: Sequence[Template],
    kinds: Sequence[Kind],
    pending: Sequence[int],
    room: Mapping[str, int],
    overhead: Overhead = Overhead(),  # noqa: B008  # frozen
) -> Offer:
    """The request that the caller would send. `room`: the number of nodes each group may still grow by."""
    options, seen = [], {}
    for template in templates:
        group = template.group
        wanted = {i: n for i, n in enumerate(pending) if n and group in kinds[i].groups}
        found = estimate(overhead.off(template), kinds, wanted, room.get(group, _MANY))
        if found.nodes and found.placed:
            options.append(Option(group, found.nodes, found.placed))
            seen[group] = template
    helped = {kind for option in options for kind in option.pods}
    shown = tuple(n if i in helped else 0 for i, n in enumerate(pending))
    return Offer(tuple(options), seen, tuple(kinds), shown)
