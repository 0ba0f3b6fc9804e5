"""A row for each container, reserve and unknown node: arrays, so that a tick has no loop over containers."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from limit_allocator.allocation.model import Booleans, Integers

__all__ = ["Kind", "Slots"]


class Kind(IntEnum):
    FREE = 0
    CONTAINER = 1
    RESERVE = 2  # of an application on a node; only in the memory ledger
    UNKNOWN = 3  # a node that may hold anything of an application


class Slots:
    """The columns. Rows are given out by `take`, and again after `give_back` and `reuse`."""

    kind: Integers
    group: Integers  # of the application
    node: Integers
    key: Integers  # of the agent's tables
    shadow: Booleans  # decided, but not commanded: not in the ledgers
    confirmed: Booleans  # the node is in the application's status: commands may go there
    fresh: Booleans  # has telemetry that no decision has seen
    cpu_ceiling_us: Integers
    memory_ceiling_bytes: Integers
    used_us: Integers  # in the last known period
    used_bytes: Integers  # a reserve: what containers hold of it
    stuck_at_bytes: Integers  # the limit that it hit and that was not raised yet
    stuck_since_s: NDArray[np.float64]
    grown_bytes: Integers
    events: Integers  # running totals of the agent
    oom_kills: Integers
    found_at_s: NDArray[np.float64]
    registering: Booleans  # waits for its first limits
    # The last decisions and why, by resource: CPU 0, memory 1.
    decided: NDArray[np.int64]
    before: NDArray[np.int64]
    wanted: NDArray[np.int64]
    reason: NDArray[np.int64]
    changed_at_s: NDArray[np.float64]

    def __init__(self, slots: int = 256) -> None:
        self._columns: list[str] = []
        for name in (
            "kind", "group", "node", "key", "cpu_ceiling_us", "memory_ceiling_bytes", "used_us", "used_bytes",
            "stuck_at_bytes", "grown_bytes", "events", "oom_kills",
        ):  # fmt: skip
            self._column(name, np.zeros(slots, np.int64))
        for name in ("shadow", "confirmed", "fresh", "registering"):
            self._column(name, np.zeros(slots, np.bool_))
        for name in ("stuck_since_s", "found_at_s"):
            self._column(name, np.zeros(slots))
        for name in ("decided", "before", "wanted", "reason"):
            self._column(name, np.zeros((2, slots), np.int64))
        self._column("changed_at_s", np.zeros((2, slots)))
        self._free = list(range(slots - 1, -1, -1))
        self._given_back: list[int] = []

    def take(self, kind: Kind, group: int, node: int) -> int:
        if not self._free:
            self._double()
        slot = self._free.pop()
        for name in self._columns:
            getattr(self, name)[..., slot] = 0
        self.kind[slot], self.group[slot], self.node[slot] = kind, group, node
        return slot

    def give_back(self, slot: int) -> None:
        self.kind[slot] = Kind.FREE
        self._given_back.append(slot)

    def reuse(self) -> None:
        """Nothing that is still to be read names a slot that was given back."""
        self._free += self._given_back
        self._given_back = []

    def of_kind(self, kind: Kind) -> Integers:
        return np.flatnonzero(self.kind == kind)

    def of_group(self, group: int, kind: Kind) -> Integers:
        return np.flatnonzero((self.group == group) & (self.kind == kind))

    def _column(self, name: str, values: NDArray[np.generic]) -> None:
        setattr(self, name, values)
        self._columns.append(name)

    def _double(self) -> None:
        slots = len(self.kind)
        for name in self._columns:
            values = getattr(self, name)
            setattr(self, name, np.concatenate([values, np.zeros_like(values)], axis=-1))
        self._free = list(range(2 * slots - 1, slots - 1, -1))
