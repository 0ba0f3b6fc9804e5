"""Applications as they come and go, and where each may be commanded.

A group is what one application may have in all. It stays as long as anything is counted in it, also when its
application has ended: agents still hold limits then.

Before the first command goes to a node, the application's status must name it: a controller that starts anew
reads there which agents may hold limits that it has not heard of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from limit_allocator.fleet.model import Application
from limit_allocator.fleet.slots import Kind
from limit_allocator.fleet.state import MEMORY, State

__all__ = ["Group", "Groups"]

_DELAYS = 100


@dataclass(slots=True)
class Group:
    name: str
    index: int
    application: Application | None = None  # None: it has ended
    confirmed: frozenset[str] = frozenset()  # nodes that the status names
    unknown: dict[str, int] = field(default_factory=dict)  # slots by node
    registration_delays_s: deque[float] = field(default_factory=lambda: deque(maxlen=_DELAYS))


class Groups:
    def __init__(self, state: State) -> None:
        self._state = state
        self._by_name: dict[str, Group] = {}
        self.by_index: list[Group] = []

    def get(self, name: str) -> Group | None:
        return self._by_name.get(name)

    def of(self, name: str) -> Group:
        """Opened when it is first named."""
        group = self._by_name.get(name)
        if group is None:
            group = self._by_name[name] = Group(name, self._state.add_group())
            self.by_index.append(group)
        return group

    def set_application(self, name: str, application: Application | None) -> Group:
        group = self.of(name)
        before, group.application = group.application, application
        if application is None:  # what is left keeps its limit until it is gone
            return group
        if before is None:
            group.confirmed = application.nodes_with_limits
        limits = application.cpu_limit_us, application.memory_limit_bytes
        if before is None or (before.cpu_limit_us, before.memory_limit_bytes, before.parameters) != (
            *limits, application.parameters,
        ):  # fmt: skip
            self._state.set_group(group.index, limits, application.parameters)
        return group

    def hide(self, group: Group, node: str, index: int) -> None:
        """The node may hold anything."""
        if node not in group.unknown:
            group.unknown[node] = self._state.add_unknown(group.index, index)

    def show(self, node: str, but: Collection[str] = ()) -> None:
        """What the node holds is known, but of these applications."""
        for group in self.by_index:
            slot = None if group.name in but else group.unknown.pop(node, None)
            if slot is not None:
                self._state.remove(slot)

    def nodes_with_limits(self, name: str, nodes: list[str]) -> frozenset[str]:
        """`nodes` are the names by index. Nodes left out are not confirmed any more."""
        group = self._by_name.get(name)
        if group is None:
            return frozenset()
        of = self._state.slots
        containers = of.of_group(group.index, Kind.CONTAINER)
        containers = containers[~of.shadow[containers]]
        reserves = of.of_group(group.index, Kind.RESERVE)
        reserves = reserves[self._state.ledgers[MEMORY].counted_of(reserves) > 0]
        indices = {*of.node[containers].tolist(), *of.node[reserves].tolist()}
        found = frozenset(nodes[i] for i in indices) | group.unknown.keys()
        self.confirm(name, group.confirmed & found, nodes)
        return found

    def confirm(self, name: str, confirmed: Iterable[str], nodes: list[str]) -> None:
        group = self._by_name.get(name)
        if group is None or group.confirmed == frozenset(confirmed):
            return
        group.confirmed = frozenset(confirmed)
        of = self._state.slots
        for kind in (Kind.CONTAINER, Kind.RESERVE):
            for slot in of.of_group(group.index, kind).tolist():
                of.confirmed[slot] = nodes[of.node[slot]] in group.confirmed
        self._state.memory_changed = True
        self._state.ledger_changed = [True, True]
