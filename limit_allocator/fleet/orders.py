"""The ledgers' commands, sorted by agent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from limit_allocator.allocation.ledger import Commands
from limit_allocator.allocation.model import Booleans, Integers
from limit_allocator.fleet.slots import Kind
from limit_allocator.fleet.state import CPU, MEMORY, State

__all__ = ["NodeCommands", "commands_by_node"]


@dataclass(slots=True)
class NodeCommands:
    cpu: bytes = b""
    memory: bytes = b""
    reserves: tuple[tuple[int, int, int], ...] = ()  # slot, sequence, value


def commands_by_node(state: State, now_s: float) -> dict[int, NodeCommands]:
    """What may be sent. The rest stays unanswered, so that the ledger tries again."""
    by_node: dict[int, NodeCommands] = {}
    cpu = state.ledgers[CPU].commands(now_s)
    for node, content in _tables(cpu, _may_go(cpu, state), False, state):
        by_node.setdefault(node, NodeCommands()).cpu = content
    memory = state.ledgers[MEMORY].commands(now_s)
    may_go = _may_go(memory, state)
    is_reserve = state.slots.kind[memory.slots] == Kind.RESERVE
    for node, content in _tables(memory, may_go & ~is_reserve, True, state):
        by_node.setdefault(node, NodeCommands()).memory = content
    chosen = may_go & is_reserve
    columns = (memory.slots[chosen], memory.sequence[chosen], memory.value[chosen])
    for slot, sequence, value in zip(*(c.tolist() for c in columns), strict=True):
        to = by_node.setdefault(int(state.slots.node[slot]), NodeCommands())
        to.reserves = (*to.reserves, (slot, sequence, value))
    return by_node


def _may_go(commands: Commands, state: State) -> Booleans:
    """The node is named by the application's status, and its agent of this start has a stream."""
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
