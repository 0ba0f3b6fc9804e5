"""Where kube-scheduler puts the pods that new nodes were rented for, and which of them stay pending.

Cluster Autoscaler counts nodes by packing them full. kube-scheduler spreads: it takes pods in queue order and
prefers the emptiest node, so small pods take room on every node and large ones later find none. What stays
pending leads to another scale-up.

Scores of the default profile (Kubernetes 1.36, pkg/scheduler): LeastAllocated (weight 1), BalancedAllocation
(1; how the pod changes the balance of CPU and memory) and PodTopologySpread (2; the default constraint on
hostnames: pods of one Deployment, a kind here, avoid each other). The rest of the profile scores new nodes of
one group alike. Only the new nodes are looked at: a pending pod fits on no older one. They are taken to
become Ready together; each is scored, as kube-scheduler does up to 100 nodes. A lab test lets the real
kube-scheduler place pods and compares.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cluster_autoscaler_hook.expander.caller_model import Overhead
from cluster_autoscaler_hook.expander.model import Kind, Template
from cluster_autoscaler_hook.solver.deadline import Deadline

__all__ = ["NewNodes", "shuffled_order", "spread"]

_Ints = NDArray[np.int64]
_MOST = 100  # fwk.MaxNodeScore
_SPREAD_WEIGHT = 2  # of PodTopologySpread in the default profile
_MAX_SKEW = 3  # of the default constraint on hostnames
# What scores count for a container that requests nothing (pkg/scheduler/util/pod_resources.go).
_DEFAULT_CPU_MILLIS, _DEFAULT_MEMORY_BYTES = 100, 200 << 20
_CHECK_EVERY = 64


class NewNodes:
    """`count` nodes of one group that run their DaemonSets and nothing else."""

    def __init__(self, template: Template, overhead: Overhead, kinds: Sequence[Kind], count: int) -> None:
        names = sorted({name for kind in kinds for name, _ in kind.demand.others})
        self._needs: _Ints = np.array(
            [
                [
                    k.demand.cpu_millis,
                    k.demand.memory_bytes,
                    1,
                    *(dict(k.demand.others).get(n, 0) for n in names),
                ]
                for k in kinds
            ],
            dtype=np.int64,
        ).reshape(len(kinds), 3 + len(names))
        own = overhead.off(template)
        empty = [own.cpu_millis, own.memory_bytes, own.max_pods, *(template.others.get(n, 0) for n in names)]
        self._free: _Ints = np.tile(np.array(empty, dtype=np.int64), (count, 1))
        self._whole: _Ints = np.maximum(np.array([template.cpu_millis, template.memory_bytes]), 1)
        # LeastAllocated counts a little for pods that request nothing, fitting does not.
        counted = np.array([_DEFAULT_CPU_MILLIS, _DEFAULT_MEMORY_BYTES])
        self._counted: _Ints = np.where(self._needs[:, :2] > 0, self._needs[:, :2], counted)
        self._counted_free: _Ints = self._free[:, :2].copy()
        self._alone = np.array([kind.demand.alone for kind in kinds], dtype=bool)
        self._allowed = np.array([template.group in kind.groups for kind in kinds], dtype=bool)
        self.siblings: _Ints = np.zeros((len(kinds), count), dtype=np.int64)
        self._fits = np.zeros((len(kinds), count), dtype=bool)
        self._scores: _Ints = np.zeros((len(kinds), count), dtype=np.int64)
        if count:
            self._look_at(0)
            self._fits[:], self._scores[:] = self._fits[:, :1], self._scores[:, :1]

    def best(self, kind: int) -> _Ints:
        """The nodes with the highest score for one more pod of the kind; none where it does not fit."""
        possible: _Ints = np.flatnonzero(self._fits[kind])
        if len(possible) < 2:
            return possible
        weight = math.log(len(possible) + 2)  # topologyNormalizingWeight
        skew = np.rint(self.siblings[kind, possible] * weight + _MAX_SKEW - 1).astype(np.int64)
        most = int(skew.max())
        scores = self._scores[kind, possible] + _SPREAD_WEIGHT * (
            _MOST * (most + int(skew.min()) - skew) // most
        )
        best: _Ints = possible[scores == scores.max()]
        return best

    def put(self, kind: int, node: int) -> None:
        self._free[node] -= self._needs[kind]
        self._counted_free[node] -= self._counted[kind]
        self.siblings[kind, node] += 1
        self._look_at(node)

    def _look_at(self, node: int) -> None:
        """What the node is to a pod of each kind: whether it fits, and its score but for the spreading."""
        free, whole = self._free[node], self._whole
        self._fits[:, node] = (
            (self._needs <= free).all(axis=1) & self._allowed & ~(self._alone & (self.siblings[:, node] > 0))
        )
        left = np.maximum(self._counted_free[node] - self._counted, 0)
        least_allocated = (left * _MOST // whole).sum(axis=1) // 2
        used = whole - free[:2]
        difference = _evenness((used + self._needs[:, :2]) / whole) - _evenness(used / whole)
        balanced = _MOST // 2 + np.trunc((_MOST // 2 + difference) / 2).astype(np.int64)
        self._scores[:, node] = least_allocated + balanced


def _evenness(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """BalancedAllocation's score of CPU and memory shares taken (the last axis)."""
    capped = np.minimum(shares, 1.0)
    score: NDArray[np.float64] = np.trunc((1 - np.abs(capped[..., 0] - capped[..., 1]) / 2) * _MOST)
    return score


def spread(
    nodes: NewNodes, order: Sequence[int], draw: random.Random, deadline: Deadline | None = None
) -> dict[int, int]:
    """Pods of each kind that find a place, tried in `order`, ties at random; cut short by the deadline."""
    placed: dict[int, int] = {}
    full: set[int] = set()  # room never grows, so the next of the kind finds none either
    for number, kind in enumerate(order):
        if kind in full:
            continue
        if deadline and number % _CHECK_EVERY == 0 and deadline.reached():
            break
        best = nodes.best(kind)
        if not len(best):
            full.add(kind)
            continue
        nodes.put(kind, int(best[draw.randrange(len(best))]))
        placed[kind] = placed.get(kind, 0) + 1
    return placed


def shuffled_order(counts: Mapping[int, int], draw: random.Random) -> list[int]:
    """A queue in which the pods of all Deployments are mixed at random."""
    order = [kind for kind, count in counts.items() for _ in range(count)]
    draw.shuffle(order)
    return order
