"""The ledgers' commands, sorted by agent."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from limit_allocator.allocation.ledger import Commands
from limit_allocator.allocation.model import Booleans, Integers
from limit_allocator.fleet.slots import Kind
from limit_allocator.fleet.state import CPU, MEMORY, State

__all__ = ["Dispatch", "NodeCommands"]


@dataclass(slots=True)
class NodeCommands:
    cpu: bytes = b""
    memory: bytes = b""
    reserves: list[tuple[int, int, int]] = field(default_factory=list)  # slot, sequence, value


_LOOK_EVERY_S = 0.1  # for commands that were not answered in time


class Dispatch:
    """Asks the ledgers for commands, when there may be some."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._looked_at_s = [float("-inf")] * 2

    def commands_by_node(self, now_s: float) -> dict[int, NodeCommands]:
        by_node: dict[int, NodeCommands] = {}
        state = self._state
        for resource, put in ((CPU, _put_cpu), (MEMORY, _put_memory)):
            if state.ledger_changed[resource] or now_s - self._looked_at_s[resource] >= _LOOK_EVERY_S:
                state.ledger_changed[resource] = False
                self._looked_at_s[resource] = now_s
                put(state.ledgers[resource].commands(now_s), state, by_node)
        return by_node


def _put_cpu(cpu: Commands, state: State, by_node: dict[int, NodeCommands]) -> None:
    for node, content in _tables(cpu, _may_go(cpu, state), False, state):
        by_node.setdefault(node, NodeCommands()).cpu = content


def _put_memory(memory: Commands, state: State, by_node: dict[int, NodeCommands]) -> None:
    may_go = _may_go(memory, state)
    is_reserve = state.slots.kind[memory.slots] == Kind.RESERVE
    for node, content in _tables(memory, may_go & ~is_reserve, True, state):
        by_node.setdefault(node, NodeCommands()).memory = content
    chosen = may_go & is_reserve
    columns = (memory.slots[chosen], memory.sequence[chosen], memory.value[chosen])
    for slot, sequence, value in zip(*(c.tolist() for c in columns), strict=True):
        node = int(state.slots.node[slot])
        by_node.setdefault(node, NodeCommands()).reserves.append((slot, sequence, value))


def _may_go(commands: Commands, state: State) -> Booleans:
    """The node is named by the application's status, and its agent of this start has a stream.

    What may not go stays unanswered: the ledger tries again.
    """
    node = state.slots.node[commands.slots]
    reachable = (state.session[node] >= 0) & (commands.start == state.start[node])
    may_go: Booleans = state.slots.confirmed[commands.slots] & reachable
    return may_go


def _tables(commands: Commands, chosen: Booleans, with_growth: bool, state: State) -> list[tuple[int, bytes]]:
    slots = commands.slots[chosen]
    if not len(slots):
        return []
    columns = [state.slots.key[slots], commands.sequence[chosen], commands.value[chosen]]
    if with_growth:
        columns.append(commands.grown_seen[chosen])
    nodes = state.slots.node[slots]
    order = np.argsort(nodes, kind="stable")
    rows: Integers = np.stack(columns)[:, order]
    ends = np.flatnonzero(np.diff(nodes[order], append=-1)) + 1
    begins = np.concatenate([[0], ends[:-1]])
    of = nodes[order][begins].tolist()
    return [
        (node, rows[:, begin:end].astype("<i8").tobytes())
        for node, begin, end in zip(of, begins.tolist(), ends.tolist(), strict=True)
    ]
