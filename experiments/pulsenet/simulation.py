"""One run in virtual time: requests, slots, queues, and instances that a policy asks for. Pure.

A request takes an idle regular instance. If there is none, it goes to the emergency track, if the system has
one and it takes it; else it waits for a regular instance, first come, first served. An instance takes one
request at a time. CPU is never short: nodes are as large as the paper's, which it loads below 100 %.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from experiments.pulsenet.model import ROUTING_S, Cluster, Creation, Floats, Outcome, Track
from experiments.pulsenet.nodes import Node, Nodes, Pending
from experiments.pulsenet.trace import Requests

__all__ = ["Emergency", "Fn", "Idle", "Policy", "Simulation", "Span"]

_PATIENCE_S = 3600.0  # after the end, for the requests that still wait


@dataclass(frozen=True, slots=True)
class Span:
    warm_up_s: float = 1200.0  # an hour, of which the paper drops 20 minutes (section 5)
    measured_s: float = 2400.0

    @property
    def end_s(self) -> float:
        return self.warm_up_s + self.measured_s


@dataclass(slots=True, eq=False)
class Idle:
    node: Node
    since_s: float


@dataclass(slots=True, eq=False)
class Fn:
    """One function's instances and requests."""

    index: int
    memory_bytes: float
    idle: deque[Idle] = field(default_factory=deque)  # the longest idle first
    queue: deque[int] = field(default_factory=deque)  # requests
    creating: list[Pending] = field(default_factory=list)
    spares: deque[Idle] = field(
        default_factory=deque
    )  # warm pool: ready, and no function's request goes there
    spares_coming: int = 0
    busy: int = 0
    leaving: int = 0  # of the busy ones, those that go when their request ends
    in_emergency: int = 0
    asked: int = 0
    frozen: int = 0
    # sums since the beginning
    arrivals: int = 0
    started: int = 0
    refused: int = 0
    at_s: float = 0.0
    busy_s: float = 0.0
    queued_s: float = 0.0
    emergency_s: float = 0.0
    held_s: float = 0.0
    ran_s: float = 0.0
    memo: Any = None  # the policy's own

    @property
    def ready(self) -> int:
        return len(self.idle) + self.busy - self.leaving

    def touch(self, now_s: float) -> None:
        """Before a number changes."""
        passed_s = now_s - self.at_s
        if passed_s > 0.0:
            self.at_s = now_s
            self.busy_s += passed_s * self.busy
            self.queued_s += passed_s * len(self.queue)
            self.emergency_s += passed_s * self.in_emergency
            self.ran_s += passed_s * (self.busy + self.in_emergency)
            self.held_s += passed_s * (
                len(self.idle) + self.busy + len(self.creating) + self.in_emergency + self.frozen
                + len(self.spares) + self.spares_coming
            )  # fmt: skip


class Policy(Protocol):
    """Sets the number of regular instances."""

    def begin(self, world: Simulation) -> None: ...

    def missed(self, fn: Fn, now_s: float) -> None:
        """A request waits for a regular instance."""

    def second(self, fn: Fn, now_s: float) -> bool:
        """Of a function that is not asleep. False: nothing happens before its next request; let it sleep."""

    def woken(self, fn: Fn, now_s: float) -> None:
        """A request arrives at a function that was asleep."""

    def decide(self, fn: Fn, now_s: float) -> None:
        """Each two seconds, as Knative."""

    def every_second(self, now_s: float) -> None: ...


class Emergency(Protocol):
    def begin(self, world: Simulation) -> None: ...

    def start(self, fn: Fn, request: int, now_s: float) -> bool:
        """Whether an emergency instance takes the request."""

    def every_second(self, now_s: float) -> None: ...

    def prepared_byte_s(self, now_s: float) -> float:
        """So far, of containers that are created and not started."""


class Simulation:
    def __init__(
        self, requests: Requests, memory_bytes: Floats, span: Span, cluster: Cluster, creation: Creation,
        policy: Policy, emergency: Emergency | None = None,
    ) -> None:  # fmt: skip
        self.requests, self.span, self.cluster = requests, span, cluster
        self.functions = [Fn(i, float(m)) for i, m in enumerate(memory_bytes)]
        self.policy, self.emergency = policy, emergency
        self.nodes = Nodes(cluster, creation, self.push, self._created)
        self.awake: dict[int, Fn] = {}
        self.creations = 0
        self.creation_s: list[float] = []
        self.creations_by_second = [0] * (int(span.end_s) + 1)
        self.starts: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.predictions = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = itertools.count()
        self._duration = requests.duration_s.tolist()
        self._at = requests.at_s.tolist()
        self._begun = [math.nan] * len(self._at)
        self._track = [int(Track.WAITED)] * len(self._at)

    def push(self, at_s: float, action: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._heap, (at_s, next(self._count), action, arguments))

    def run(self) -> Outcome:
        self.policy.begin(self)
        if self.emergency:
            self.emergency.begin(self)
        self.push(1.0, self._second)
        self.push(self.span.warm_up_s, self._snapshot)
        self.push(self.span.end_s, self._snapshot)
        self._snapshots: list[tuple[Floats, Floats, float, int, dict[str, int], dict[str, int], int]] = []
        heap, functions = self._heap, self.functions
        owners = self.requests.function.tolist()
        request, now_s = 0, 0.0
        end_s = self.span.end_s + _PATIENCE_S
        while now_s < end_s:
            if request < len(self._at) and self._at[request] <= heap[0][0]:
                self._arrive(functions[owners[request]], request, self._at[request])
                request += 1
                continue
            now_s, _, action, arguments = heapq.heappop(heap)
            action(*arguments, now_s)
            over = now_s >= self.span.end_s and request == len(self._at)
            if over and not any(fn.queue or fn.in_emergency for fn in functions):
                break
        return self._outcome()

    # --- requests ---

    def _arrive(self, fn: Fn, request: int, now_s: float) -> None:
        if fn.index not in self.awake:
            self.awake[fn.index] = fn
            self.policy.woken(fn, now_s)
        fn.touch(now_s)
        fn.arrivals += 1
        if fn.idle:
            self._run_on(fn, fn.idle.pop().node, request, now_s, Track.WARM)
        elif self.emergency is None or not self.emergency.start(fn, request, now_s):
            fn.queue.append(request)
            self.policy.missed(fn, now_s)

    def _run_on(self, fn: Fn, node: Node, request: int, now_s: float, track: Track) -> None:
        fn.busy += 1
        self._begun[request], self._track[request] = now_s, track
        self.push(now_s + self._duration[request], self._done, fn, node)

    def _done(self, fn: Fn, node: Node, now_s: float) -> None:
        fn.touch(now_s)
        fn.busy -= 1
        if fn.leaving:
            fn.leaving -= 1
            self.nodes.remove(node)
        else:
            self._offer(fn, node, now_s)

    def _offer(self, fn: Fn, node: Node, now_s: float) -> None:
        """A regular instance has no request."""
        if fn.queue:
            self._run_on(fn, node, fn.queue.popleft(), now_s, Track.WAITED)
        else:
            fn.idle.append(Idle(node, now_s))

    # --- for emergency tracks ---

    def run_emergency(self, fn: Fn, request: int, after_s: float, now_s: float) -> float:
        """Function code begins so much later. Returns when it ends."""
        fn.in_emergency += 1
        fn.started += 1
        self._begun[request], self._track[request] = now_s + after_s, Track.EMERGENCY
        ends_s: float = now_s + after_s + self._duration[request]
        return ends_s

    # --- for policies ---

    def scale(self, fn: Fn, wanted: int, now_s: float) -> None:
        fn.touch(now_s)
        fn.asked = wanted
        there = fn.ready + len(fn.creating)
        for _ in range(wanted - there):
            self.create(fn, now_s)
        for _ in range(there - wanted):  # first those that are not ready, as a ReplicaSet does
            if fn.creating:
                pending = fn.creating.pop()
                self.nodes.cancel(pending, now_s)
            elif fn.idle:
                self.nodes.remove(fn.idle.popleft().node)
            else:
                fn.leaving += 1

    def create(self, fn: Fn, now_s: float, spare: bool = False) -> None:
        fn.touch(now_s)
        pending = Pending(fn, spare, now_s)
        if spare:
            fn.spares_coming += 1
        else:
            fn.creating.append(pending)
        self.creations += 1
        self.creations_by_second[min(int(now_s), len(self.creations_by_second) - 1)] += 1
        self.nodes.create(pending, now_s)

    def adopt(self, fn: Fn, after_s: float, now_s: float) -> None:
        """A spare instance becomes a regular one."""
        fn.touch(now_s)
        pending = Pending(fn, False, now_s, fn.spares.popleft().node)
        fn.creating.append(pending)
        self.push(now_s + after_s, self._adopted, pending)

    def expire(self, fn: Fn, idle_since_s: float, now_s: float) -> None:
        """Remove the instances that are idle since then."""
        while fn.idle and fn.idle[0].since_s <= idle_since_s:
            fn.touch(now_s)
            self.nodes.remove(fn.idle.popleft().node)

    def _adopted(self, pending: Pending, now_s: float) -> None:
        if not pending.cancelled:
            self._created(pending, now_s)

    def _created(self, pending: Pending, now_s: float) -> None:
        fn: Fn = pending.owner
        fn.touch(now_s)
        assert pending.node is not None  # noqa: S101  (it was created there)
        self.creation_s.append(now_s - pending.asked_s)
        if pending.spare:
            fn.spares_coming -= 1
            fn.spares.append(Idle(pending.node, now_s))
        else:
            fn.creating.remove(pending)
            self._offer(fn, pending.node, now_s)

    # --- the clock ---

    def _second(self, now_s: float) -> None:
        self.push(now_s + 1.0, self._second)
        self.policy.every_second(now_s)
        if self.emergency:
            self.emergency.every_second(now_s)
        decides = round(now_s) % 2 == 0
        for fn in list(self.awake.values()):
            fn.touch(now_s)
            if not self.policy.second(fn, now_s):
                del self.awake[fn.index]
            elif decides:
                self.policy.decide(fn, now_s)

    def _snapshot(self, now_s: float) -> None:
        for fn in self.functions:
            fn.touch(now_s)
        self._snapshots.append(
            (
                np.array([fn.held_s for fn in self.functions]),
                np.array([fn.ran_s for fn in self.functions]),
                self.emergency.prepared_byte_s(now_s) if self.emergency else 0.0,
                self.creations,
                dict(self.starts),
                dict(self.refused),
                self.predictions,
            )
        )

    def _outcome(self) -> Outcome:
        (held, ran, prepared, created, starts, refused, predictions), last = self._snapshots
        low, high = np.searchsorted(self.requests.at_s, (self.span.warm_up_s, self.span.end_s))
        begun = np.array(self._begun[low:high])
        at_s = self.requests.at_s[low:high]
        never = np.isnan(begun)
        begun[never] = self.span.end_s + _PATIENCE_S
        return Outcome(
            function=self.requests.function[low:high],
            duration_s=self.requests.duration_s[low:high],
            delay_s=begun - at_s + ROUTING_S,
            track=np.array(self._track[low:high], np.int64),
            finished=not never.any(),
            memory_bytes=np.array([fn.memory_bytes for fn in self.functions]),
            held_s=last[0] - held,
            busy_s=last[1] - ran,
            measured_s=self.span.measured_s,
            prepared_byte_s=last[2] - prepared,
            creations=last[3] - created,
            creation_s=self.creation_s,
            creations_by_second=self.creations_by_second[int(self.span.warm_up_s) : int(self.span.end_s)],
            starts={key: n - starts.get(key, 0) for key, n in last[4].items()},
            refused={key: n - refused.get(key, 0) for key, n in last[5].items()},
            predictions=last[6] - predictions,
        )
