"""What people are shown of an application. Bounded: this is read under the lock that decisions wait for.

An application may have thousands of containers. They are added up, and those that need attention most are
shown one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limit_allocator.allocation import cpu, memory
from limit_allocator.allocation.model import Integers
from limit_allocator.fleet.agents import Agent
from limit_allocator.fleet.groups import Group
from limit_allocator.fleet.model import PodRow
from limit_allocator.fleet.slots import Kind
from limit_allocator.fleet.state import CPU, MEMORY, State

__all__ = ["MOST_CONTAINERS", "ApplicationView", "ContainerView", "LimitView", "Use", "view"]

MOST_CONTAINERS = 50  # shown one by one


@dataclass(frozen=True, slots=True)
class Use:
    """One resource of an application: microseconds per period, or bytes."""

    limit: int
    allocated: int  # the most that can be written on nodes, with reserves; in shadow what would be
    used: int

    @property
    def unallocated(self) -> int:
        """Negative after the limit was lowered, until enough is cut."""
        return self.limit - self.allocated


@dataclass(frozen=True, slots=True)
class LimitView:
    """A container's limit of one resource."""

    limit: int  # 0: it waits for its first one
    used: int
    changed_s_ago: float
    resource: int
    # The last change.
    reason: int
    before: int
    after: int
    wanted: int

    @property
    def why(self) -> str:
        """The last change, as a sentence."""
        if self.after == 0:
            return "waits for its first limit"
        if self.resource == CPU:
            return cpu.explain(self.reason, self.before, self.after, self.wanted)
        return memory.explain(self.reason, self.before, self.after)


@dataclass(frozen=True, slots=True)
class ContainerView:
    pod: str
    container: str  # its id, until the API server has its name
    node: str
    cpu: LimitView
    throttled_share: float  # of the window's periods
    memory: LimitView
    joined: bool  # its agent has written our limits; in shadow: never


@dataclass(frozen=True, slots=True)
class ApplicationView:
    name: str
    cpu: Use
    memory: Use
    container_count: int
    containers: tuple[ContainerView, ...]  # at most MOST_CONTAINERS, by name
    waiting_to_join: int
    memory_events: int
    oom_kills: int
    foreign_writes: int  # on the application's nodes, also of others' limits there
    silent_nodes: tuple[str, ...]  # have containers that nobody can reach: they keep their limits
    unknown_nodes: tuple[str, ...]  # may hold limits that this controller has not heard of: no raises
    registration_delays_s: tuple[float, ...]  # from the report of a container to its limits, the last ones

    @property
    def events_survived(self) -> int:
        return max(self.memory_events - self.oom_kills, 0)

    @property
    def is_over_its_limit(self) -> bool:
        """The limit was lowered, and not all cuts are acknowledged."""
        return self.cpu.unallocated < 0 or self.memory.unallocated < 0


def view(
    group: Group, state: State, names: Mapping[int, tuple[str, str]], agents: Sequence[Agent], now_s: float
) -> ApplicationView:
    """`agents` by index of their nodes."""
    containers = state.slots.of_group(group.index, Kind.CONTAINER)
    reserves = state.slots.of_group(group.index, Kind.RESERVE)
    accounts = np.concatenate([containers, reserves])
    joining = state.joining(containers)
    nodes = [agents[i] for i in np.unique(state.slots.node[containers]).tolist()]
    silent_after_s = state.parameters[group.index].silent_after_s
    silent = state.silent(containers, silent_after_s, now_s)
    silent_nodes = {agents[i].node for i in np.unique(state.slots.node[containers[silent]]).tolist()}
    uses = [
        Use(
            int(state.limits[r, group.index]),
            int(state.counted(r, accounts).sum()),
            int(state.used(r, accounts).sum()),
        )
        for r in (CPU, MEMORY)
    ]
    return ApplicationView(
        name=group.name,
        cpu=uses[CPU],
        memory=uses[MEMORY],
        container_count=len(containers),
        containers=_containers(group, _most_interesting(containers, state), state, names, agents, now_s),
        waiting_to_join=int((joining & ~state.slots.shadow[containers]).sum()),
        memory_events=int(state.events[group.index]),
        oom_kills=int(state.oom_kills[group.index]),
        foreign_writes=sum(agent.foreign_writes for agent in nodes),
        silent_nodes=tuple(sorted(silent_nodes)),
        unknown_nodes=tuple(sorted(group.unknown)),
        registration_delays_s=tuple(group.registration_delays_s),
    )


def _most_interesting(slots: Integers, state: State) -> Integers:
    """Those throttled in the last period first, then by how near they are to a limit."""
    if len(slots) <= MOST_CONTAINERS:
        return slots
    nearness = [state.used(r, slots) / np.maximum(state.have(r, slots), 1) for r in (CPU, MEMORY)]
    throttled = state.telemetry.window(slots, 1).throttled.any(axis=1)
    return slots[np.lexsort((np.maximum(*nearness), throttled))[-MOST_CONTAINERS:]]


def _containers(
    group: Group,
    slots: Integers,
    state: State,
    names: Mapping[int, tuple[str, str]],
    agents: Sequence[Agent],
    now_s: float,
) -> tuple[ContainerView, ...]:
    of = state.slots
    pods: Mapping[str, PodRow] = group.application.pods if group.application else {}
    window = state.telemetry.window(slots, state.parameters[group.index].window_periods)
    throttled: NDArray[np.float64] = window.throttled.sum(axis=1) / np.maximum(window.known, 1)
    columns = (slots, of.node[slots], throttled, ~state.joining(slots))
    limits = zip(_limits(CPU, slots, state, now_s), _limits(MEMORY, slots, state, now_s), strict=True)
    rows = zip(limits, *(column.tolist() for column in columns), strict=True)
    views = []
    for (of_cpu, of_memory), slot, node, throttled_share, joined in rows:
        uid, container_id = names[slot]
        row = pods.get(uid)
        views.append(
            ContainerView(
                pod=row.name if row else uid,
                container=row.containers.get(container_id, container_id) if row else container_id,
                node=agents[node].node,
                cpu=of_cpu,
                throttled_share=throttled_share,
                memory=of_memory,
                joined=joined,
            )
        )
    return tuple(sorted(views, key=lambda c: (c.pod, c.container)))


def _limits(resource: int, slots: Integers, state: State, now_s: float) -> Iterator[LimitView]:
    of = state.slots
    columns = (
        state.have(resource, slots),
        state.used(resource, slots),
        now_s - of.changed_at_s[resource, slots],
        of.reason[resource, slots],
        of.before[resource, slots],
        of.decided[resource, slots],
        of.wanted[resource, slots],
    )
    for limit, used, changed_s_ago, *change in zip(*(c.tolist() for c in columns), strict=True):
        yield LimitView(limit, used, changed_s_ago, resource, *change)
