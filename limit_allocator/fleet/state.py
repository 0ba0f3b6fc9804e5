"""What the fleet's parts share: the slots, both ledgers, telemetry, and what belongs to groups and nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from limit_allocator.allocation.ledger import UNKNOWN, Ledger
from limit_allocator.allocation.model import Booleans, Integers, Parameters
from limit_allocator.allocation.telemetry import Telemetry
from limit_allocator.fleet.slots import Kind, Slots

__all__ = ["CPU", "MEMORY", "NO_CEILING", "State"]

CPU, MEMORY = 0, 1
NO_CEILING = 1 << 45  # above any limit; sums of it stay exact
_LONGEST_WINDOW = 64  # the bound of `Parameters.window_periods`


class State:
    def __init__(self, term: int) -> None:
        self.slots = Slots()
        self.telemetry = Telemetry(_LONGEST_WINDOW, 256)
        self.ledgers = (Ledger(term), Ledger(term))
        # By group: what an application may have, how it is decided, and what happened to it.
        self.limits = np.zeros((2, 0), np.int64)
        self.parameters: list[Parameters] = []
        self.distinct: list[Parameters] = []
        self.sharing = np.zeros(0, np.int64)  # number of the group's parameters in `distinct`
        self.events = np.zeros(0, np.int64)
        self.oom_kills = np.zeros(0, np.int64)
        # By node.
        self.session = np.zeros(0, np.int64)  # of its stream; -1: none that may be commanded
        self.start = np.zeros(0, np.int64)
        self.heard_at_s: NDArray[np.float64] = np.zeros(0)
        self.room_bytes = np.zeros(0, np.int64)
        self.members_changed = True
        self.memory_changed = True  # something that a memory decision depends on

    def add_group(self) -> int:
        self.limits = np.pad(self.limits, ((0, 0), (0, 1)))
        self.events, self.oom_kills = np.pad(self.events, (0, 1)), np.pad(self.oom_kills, (0, 1))
        self.parameters.append(Parameters())
        self.sharing = np.append(self.sharing, self._number(Parameters()))
        for ledger in self.ledgers:
            ledger.set_limit(len(self.parameters) - 1, 0)
        return len(self.parameters) - 1

    def set_group(self, group: int, limits: tuple[int, int], parameters: Parameters) -> None:
        self.parameters[group] = parameters
        self.sharing[group] = self._number(parameters)
        for resource in (CPU, MEMORY):
            self.limits[resource, group] = limits[resource]
            self.ledgers[resource].set_limit(group, limits[resource])
        self.set_floors(group, self.slots.of_group(group, Kind.CONTAINER))
        self.members_changed = self.memory_changed = True

    def add_node(self) -> int:
        self.session = np.append(self.session, -1)
        self.start, self.room_bytes = np.append(self.start, -1), np.append(self.room_bytes, 0)
        self.heard_at_s = np.append(self.heard_at_s, -np.inf)
        return len(self.session) - 1

    def add_container(self, group: int, node: int, shadow: bool) -> int:
        slot = self._take(Kind.CONTAINER, group, node)
        self.slots.shadow[slot] = shadow
        self.telemetry.forget(np.array([slot]))
        for ledger in self.ledgers:
            ledger.add(slot, group, 0)
            if shadow:  # the ledger has a row, but no account
                ledger.remove(np.array([slot]))
        return slot

    def add_reserve(self, group: int, node: int, granted_bytes: int) -> int:
        slot = self._take(Kind.RESERVE, group, node)
        self.ledgers[MEMORY].add(slot, group, 0, granted_bytes)
        self._only_in(MEMORY, slot)
        return slot

    def add_unknown(self, group: int, node: int) -> int:
        """Until the node's agent reports, it may hold anything."""
        slot = self._take(Kind.UNKNOWN, group, node)
        for ledger in self.ledgers:
            ledger.add(slot, group, 0, UNKNOWN)
        return slot

    def remove(self, slot: int) -> None:
        for ledger in self.ledgers:
            ledger.remove(np.array([slot]))
        self.slots.give_back(slot)
        self.members_changed = self.memory_changed = True

    def set_floors(self, group: int, slots: Integers) -> None:
        """A container whose ceiling is below its floor joins with its ceiling."""
        parameters, of = self.parameters[group], self.slots
        self.ledgers[CPU].set_floors(slots, np.minimum(parameters.floor_us, of.cpu_ceiling_us[slots]))
        floors = np.minimum(parameters.floor_bytes, of.memory_ceiling_bytes[slots])
        self.ledgers[MEMORY].set_floors(slots, floors)

    def have(self, resource: int, slots: Integers) -> Integers:
        """What containers and reserves have once commands arrive; 0: a newcomer. In shadow: as decided."""
        shadow = self.slots.shadow[slots]
        return np.where(shadow, self.slots.decided[resource, slots], self.ledgers[resource].decided(slots))

    def counted(self, resource: int, slots: Integers) -> Integers:
        """The most that each can hold; in shadow as decided."""
        counted = self.ledgers[resource].counted_of(slots)
        return np.where(self.slots.shadow[slots], self.slots.decided[resource, slots], counted)

    def used(self, resource: int, slots: Integers) -> Integers:
        """By containers: a reserve is used by containers, which count that themselves."""
        used = (self.slots.used_us, self.slots.used_bytes)[resource][slots]
        return np.where(self.slots.kind[slots] == Kind.CONTAINER, used, 0)

    def joining(self, slots: Integers) -> Booleans:
        """Containers without limits of ours."""
        cpu, memory = (ledger.joining(slots) for ledger in self.ledgers)
        return cpu | memory

    def silent(self, slots: Integers, silent_after_s: float, now_s: float) -> Booleans:
        """Their agent has no stream or does not report."""
        silent = (self.session < 0) | (now_s - self.heard_at_s > silent_after_s)
        return silent[self.slots.node[slots]]

    def _number(self, parameters: Parameters) -> int:
        if parameters not in self.distinct:
            self.distinct.append(parameters)
        return self.distinct.index(parameters)

    def _take(self, kind: Kind, group: int, node: int) -> int:
        self.members_changed = self.memory_changed = True
        return self.slots.take(kind, group, node)

    def _only_in(self, resource: int, slot: int) -> None:
        other = self.ledgers[1 - resource]
        other.add(slot, 0, 0)
        other.remove(np.array([slot]))
