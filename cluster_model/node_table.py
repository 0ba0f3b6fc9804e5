"""The nodes, with the terms of the cost kept up to date: each change of a node refreshes them at once.

Owned by one thread, or by the holder of the extender's lock. Time is an argument.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Set
from dataclasses import dataclass
from statistics import median

from cluster_model.contention import MEASURED, Contention

__all__ = ["Node", "NodeFacts", "NodeTable", "SpeedFacts"]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts from a Node object."""

    name: str
    cpu_millicores: float
    memory_bytes: float
    images: frozenset[str]


@dataclass(frozen=True, slots=True)
class SpeedFacts:
    """Facts from a NodeSpeed object."""

    node: str
    tau_create_s: float
    image_pulls_s: dict[str, float]


@dataclass(slots=True, eq=False)
class Node:
    """One node: its facts, what is used, and the terms of the cost that follow from them."""

    name: str
    tie: float  # orders nodes of equal cost
    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0
    images: frozenset[str] = frozenset()
    cpu_used: float = 0.0
    memory_used: float = 0.0
    creating: int = 0
    measured_tau_s: float | None = None
    measured_at_s: float = 0.0
    # computed on each change:
    tau_create_s: float = 0.0  # tau_n^c: measured, or the median of the other nodes
    turn_s: float = 0.0  # tau_n * slowdown(k_n), including the next pod
    cpu_free: float = 0.0  # C_n^r / C_n
    memory_free: float = 0.0  # M_n^r / M_n


class NodeTable:
    def __init__(
        self,
        default_tau_create_s: float,
        default_image_pull_s: float,
        seed: str,
        contention: Contention = MEASURED,
    ) -> None:
        """`seed`: name of the replica. Each orders equal nodes differently, so that they do not herd."""
        self._slowdown = contention.creation.slowdown
        self._peer_tau_s = default_tau_create_s
        self._default_pull_s = default_image_pull_s
        self._random = random.Random(seed)
        self._nodes: dict[str, Node] = {}
        self._existing: dict[str, Node] = {}
        self._pulls_s: dict[str, dict[str, float]] = {}  # image -> node -> seconds
        self._pull_s: dict[str, float] = {}  # image -> I_p; cleared when a pull is measured
        self._followers: list[set[Node]] = []

    def __len__(self) -> int:
        return len(self._existing)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._existing.values())

    def get(self, name: str) -> Node | None:
        """The node, or None if it does not exist."""
        return self._existing.get(name)

    def follow(self, changed: set[Node]) -> None:
        """Add every node that changes from now on to `changed`."""
        self._followers.append(changed)

    def unfollow(self, changed: set[Node]) -> None:
        self._followers = [f for f in self._followers if f is not changed]

    # --- news from the watches ---

    def put_node(self, facts: NodeFacts) -> None:
        node = self._existing[facts.name] = self._node(facts.name)
        node.cpu_millicores, node.memory_bytes = facts.cpu_millicores, facts.memory_bytes
        node.images = facts.images
        self._refresh(node)

    def drop_node(self, name: str) -> None:
        """Keeps what is used on it: the node may come back, and pods may still be leaving it."""
        if self._existing.pop(name, None) is not None:
            self.drop_speed(name)

    def keep_nodes(self, names: Set[str]) -> None:
        """Drop all other nodes."""
        for name in self._existing.keys() - names:
            self.drop_node(name)

    def put_speed(self, speed: SpeedFacts, now_s: float) -> None:
        node = self._node(speed.node)
        node.measured_tau_s, node.measured_at_s = speed.tau_create_s, now_s
        for image, seconds in speed.image_pulls_s.items():
            known = self._pulls_s.setdefault(image, {})
            if known.get(speed.node) != seconds:
                known[speed.node] = seconds
                self._pull_s.clear()
        self._refresh(node)

    def drop_speed(self, name: str) -> None:
        if (node := self._nodes.get(name)) is not None:
            node.measured_tau_s = None
            self._refresh(node)
        for pulls in self._pulls_s.values():
            if pulls.pop(name, None) is not None:
                self._pull_s.clear()

    def keep_speeds(self, names: Set[str]) -> None:
        """Drop the speeds of all other nodes."""
        for name in self._nodes.keys() - names:
            self.drop_speed(name)

    def forget_old_speeds(self, before_s: float) -> None:
        """Use the median of the measured nodes for nodes not measured since `before_s`, or never."""
        known = []
        for node in self._nodes.values():
            if node.measured_tau_s is not None:
                if node.measured_at_s < before_s:
                    node.measured_tau_s = None
                    self._refresh(node)
                else:
                    known.append(node.measured_tau_s)
        middle = median(known) if known else self._peer_tau_s
        if abs(middle - self._peer_tau_s) > 0.01 * self._peer_tau_s:
            self._peer_tau_s = middle
            for node in self._nodes.values():
                if node.measured_tau_s is None:
                    self._refresh(node)

    # --- pods ---

    def hold(self, name: str, cpu_millicores: float, memory_bytes: float, creating: int) -> None:
        """Add to what is used on a node; negative amounts release it."""
        node = self._node(name)
        node.cpu_used += cpu_millicores
        node.memory_used += memory_bytes
        node.creating += creating
        self._refresh(node)

    # --- images ---

    def image_pull_s(self, image: str) -> float:
        """Median pull time of the image; if never measured, of all images; else the default."""
        known = self._pull_s.get(image)
        if known is None:
            own = self._pulls_s.get(image)
            seen = own.values() if own else [s for pulls in self._pulls_s.values() for s in pulls.values()]
            known = self._pull_s[image] = median(seen) if seen else self._default_pull_s
        return known

    def _node(self, name: str) -> Node:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = Node(name, self._random.random())
            self._refresh(node)
        return node

    def _refresh(self, node: Node) -> None:
        node.tau_create_s = self._peer_tau_s if node.measured_tau_s is None else node.measured_tau_s
        node.turn_s = node.tau_create_s * self._slowdown(node.creating + 1)
        node.cpu_free = _free_share(node.cpu_used, node.cpu_millicores)
        node.memory_free = _free_share(node.memory_used, node.memory_bytes)
        for changed in self._followers:
            changed.add(node)


def _free_share(used: float, total: float) -> float:
    return min(max(1.0 - used / total, 0.0), 1.0) if total > 0 else 0.0
