"""Nodes that create regular instances: side by side up to a number, then ever slower. Pure."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from experiments.pulsenet.model import Cluster, Creation

__all__ = ["Node", "Nodes", "Pending"]


@dataclass(slots=True, eq=False)
class Node:
    number: int
    instances: int = 0
    done: float = 0.0  # seconds of work that each creation has had since the beginning
    at_s: float = 0.0  # when `done` was true
    working: int = 0
    version: int = 0
    heap: list[tuple[float, int, Pending]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Pending:
    """A regular instance that is being created."""

    owner: Any
    spare: bool
    asked_s: float
    node: Node | None = None
    cancelled: bool = False


class Nodes:
    """`push(at_s, action, *arguments)` is the simulation's clock; `ready` hears of finished creations."""

    def __init__(
        self, cluster: Cluster, creation: Creation, push: Callable[..., None],
        ready: Callable[[Pending, float], None],
    ) -> None:  # fmt: skip
        self._creation, self._push, self._ready = creation, push, ready
        self.nodes = [Node(number) for number in range(cluster.nodes)]
        self._next_s = 0.0  # the control plane begins the next creation
        self._number = 0

    def create(self, pending: Pending, now_s: float) -> None:
        at_s = max(now_s, self._next_s)
        self._next_s = at_s + 1.0 / self._creation.per_s
        if at_s > now_s:
            self._push(at_s, self._begin, pending)
        else:
            self._begin(pending, now_s)

    def cancel(self, pending: Pending, now_s: float) -> None:
        pending.cancelled = True
        if (node := pending.node) is not None:
            self._advance(node, now_s)
            node.working -= 1
            node.instances -= 1
            self._next(node, now_s)

    def remove(self, node: Node) -> None:
        node.instances -= 1

    def _begin(self, pending: Pending, now_s: float) -> None:
        if pending.cancelled:
            return
        node = min(self.nodes, key=lambda n: (n.working, n.instances, n.number))
        self._advance(node, now_s)
        pending.node = node
        node.working += 1
        node.instances += 1
        self._number += 1
        heapq.heappush(node.heap, (node.done + self._creation.alone_s, self._number, pending))
        self._next(node, now_s)

    def _advance(self, node: Node, now_s: float) -> None:
        node.done += (now_s - node.at_s) * self._speed(node)
        node.at_s = now_s

    def _speed(self, node: Node) -> float:
        return min(1.0, self._creation.at_once / node.working) if node.working else 1.0

    def _next(self, node: Node, now_s: float) -> None:
        node.version += 1
        while node.heap and node.heap[0][2].cancelled:
            heapq.heappop(node.heap)
        if node.heap:
            left_s = max(node.heap[0][0] - node.done, 0.0) / self._speed(node)
            if math.isfinite(left_s):
                self._push(now_s + left_s, self._finish, node, node.version)

    def _finish(self, node: Node, version: int, now_s: float) -> None:
        if version != node.version:
            return
        self._advance(node, now_s)
        finished = []
        while node.heap and (node.heap[0][2].cancelled or node.heap[0][0] <= node.done + 1e-9):
            pending = heapq.heappop(node.heap)[2]
            if not pending.cancelled:
                node.working -= 1
                finished.append(pending)
        self._next(node, now_s)
        for pending in finished:
            self._ready(pending, now_s)
