"""kube-scheduler's choice of a node, as its default profile scores (Kubernetes 1.36, pkg/scheduler).

Filters: cpu, memory and pods fit. Scores: LeastAllocated (weight 1), BalancedAllocation (1; how much better
or worse balanced the node is with the pod than without), PodTopologySpread (2; the default constraint on
hostnames). What is the same on all nodes here is left out: ImageLocality (every node has the image, or at
16 of 16 nodes the same score), taints, affinities, zones. One of the best is taken at random. A lab test
lets the real kube-scheduler place pods and finds each on a node that is among the best here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.combofunc.model import NodeView
from experiments.combofunc.workload import Size

__all__ = ["best_nodes", "fits", "place", "taken"]

_MOST = 100  # fwk.MaxNodeScore
_MAX_SKEW = 3  # of the default constraint on hostnames


def fits(node: NodeView, size: Size) -> bool:
    return (
        node.cpu_free_millicores >= size.cpu_millicores
        and node.memory_free_bytes >= size.memory_bytes
        and node.pods_free >= 1
    )


def taken(node: NodeView, size: Size) -> NodeView:
    """The node with one more such pod."""
    return replace(
        node,
        cpu_free_millicores=node.cpu_free_millicores - size.cpu_millicores,
        memory_free_bytes=node.memory_free_bytes - size.memory_bytes,
        pods_free=node.pods_free - 1,
        creating=node.creating + 1,
    )


def best_nodes(nodes: Sequence[NodeView], size: Size, siblings: Mapping[str, int]) -> list[str]:
    """Those with the highest score for a pod of a function with so many pods on each node."""
    possible = [node for node in nodes if fits(node, size)]
    if not possible:
        return []
    # The weight counts all nodes that pass the filters (topologyNormalizingWeight).
    weight = math.log(len(possible) + 2)
    spread = [round(siblings.get(node.name, 0) * weight + _MAX_SKEW - 1) for node in possible]
    most, least = max(spread), min(spread)
    scores = [
        _least_allocated(node, size) + _balanced(node, size) + 2 * (_MOST * (most + least - s) // most)
        for node, s in zip(possible, spread, strict=True)
    ]
    best = max(scores)
    return [node.name for node, score in zip(possible, scores, strict=True) if score == best]


def place(
    nodes: Sequence[NodeView], size: Size, count: int, siblings: Mapping[str, int], draw: random.Random
) -> list[str]:
    """Where `count` pods go, one after the other; fewer when no more fit."""
    by_name, siblings, placed = {node.name: node for node in nodes}, dict(siblings), list[str]()
    for _ in range(count):
        best = best_nodes(list(by_name.values()), size, siblings)
        if not best:
            break
        name = draw.choice(best)
        placed.append(name)
        by_name[name] = taken(by_name[name], size)
        siblings[name] = siblings.get(name, 0) + 1
    return placed


def _least_allocated(node: NodeView, size: Size) -> int:
    free = (
        (node.cpu_free_millicores - size.cpu_millicores, node.cpu_millicores),
        (node.memory_free_bytes - size.memory_bytes, node.memory_bytes),
    )
    return sum(left * _MOST // whole for left, whole in free) // 2


def _balanced(node: NodeView, size: Size) -> int:
    difference = _evenness(node, size.cpu_millicores, size.memory_bytes) - _evenness(node, 0, 0)
    return _MOST // 2 + int((_MOST // 2 + difference) / 2)  # Go divides toward zero


def _evenness(node: NodeView, cpu_millicores: int, memory_bytes: int) -> int:
    cpu = (node.cpu_millicores - node.cpu_free_millicores + cpu_millicores) / node.cpu_millicores
    memory = (node.memory_bytes - node.memory_free_bytes + memory_bytes) / node.memory_bytes
    return int((1 - abs(min(cpu, 1.0) - min(memory, 1.0)) / 2) * _MOST)
