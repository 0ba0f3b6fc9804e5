"""The nodes as a table of numbers kept ready: whatever changes a node refreshes its row at once.

Owned by one thread. Time is an argument.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from scheduler_extender.cost import COLUMNS

__all__ = ["NodeFacts", "NodeTable", "Rows", "SpeedFacts"]

Rows = NDArray[np.intp]
_IMAGES_INDEXED = 256


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a Node object says."""

    name: str
    cpu_millicores: float
    memory_bytes: float
    images: frozenset[str]


@dataclass(frozen=True, slots=True)
class SpeedFacts:
    """What a NodeSpeed object says."""

    node: str
    tau_create_s: float
    image_pulls_s: dict[str, float]


@dataclass(slots=True)
class _Node:
    name: str
    exists: bool = False
    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0
    images: frozenset[str] = frozenset()
    cpu_used: float = 0.0
    memory_used: float = 0.0
    creating: int = 0
    tau_create_s: float | None = None  # as measured; None: its peers' median stands in
    measured_at_s: float = 0.0
    tie: float = 0.0


class NodeTable:
    def __init__(self, default_tau_create_s: float, default_image_pull_s: float, seed: str) -> None:
        """`seed` names the replica: each orders equal nodes in its own way, so two do not herd."""
        self._peer_tau_s = default_tau_create_s
        self._default_pull_s = default_image_pull_s
        self._random = random.Random(seed)
        self._nodes: list[_Node] = []
        self._row_of: dict[str, int] = {}
        self._existing: dict[str, int] = {}  # rows of the nodes that exist
        self._table = np.zeros((64, len(COLUMNS)))
        self._pulls_s: dict[str, dict[str, float]] = {}  # image -> node -> seconds
        self._lacking: dict[str, NDArray[np.float64]] = {}  # image -> 1.0 where a row's node lacks it

    def __len__(self) -> int:
        return len(self._existing)

    def __contains__(self, name: str) -> bool:
        return name in self._existing

    # --- what the watches tell ---

    def put_node(self, facts: NodeFacts) -> None:
        row = self._row(facts.name)
        node = self._nodes[row]
        self._existing[facts.name] = row
        node.exists, node.cpu_millicores, node.memory_bytes = True, facts.cpu_millicores, facts.memory_bytes
        for image in (node.images ^ facts.images) & self._lacking.keys():
            self._lacking[image][row] = image not in facts.images
        node.images = facts.images
        self._refresh(row)

    def drop_node(self, name: str) -> None:
        """The row stays: the node may come back, and pods may still be leaving it."""
        if self._existing.pop(name, None) is not None:
            self._nodes[self._row_of[name]].exists = False
            self.drop_speed(name)

    def replace_nodes(self, nodes: Sequence[NodeFacts]) -> None:
        for name in self._existing.keys() - {n.name for n in nodes}:
            self.drop_node(name)
        for node in nodes:
            self.put_node(node)

    def put_speed(self, speed: SpeedFacts, now_s: float) -> None:
        row = self._row(speed.node)
        node = self._nodes[row]
        node.tau_create_s, node.measured_at_s = speed.tau_create_s, now_s
        for image, seconds in speed.image_pulls_s.items():
            self._pulls_s.setdefault(image, {})[speed.node] = seconds
        self._refresh(row)

    def drop_speed(self, name: str) -> None:
        row = self._row_of.get(name)
        if row is not None:
            self._nodes[row].tau_create_s = None
            self._refresh(row)
        for pulls in self._pulls_s.values():
            pulls.pop(name, None)

    def replace_speeds(self, speeds: Sequence[SpeedFacts], now_s: float) -> None:
        for name in self._row_of.keys() - {s.node for s in speeds}:
            self.drop_speed(name)
        for speed in speeds:
            self.put_speed(speed, now_s)

    def forget_old_speeds(self, before_s: float) -> None:
        """Nodes not measured since then, and nodes never measured, get their peers' median."""
        known = []
        for row, node in enumerate(self._nodes):
            if node.tau_create_s is not None:
                if node.measured_at_s < before_s:
                    node.tau_create_s = None
                    self._refresh(row)
                else:
                    known.append(node.tau_create_s)
        middle = median(known) if known else self._peer_tau_s
        if abs(middle - self._peer_tau_s) > 0.01 * self._peer_tau_s:
            self._peer_tau_s = middle
            for row, node in enumerate(self._nodes):
                if node.tau_create_s is None:
                    self._refresh(row)

    # --- what pods take up ---

    def hold(self, name: str, cpu_millicores: float, memory_bytes: float, creating: int) -> None:
        """Add to what is used on a node; negative amounts give it back."""
        row = self._row(name)
        node = self._nodes[row]
        node.cpu_used += cpu_millicores
        node.memory_used += memory_bytes
        node.creating += creating
        self._refresh(row)

    # --- what a decision reads ---

    def rows(self, names: Sequence[str]) -> Rows:
        """The rows of those nodes that exist."""
        try:
            return np.fromiter(map(self._existing.__getitem__, names), np.intp, len(names))
        except KeyError:  # rare: a node the scheduler saw before we did
            return np.array([self._existing[n] for n in names if n in self._existing], dtype=np.intp)

    def terms(self, rows: Rows) -> NDArray[np.float64]:
        """One row of `cost.COLUMNS` a node."""
        return self._table.take(rows, axis=0)

    def image_pulls_s(self, rows: Rows, images: Sequence[str]) -> NDArray[np.float64] | float:
        """I_p on each node: what its missing images take to pull."""
        total: NDArray[np.float64] | float = 0.0
        for image in images:
            total = total + self._lacks(image).take(rows) * self.image_pull_s(image)
        return total

    def image_pull_s(self, image: str) -> float:
        """What the image took where a pull was seen; else what other images took; else a default."""
        if seen := self._pulls_s.get(image):
            return median(seen.values())
        others = [seconds for pulls in self._pulls_s.values() for seconds in pulls.values()]
        return median(others) if others else self._default_pull_s

    def name(self, row: int) -> str:
        return self._nodes[row].name

    def _tau_s(self, node: _Node) -> float:
        return self._peer_tau_s if node.tau_create_s is None else node.tau_create_s

    def _row(self, name: str) -> int:
        row = self._row_of.get(name)
        if row is None:
            row = self._row_of[name] = len(self._nodes)
            self._nodes.append(_Node(name))
            if row == len(self._table):
                self._table = np.concatenate([self._table, np.zeros_like(self._table)])
                self._lacking.clear()
            self._nodes[row].tie = self._random.random()
            self._refresh(row)
        return row

    def _refresh(self, row: int) -> None:
        node = self._nodes[row]
        tau_s, creating = self._tau_s(node), node.creating + 1  # the pod to come counts, eq. (6)
        self._table[row] = (
            tau_s * creating,
            _free_share(node.cpu_used, node.cpu_millicores),
            _free_share(node.memory_used, node.memory_bytes),
            node.tie,
            tau_s,
            creating,
        )

    def _lacks(self, image: str) -> NDArray[np.float64]:
        column = self._lacking.get(image)
        if column is None:
            column = np.ones(len(self._table))
            for row, node in enumerate(self._nodes):
                column[row] = image not in node.images
            if len(self._lacking) >= _IMAGES_INDEXED:
                self._lacking.pop(next(iter(self._lacking)))
            self._lacking[image] = column
        return column


def _free_share(used: float, total: float) -> float:
    return min(max(1.0 - used / total, 0.0), 1.0) if total > 0 else 0.0
