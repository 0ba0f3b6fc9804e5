"""What ComboFunc is compared with (6.1, table 3), as Scalers. Homogeneous: a function has one size."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cluster_autoscaler_hook.expander.stock_scheduler import PodKinds, ScoredNodes, place
from combofunc.reconcile.held_target import RecentTargets, ends_at_s, held_target, note_target
from experiments.combofunc.model import (
    Action,
    Container,
    Create,
    Decision,
    NodeView,
    Remove,
    Resize,
    Scaler,
    State,
)
from experiments.combofunc.workload import Size

__all__ = [
    "Autopilot",
    "Delayed",
    "RandomFit",
    "Stock",
    "Wanted",
    "deleted_first",
    "placed_by_scheduler",
    "scored_nodes",
]


class Stock:
    """Knative's way: a Deployment of one size, placed by kube-scheduler."""

    def __init__(self, size: Size, seed: str) -> None:
        self._size, self._draw = size, random.Random(f"stock/{seed}")

    def decide(self, state: State, target: int) -> Decision:
        replicas = math.ceil(target / self._size.concurrency)
        there = state.containers
        if len(there) >= replicas:
            return Decision([Remove(c.pod) for c in deleted_first(there)[: len(there) - replicas]])
        return Decision([Create(node, self._size) for node in self._nodes(state, replicas - len(there))])

    def _nodes(self, state: State, count: int) -> list[str]:
        siblings = Counter(c.node for c in state.containers)
        return placed_by_scheduler(state.nodes, self._size, count, siblings, self._draw)


class RandomFit(Stock):
    """The same on any node that fits, at random."""

    def _nodes(self, state: State, count: int) -> list[str]:
        by_name, placed = {node.name: node for node in state.nodes}, list[str]()
        for _ in range(count):
            possible = [name for name, node in by_name.items() if node.fits(self._size)]
            if not possible:
                break
            name = self._draw.choice(possible)
            by_name[name] = by_name[name].with_pod(self._size)
            placed.append(name)
        return placed


@dataclass(frozen=True)
class Wanted:
    """Autopilot's goal for a function: its one size, the number of replicas, and which to keep."""

    size: Size
    replicas: int
    kept: Sequence[Container]
    removed: Sequence[Container]


class Autopilot:
    """All replicas have one size, and are resized in place: to the smallest size that is enough, or to the
    largest that fits where they are; kube-scheduler then places further replicas of that size.

    A lower target first removes the replicas it does not need: counted in the smallest size with
    `shrink_first`, else in the largest. The others shrink.
    """

    def __init__(self, sizes: Sequence[Size], shrink_first: bool, seed: str) -> None:
        self._sizes, self._shrink_first = sizes, shrink_first
        self._draw = random.Random(f"autopilot/{seed}")

    def wanted(self, state: State, target: int) -> Wanted:
        kept = deleted_first(state.containers)[::-1]
        enough = math.ceil(target / (self._sizes[0] if self._shrink_first else self._sizes[-1]).concurrency)
        size = self._size(state.nodes, kept[:enough], target)
        replicas = max(math.ceil(target / size.concurrency), len(kept[:enough]))
        return Wanted(size, replicas, kept[:enough], kept[enough:])

    def decide(self, state: State, target: int) -> Decision:
        wanted = self.wanted(state, target)
        actions: list[Action] = [Remove(c.pod) for c in wanted.removed]
        actions += [Resize(c.pod, wanted.size) for c in wanted.kept if c.size != wanted.size]
        siblings = Counter(c.node for c in wanted.kept)
        nodes = [_resized(node, wanted.kept, wanted.size) for node in state.nodes]
        missing = wanted.replicas - len(wanted.kept)
        placed = placed_by_scheduler(nodes, wanted.size, missing, siblings, self._draw)
        return Decision([*actions, *(Create(node, wanted.size) for node in placed)])

    def _size(self, nodes: Sequence[NodeView], kept: Sequence[Container], target: int) -> Size:
        """The smallest that is enough, else the largest that can be had."""
        if not kept:
            return next((s for s in self._sizes if s.concurrency >= target), self._sizes[-1])
        possible = [s for s in self._sizes if all(_has_room(_resized(n, kept, s)) for n in nodes)]
        possible = possible or [self._sizes[0]]
        return next((s for s in possible if len(kept) * s.concurrency >= target), possible[-1])


class Delayed:
    """Keeps containers as ours does: follows the highest target of a window as far as containers are there,
    and releases what it keeps while another function lacks room."""

    def __init__(self, scaler: Scaler, seconds: float) -> None:
        self._scaler, self._seconds = scaler, seconds
        self._recent: RecentTargets = ()

    def decide(self, state: State, target: int) -> Decision:
        keep_s = 0.0 if state.others_short else self._seconds
        self._recent = note_target(self._recent, target, state.concurrency, keep_s, state.now_s)
        held = held_target(self._recent)
        decision = self._scaler.decide(state, held)
        return replace(decision, again_at_s=ends_at_s(self._recent, keep_s), keeps_warm=held > target)


def placed_by_scheduler(
    nodes: Sequence[NodeView], size: Size, count: int, siblings: Mapping[str, int], draw: random.Random
) -> list[str]:
    """The nodes on which kube-scheduler puts `count` pods, one after the other; fewer when no more fit."""
    scored = scored_nodes(nodes, size, siblings)
    return [nodes[at].name for _, at in place(scored, [0] * count, draw)]


def scored_nodes(nodes: Sequence[NodeView], size: Size, siblings: Mapping[str, int]) -> ScoredNodes:
    """For pods of this size, which are kind 0."""
    allocatable = np.array([[node.cpu_millicores, node.memory_bytes] for node in nodes], dtype=np.int64)
    free = np.array(
        [[node.cpu_free_millicores, node.memory_free_bytes, node.pods_free] for node in nodes], dtype=np.int64
    )
    there = np.array([[siblings.get(node.name, 0) for node in nodes]], dtype=np.int64)
    kinds = PodKinds.of([[size.cpu_millicores, size.memory_bytes, 1]])
    return ScoredNodes(kinds, allocatable, free, there)


def deleted_first(containers: Sequence[Container]) -> list[Container]:
    """The order in which a ReplicaSet deletes them: those not ready, those that share a node with most
    others, the youngest (controller_utils.go, ActivePodsWithRanks; it compares ages by their logarithm).
    """
    ready = Counter(c.node for c in containers if c.ready)
    return sorted(containers, key=lambda c: (c.ready, -ready[c.node], -c.age))


def _resized(node: NodeView, kept: Sequence[Container], size: Size) -> NodeView:
    """The node once all that are kept there have `size`."""
    there = [c.size for c in kept if c.node == node.name]
    cpu = sum(s.cpu_millicores for s in there) - len(there) * size.cpu_millicores
    memory = sum(s.memory_bytes for s in there) - len(there) * size.memory_bytes
    return replace(
        node,
        cpu_free_millicores=node.cpu_free_millicores + cpu,
        memory_free_bytes=node.memory_free_bytes + memory,
    )


def _has_room(node: NodeView) -> bool:
    return node.cpu_free_millicores >= 0 and node.memory_free_bytes >= 0
