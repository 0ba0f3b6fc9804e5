"""Everything a placement knows, and what it answers to a request for an emergency instance. Pure.

Agents say what is free and prepared; what this placement has asked of them since is taken off. So requests
that come at once do not all go to the node that looked best.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from burst_plane.burst_function import Variant
from burst_plane.model import Function, NodeState, Prepared, Started
from burst_plane.placement.choice import Candidate, Need, choose
from burst_plane.wire.messages import AgentAddress, Directory, Listed

__all__ = ["Desk", "Placing", "Running"]

K = TypeVar("K")
_SILENT_S = 3.0  # an agent that says nothing for so long is not asked; it speaks each second
_REST_S = 3.0  # an agent that failed to start a function's instance is not asked for that function
_FORGOTTEN_S = 30.0  # past its longest time; the line that says that a request ended may be lost


@dataclass(frozen=True, slots=True)
class Placing:
    """Start an instance at this agent, or why not."""

    agent: AgentAddress | None
    listed: Listed | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """An instance that was asked for, until its request has ended."""

    function: Function
    node: str
    need: Need
    asked_s: float
    forget_s: float
    template: str
    instance: str = ""  # empty while it is being started
    started_s: float = math.inf


class Desk:
    def __init__(self) -> None:
        self.directory = Directory(term=0, sequence=0)
        self._listed: dict[str, Listed] = {}
        self._agents: dict[str, AgentAddress] = {}
        self._states: dict[str, tuple[NodeState, float]] = {}
        self._prepared: dict[str, dict[tuple[Function, str], Prepared]] = {}  # by node
        self._running: dict[str, Running] = {}
        # Of these, by node, those that its agent's account does not hold yet.
        self._assumed: dict[str, dict[str, Running]] = {}
        self._of_function: Counter[Function] = Counter()
        self._of_namespace: Counter[str] = Counter()
        self._rests: dict[tuple[str, Function], float] = {}  # until when, by node and function
        self._turn = 0

    # What is known

    def take(self, directory: Directory, *, first: bool = False) -> bool:
        """Whether it replaces the one before; an older one does not. The first of a stream does: whoever
        accepted the stream leads, even if its Lease was made anew and its terms begin at 0."""
        before = self.directory
        if not first and (directory.term, directory.sequence) <= (before.term, before.sequence):
            return False
        self.directory = directory
        self._listed = {listed.function.host: listed for listed in directory.functions}
        self._agents = {agent.node: agent for agent in directory.agents}
        for gone in self._states.keys() - self._agents.keys():
            self.lost(gone)
        return True

    def heard(self, node: str, state: NodeState, now_s: float) -> None:
        if node not in self._agents:
            return
        self._states[node] = (state, now_s)
        self._prepared[node] = {(p.function, p.template): p for p in state.prepared}
        assumed = self._assumed.get(node, {})
        for request in [request for request, running in assumed.items() if running.started_s < now_s]:
            del assumed[request]

    def lost(self, node: str) -> None:
        """The agent's stream ended; it is asked again when it speaks again."""
        self._states.pop(node, None)
        self._prepared.pop(node, None)

    @property
    def agents(self) -> Mapping[str, AgentAddress]:
        return self._agents

    @property
    def running(self) -> Mapping[str, Running]:
        """By request."""
        return self._running

    def live_agents(self, now_s: float) -> list[str]:
        return [node for node, (_, at_s) in self._states.items() if now_s - at_s < _SILENT_S]

    # One request

    def place(self, host: str, request: str, now_s: float, without: Iterable[str] = ()) -> Placing:
        """Choose an agent for the request and count the instance as asked for, until `failed` or `ended`."""
        listed = self._listed.get(host.lower())
        if listed is None:
            return Placing(None, None, "unknown")
        if request in self._running:
            return Placing(None, listed, "placed-before")
        if reason := self._over_cap(listed):
            return Placing(None, listed, reason)
        need = Need(listed.cpu_millis, listed.memory_bytes)
        excluded = set(without)
        nodes = [node for node in self.live_agents(now_s) if self._may_be_asked(node, listed, now_s)]
        candidates = [self._candidate(node, listed) for node in nodes if node not in excluded]
        variant = Variant.PAPER if listed.variant == Variant.PAPER else Variant.BEST
        self._turn += 1
        node, reason = choose(candidates, need, variant, self._turn)
        if reason:
            return Placing(None, listed, reason)
        if listed.mode != "enforce":
            return Placing(self._agents[node], listed, "shadow")
        forget_s = now_s + listed.longest_s + _FORGOTTEN_S
        running = Running(listed.function, node, need, now_s, forget_s, listed.template)
        self._running[request] = self._assumed.setdefault(node, {})[request] = running
        self._of_function[running.function] += 1
        self._of_namespace[running.function.namespace] += 1
        return Placing(self._agents[node], listed)

    def started(self, request: str, started: Started, now_s: float) -> bool:
        """False: its request ended meanwhile, so the instance is to be ended."""
        if (running := self._running.get(request)) is None:
            return False
        running = replace(running, instance=started.instance, started_s=now_s)
        self._running[request] = self._assumed.setdefault(running.node, {})[request] = running
        return True

    def failed(self, request: str) -> None:
        """Nothing runs for this request."""
        self.ended(request)

    def rest(self, node: str, function: Function, now_s: float) -> None:
        """A start failed there. Other functions may be fine: one tenant's image rests no node for others."""
        self._rests = {of: until_s for of, until_s in self._rests.items() if until_s > now_s}
        self._rests[node, function] = now_s + _REST_S

    def ended(self, request: str) -> Running | None:
        """The request is over; what ran for it."""
        if (running := self._running.pop(request, None)) is None:
            return None
        self._assumed[running.node].pop(request, None)
        _count_down(self._of_function, running.function)
        _count_down(self._of_namespace, running.function.namespace)
        return running

    def overdue(self, now_s: float) -> dict[str, Running]:
        """Forget instances that must have ended long ago."""
        gone = {request: of for request, of in self._running.items() if of.forget_s <= now_s}
        for request in gone:
            self.ended(request)
        return gone

    def _over_cap(self, listed: Listed) -> str:
        """A function's requests all come to one placement, a namespace's to each: those share its cap."""
        if self._of_function[listed.function] >= listed.most_instances:
            return "function-cap"
        of_namespace = self._of_namespace[listed.function.namespace]
        share = math.ceil(self.directory.most_in_namespace / max(self.directory.placements, 1))
        return "namespace-cap" if of_namespace >= share else ""

    def _may_be_asked(self, node: str, listed: Listed, now_s: float) -> bool:
        state, _ = self._states[node]
        return not state.draining and self._rests.get((node, listed.function), 0.0) <= now_s

    def _candidate(self, node: str, listed: Listed) -> Candidate:
        state, _ = self._states[node]
        assumed = self._assumed.get(node, {}).values()
        same = sum(r.template == listed.template for r in assumed)
        found = self._prepared[node].get((listed.function, listed.template))
        frozen, created = (found.frozen, found.created) if found else (0, 0)
        return Candidate(
            node,
            state.cpu_millis,
            state.cpu_millis_free - sum(r.need.cpu_millis for r in assumed),
            state.memory_bytes_free - sum(r.need.memory_bytes for r in assumed),
            max(frozen - same, 0),
            max(created - max(same - frozen, 0), 0),
            found is not None and found.image_present,
            sum(not r.instance for r in assumed),
            self._agents[node].speed,
        )


def _count_down(counted: Counter[K], key: K) -> None:
    counted[key] -= 1
    if not counted[key]:
        del counted[key]
