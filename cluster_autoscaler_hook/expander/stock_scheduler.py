"""Predicts the node that kube-scheduler chooses for a pod, as its default profile scores nodes.

Kubernetes 1.36, pkg/scheduler. Filters: every request fits, and pods that repel their own kind do not share a
node. Scores: LeastAllocated (weight 1), BalancedAllocation (1; how the pod changes the balance of CPU and
memory) and PodTopologySpread (2; the default constraint on hostnames: pods of one kind avoid each other).
Left out is what scores all nodes alike in our uses: ImageLocality, taints, affinities, zones. kube-scheduler
takes one of the best nodes at random. Every node is scored, as kube-scheduler does up to 100 nodes.

Lab tests let the real kube-scheduler place pods, and find each on a node that is among the best here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ints", "PodKinds", "ScoredNodes", "place"]

Ints = NDArray[np.int64]
_MAX_SCORE = 100  # fwk.MaxNodeScore
_SPREAD_WEIGHT = 2  # PodTopologySpread in the default profile
_MAX_SKEW = 3  # the default constraint on hostnames
# Scores assume these for a container that requests nothing (pkg/scheduler/util/pod_resources.go).
_DEFAULT_CPU_MILLICORES, _DEFAULT_MEMORY_BYTES = 100, 200 << 20


@dataclass(frozen=True)
class PodKinds:
    """The kinds of pods to place; row k of each array belongs to kind k."""

    requests: Ints  # (kinds, resources): CPU in millicores, memory in bytes, 1 pod, then any others
    alone: NDArray[np.bool_]  # (kinds,): two pods of the kind cannot share a node
    allowed: NDArray[np.bool_]  # (kinds,): the kind may run on these nodes at all

    @classmethod
    def of(cls, requests: Sequence[Sequence[int]]) -> PodKinds:
        """Kinds without any constraint."""
        count = len(requests)
        return cls(
            np.array(requests, dtype=np.int64), np.zeros(count, dtype=bool), np.ones(count, dtype=bool)
        )


class ScoredNodes:
    """Nodes, and their scores for one more pod of each kind. `put` places a pod and updates the scores."""

    def __init__(self, kinds: PodKinds, allocatable: Ints, free: Ints, siblings: Ints) -> None:
        """`allocatable`: (nodes, 2), CPU in millicores and memory in bytes. `free`: (nodes, resources), in
        the order of `kinds.requests`. `siblings`: (kinds, nodes), pods of each kind already there."""
        self._allocatable = np.maximum(allocatable, 1)
        self._free, self.siblings = free.copy(), siblings.copy()
        # LeastAllocated assumes a little for pods that request nothing; the filter does not.
        self._requests = kinds.requests[:, None, :]  # (kinds, 1, resources), as `_update` compares them
        self._cpu_memory = self._requests[:, :, :2]
        defaults = np.array([_DEFAULT_CPU_MILLICORES, _DEFAULT_MEMORY_BYTES])
        self._assumed: Ints = np.where(self._cpu_memory > 0, self._cpu_memory, defaults)
        self._assumed_free: Ints = free[:, :2].copy()
        self._allowed, self._alone = kinds.allowed[:, None], kinds.alone[:, None]
        self._fits = np.zeros(siblings.shape, dtype=bool)
        self._scores: Ints = np.zeros(siblings.shape, dtype=np.int64)
        self._update(slice(None))

    @classmethod
    def alike(
        cls, kinds: PodKinds, allocatable: Sequence[int], free: Sequence[int], count: int
    ) -> ScoredNodes:
        """`count` equal nodes without pods; scored once."""
        siblings = np.zeros((len(kinds.requests), 1), dtype=np.int64)
        nodes = cls(
            kinds, np.array([allocatable], dtype=np.int64), np.array([free], dtype=np.int64), siblings
        )
        for name in ("_allocatable", "_free", "_assumed_free"):
            setattr(nodes, name, np.repeat(getattr(nodes, name), count, axis=0))
        for name in ("siblings", "_fits", "_scores"):
            setattr(nodes, name, np.repeat(getattr(nodes, name), count, axis=1))
        return nodes

    def fitting(self, kind: int) -> Ints:
        """The nodes with room for one more pod of the kind."""
        possible: Ints = np.flatnonzero(self._fits[kind])
        return possible

    def best(self, kind: int) -> Ints:
        """The nodes with the highest score for one more pod of the kind; none where it does not fit."""
        possible = self.fitting(kind)
        if len(possible) < 2:
            return possible
        scores = self.resource_scores(kind, possible) + self.spread_scores(kind, possible)
        best: Ints = possible[scores == scores.max()]
        return best

    def resource_scores(self, kind: int, possible: Ints) -> Ints:
        """LeastAllocated and BalancedAllocation of these nodes."""
        scores: Ints = self._scores[kind, possible]
        return scores

    def spread_scores(self, kind: int, possible: Ints) -> Ints:
        """PodTopologySpread, with its weight, if the kind fits these nodes and no others."""
        weight = math.log(len(possible) + 2)  # topologyNormalizingWeight
        skew = np.rint(self.siblings[kind, possible] * weight + _MAX_SKEW - 1).astype(np.int64)
        most = int(skew.max())
        scores: Ints = _SPREAD_WEIGHT * (_MAX_SCORE * (most + int(skew.min()) - skew) // most)
        return scores

    def put(self, kind: int, node: int) -> None:
        self._free[node] -= self._requests[kind, 0]
        self._assumed_free[node] -= self._assumed[kind, 0]
        self.siblings[kind, node] += 1
        self._update(slice(node, node + 1))

    def _update(self, nodes: slice) -> None:
        """Recompute, for every kind, whether it fits these nodes, and the scores except the spreading."""
        free, allocatable = self._free[nodes], self._allocatable[nodes]
        shared = self._alone & (self.siblings[:, nodes] > 0)
        self._fits[:, nodes] = (self._requests <= free).all(axis=2) & self._allowed & ~shared
        left = np.maximum(self._assumed_free[nodes] - self._assumed, 0)
        least_allocated = (left * _MAX_SCORE // allocatable).sum(axis=2) // 2
        used = allocatable - free[:, :2]
        difference = _balance((used + self._cpu_memory) / allocatable) - _balance(used / allocatable)
        # Go divides toward zero.
        balanced = _MAX_SCORE // 2 + np.trunc((_MAX_SCORE // 2 + difference) / 2).astype(np.int64)
        self._scores[:, nodes] = least_allocated + balanced


def _balance(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """BalancedAllocation's score, given the shares of CPU and memory in use (the last axis)."""
    capped = np.minimum(shares, 1.0)
    score: NDArray[np.float64] = np.trunc((1 - np.abs(capped[..., 0] - capped[..., 1]) / 2) * _MAX_SCORE)
    return score


def place(
    nodes: ScoredNodes, order: Sequence[int], draw: random.Random, stop: Callable[[int], bool] | None = None
) -> Iterator[tuple[int, int]]:
    """Place pods of the kinds in `order`, with ties broken by `draw`; yield (kind, node) for each that fits.

    `stop` is asked before each pod, with its position in `order`.
    """
    full: set[int] = set()  # room never grows, so the next pod of the kind does not fit either
    for position, kind in enumerate(order):
        if kind in full:
            continue
        if stop and stop(position):
            return
        best = nodes.best(kind)
        if not len(best):
            full.add(kind)
            continue
        node = int(best[draw.randrange(len(best))])
        nodes.put(kind, node)
        yield kind, node
