"""What people are shown of an application: now, and its last minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limit_allocator.allocation import cpu, memory
from limit_allocator.allocation.fair_share import group_sums
from limit_allocator.allocation.model import Integers
from limit_allocator.fleet.agents import Agent
from limit_allocator.fleet.groups import Group
from limit_allocator.fleet.model import PodRow
from limit_allocator.fleet.slots import Kind
from limit_allocator.fleet.state import CPU, MEMORY, State

__all__ = ["ApplicationView", "ContainerView", "History", "LimitView", "Sample", "Use", "view"]

_KEPT = 180  # samples
_EVERY_S = 1.0


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
class Sample:
    at_s: float
    cpu: Use
    memory: Use


@dataclass(frozen=True, slots=True)
class LimitView:
    """A container's limit of one resource."""

    limit: int  # 0: it waits for its first one
    used: int
    why: str  # of the last change
    changed_s_ago: float


@dataclass(frozen=True, slots=True)
class ContainerView:
    pod: str
    container: str  # its id, until the API server has its name
    node: str
    cpu: LimitView
    throttled_share: float  # of the window's periods
    memory: LimitView
    age_s: float  # since it was found
    heard_s_ago: float
    joined: bool  # its agent has written our limits; in shadow: never


@dataclass(frozen=True, slots=True)
class ApplicationView:
    name: str
    cpu: Use
    memory: Use
    containers: tuple[ContainerView, ...]
    waiting_to_join: int
    memory_events: int
    oom_kills: int
    foreign_writes: int  # on the application's nodes, also of others' limits there
    silent_nodes: tuple[str, ...]  # have containers that nobody can reach: they keep their limits
    unknown_nodes: tuple[str, ...]  # may hold limits that this controller has not heard of: no raises
    registration_delays_s: tuple[float, ...]  # from the report of a container to its limits, the last ones
    history: tuple[Sample, ...]

    @property
    def events_survived(self) -> int:
        return max(self.memory_events - self.oom_kills, 0)

    @property
    def is_over_its_limit(self) -> bool:
        """The limit was lowered, and not all cuts are acknowledged."""
        return self.cpu.unallocated < 0 or self.memory.unallocated < 0


class History:
    """One sample a second of all applications."""

    def __init__(self) -> None:
        self._samples = np.zeros((_KEPT, 2, 3, 0), np.int64)  # by resource, limit/allocated/used, group
        self._at_s = np.full(_KEPT, np.nan)
        self._count = 0
        self._since = np.zeros(0, np.int64)  # the first sample of each group

    def record(self, state: State, now_s: float) -> None:
        if self._count and 0 <= now_s - self._at_s[(self._count - 1) % _KEPT] < _EVERY_S:
            return
        new = len(state.parameters) - self._samples.shape[-1]
        self._samples = np.pad(self._samples, ((0, 0), (0, 0), (0, 0), (0, new)))
        self._since = np.pad(self._since, (0, new), constant_values=self._count)
        at = self._count % _KEPT
        self._at_s[at] = now_s
        slots = np.flatnonzero((state.slots.kind == Kind.CONTAINER) | (state.slots.kind == Kind.RESERVE))
        group, groups = state.slots.group[slots], len(state.parameters)
        for resource in (CPU, MEMORY):
            allocated = group_sums(state.counted(resource, slots), group, groups)
            used = group_sums(state.used(resource, slots), group, groups)
            self._samples[at, resource] = state.limits[resource], allocated, used
        self._count += 1

    def of(self, group: int) -> tuple[Sample, ...]:
        if group >= len(self._since):
            return ()
        numbers = range(max(self._count - _KEPT, int(self._since[group])), self._count)
        places = [number % _KEPT for number in numbers]
        rows = self._samples[places, :, :, group].tolist()
        at_s = self._at_s[places].tolist()
        return tuple(
            Sample(at, Use(*cpu), Use(*memory)) for at, (cpu, memory) in zip(at_s, rows, strict=True)
        )


def view(
    group: Group, state: State, names: Mapping[int, tuple[str, str]], agents: Sequence[Agent], now_s: float
) -> ApplicationView:
    """All but the history. `agents` by index of their nodes."""
    containers = state.slots.of_group(group.index, Kind.CONTAINER)
    reserves = state.slots.of_group(group.index, Kind.RESERVE)
    accounts = np.concatenate([containers, reserves])
    joining = state.joining(containers)
    nodes = [agents[i] for i in np.unique(state.slots.node[containers]).tolist()]
    silent_after_s = state.parameters[group.index].silent_after_s
    silent = state.silent(containers, silent_after_s, now_s)
    silent_nodes = {agents[i].node for i in state.slots.node[containers[silent]].tolist()}
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
        containers=_containers(group, containers, state, names, agents, now_s),
        waiting_to_join=int((joining & ~state.slots.shadow[containers]).sum()),
        memory_events=int(state.events[group.index]),
        oom_kills=int(state.oom_kills[group.index]),
        foreign_writes=sum(agent.foreign_writes for agent in nodes),
        silent_nodes=tuple(sorted(silent_nodes)),
        unknown_nodes=tuple(sorted(group.unknown)),
        registration_delays_s=tuple(group.registration_delays_s),
        history=(),
    )


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
    joining = state.joining(slots)
    limits = [state.have(resource, slots) for resource in (CPU, MEMORY)]
    used = [state.used(resource, slots) for resource in (CPU, MEMORY)]
    views = []
    for i, slot in enumerate(slots.tolist()):
        uid, container_id = names[slot]
        row = pods.get(uid)
        resources = [
            LimitView(
                int(limits[r][i]),
                int(used[r][i]),
                _why(r, slot, state),
                float(now_s - of.changed_at_s[r, slot]),
            )
            for r in (CPU, MEMORY)
        ]
        views.append(
            ContainerView(
                pod=row.name if row else uid,
                container=row.containers.get(container_id, container_id) if row else container_id,
                node=agents[of.node[slot]].node,
                cpu=resources[CPU],
                throttled_share=float(throttled[i]),
                memory=resources[MEMORY],
                age_s=float(now_s - of.found_at_s[slot]),
                heard_s_ago=float(now_s - state.heard_at_s[of.node[slot]]),
                joined=not joining[i],
            )
        )
    return tuple(sorted(views, key=lambda c: (c.pod, c.container)))


def _why(resource: int, slot: int, state: State) -> str:
    of = state.slots
    reason, before, after, wanted = (
        int(column[resource, slot]) for column in (of.reason, of.before, of.decided, of.wanted)
    )
    if after == 0:
        return "waits for its first limit"
    if resource == CPU:
        return cpu.explain(reason, before, after, wanted)
    return memory.explain(reason, before, after)
