"""Clients, a gateway and pods in virtual time: what the lab does live, in seconds.

The gateway sends each request to a random ready pod, as kube-proxy does, holds it while there is none, and
fails it after its timeout. A policy may set the number of replicas every interval; pods are ready
`creation_s` later. A removed pod gets no new requests and ends with its last one. The same seed gives the
same run.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from kwok.errors import TrafficError
from kwok.traffic.function import Function
from kwok.traffic.function_model import FunctionModel
from kwok.traffic.functions import CLUSTER, GATEWAY_TIMEOUT_S, Cluster

__all__ = ["Clients", "Policy", "Rate", "Sample", "Settings", "simulate"]


@dataclass(frozen=True)
class Sample:
    """What a monitor sees of an interval that ended at `at_s`."""

    at_s: float
    throughput_per_s: float  # answered
    errors_per_s: float
    latency_s: float | None  # mean of what was answered; None when nothing was
    cpu_utilisation: float | None  # of the request, mean over ready pods; None when there is none
    replicas_ready: int
    clients: int  # of the closed loop; 0 in an open one

    @property
    def score(self) -> float:
        """KneeScale eq. 1; 0 if nothing was answered."""
        return self.throughput_per_s / self.latency_s if self.latency_s else 0.0


@dataclass(frozen=True)
class Clients:
    """A closed loop: each client sends again as soon as its request was answered or failed."""

    at: Callable[[float], int]  # asked at every interval

    @classmethod
    def constant(cls, clients: int) -> Clients:
        return cls(lambda _: clients)


@dataclass(frozen=True)
class Rate:
    """An open loop: Poisson arrivals, whatever happens to earlier requests."""

    per_s: float


@dataclass(frozen=True)
class Settings:
    interval_s: float = 30.0  # KneeScale's sampling interval
    gateway_timeout_s: float = GATEWAY_TIMEOUT_S
    creation_s: float = 2.0  # from wanted to Ready
    cluster: Cluster = CLUSTER


Policy = Callable[[Sample], int]
Demand = Callable[[random.Random], tuple[float, float]]


def simulate(
    function: Function,
    load: Clients | Rate,
    replicas: int,
    duration_s: float,
    *,
    seed: int,
    policy: Policy | None = None,
    settings: Settings = Settings(),  # noqa: B008 - frozen
    demand: Demand | None = None,
) -> list[Sample]:
    """One sample an interval. `replicas` are ready at the start; `demand` replaces the function's own."""
    run = _Run(function, load, settings, random.Random(seed), demand or function.draw_demand)
    run.scale(replicas, 0.0, 0.0)
    samples = []
    run.send_as(0.0)
    for number in range(1, math.floor(duration_s / settings.interval_s + 1e-9) + 1):
        now_s = number * settings.interval_s
        run.until(now_s)
        samples.append(run.sample(now_s))
        if policy is not None:
            run.scale(policy(samples[-1]), now_s, settings.creation_s)
        run.send_as(now_s)
    return samples


@dataclass
class _Counts:
    """Counters of the current interval."""

    answered: int = 0
    failed: int = 0
    latency_s: float = 0.0


class _Run:
    def __init__(
        self,
        function: Function,
        load: Clients | Rate,
        settings: Settings,
        draw: random.Random,
        demand: Demand,
    ) -> None:
        self._function, self._load, self._settings = function, load, settings
        self._draw, self._demand = draw, demand
        self._model = FunctionModel()
        self._room = {f"node-{i}": cores for i, cores in enumerate(settings.cluster.allocatable_cores)}
        for node in self._room:
            self._model.add_node(node, settings.cluster.node_cores)
        self._places: dict[str, str] = {}  # pod -> node, of all that were not removed
        self._ready: list[str] = []
        self._creating: deque[tuple[float, str]] = deque()  # (when it is ready, pod)
        self._draining: set[str] = set()
        self._used_s: dict[str, tuple[float, float]] = {}  # ready pod -> (cpu, since) at the interval's start
        self._sent_s: dict[int, float] = {}  # requests in flight
        self._deadlines: deque[tuple[float, int]] = deque()
        self._held: deque[int] = deque()  # at the gateway, for want of a pod
        self._numbers = itertools.count()
        self._wanted_clients = self._clients = 0
        self._next_arrival_s = math.inf
        self._counts = _Counts()
        self._interval_start_s = 0.0

    def send_as(self, now_s: float) -> None:
        """Apply the current load."""
        if isinstance(self._load, Rate):
            if self._load.per_s > 0 and self._next_arrival_s == math.inf:
                self._next_arrival_s = now_s + self._draw.expovariate(self._load.per_s)
            return
        self._wanted_clients = self._load.at(now_s)
        while self._clients < self._wanted_clients:
            self._clients += 1
            self._send(now_s)

    def scale(self, replicas: int, now_s: float, creation_s: float) -> None:
        """Create or remove pods; the youngest go first, as a ReplicaSet does with pods alike."""
        if replicas < 0:
            raise TrafficError(f"replicas: {replicas!r} must be at least 0")
        have = len(self._ready) + len(self._creating)
        for _ in range(have, replicas):
            pod = f"pod-{next(self._numbers)}"
            node = max(self._room, key=self._room.__getitem__)
            if self._room[node] < self._function.cpu_cores - 1e-9:
                break  # pending: the cluster is full
            self._room[node] -= self._function.cpu_cores
            self._places[pod] = node
            self._creating.append((now_s + creation_s, pod))
        for _ in range(replicas, have):
            if self._creating:
                self._free(self._creating.pop()[1])
            else:
                pod = self._ready.pop()
                del self._used_s[pod]
                self._draining.add(pod)
        self._make_ready(now_s)
        self._end_drained(now_s)

    def until(self, end_s: float) -> None:
        """Process all events up to `end_s`."""
        model, deadlines = self._model, self._deadlines
        while True:
            while deadlines and deadlines[0][1] not in self._sent_s:
                deadlines.popleft()
            event_s = model.next_event_s()
            now_s = min(
                math.inf if event_s is None else event_s,
                deadlines[0][0] if deadlines else math.inf,
                self._creating[0][0] if self._creating else math.inf,
                self._next_arrival_s,
            )
            if now_s > end_s:
                return
            for completion in model.advance(now_s):
                self._counts.answered += 1
                self._counts.latency_s += completion.at_s - self._sent_s.pop(completion.request_id)
                self._send_again(now_s)
            while deadlines and deadlines[0][0] <= now_s:
                request = deadlines.popleft()[1]
                if request in self._sent_s:
                    self._fail(request, now_s)
            self._make_ready(now_s)
            if self._draining:
                self._end_drained(now_s)
            if self._next_arrival_s <= now_s and isinstance(self._load, Rate):
                self._send(now_s)
                self._next_arrival_s = now_s + self._draw.expovariate(self._load.per_s)

    def sample(self, now_s: float) -> Sample:
        counts, self._counts = self._counts, _Counts()
        length_s, self._interval_start_s = now_s - self._interval_start_s, now_s
        utilisations = []
        for pod in self._ready:
            used_s = self._model.cpu_used_s(pod, now_s)
            before_s, since_s = self._used_s[pod]
            if now_s > since_s:
                utilisations.append((used_s - before_s) / (self._function.cpu_cores * (now_s - since_s)))
            self._used_s[pod] = (used_s, now_s)
        return Sample(
            at_s=now_s,
            throughput_per_s=counts.answered / length_s,
            errors_per_s=counts.failed / length_s,
            latency_s=counts.latency_s / counts.answered if counts.answered else None,
            cpu_utilisation=sum(utilisations) / len(utilisations) if utilisations else None,
            replicas_ready=len(self._ready),
            clients=self._clients,
        )

    def _send(self, now_s: float) -> None:
        request = next(self._numbers)
        self._sent_s[request] = now_s
        self._deadlines.append((now_s + self._settings.gateway_timeout_s, request))
        if self._ready:
            self._forward(request, now_s)
        else:
            self._held.append(request)

    def _forward(self, request: int, now_s: float) -> None:
        pod = self._ready[int(self._draw.random() * len(self._ready))]
        cpu_s, io_s = self._demand(self._draw)
        self._model.arrive(pod, request, cpu_s, io_s, now_s)

    def _send_again(self, now_s: float) -> None:
        """A client of the closed loop is free."""
        if isinstance(self._load, Rate):
            return
        if self._clients > self._wanted_clients:
            self._clients -= 1
        else:
            self._send(now_s)

    def _fail(self, request: int, now_s: float) -> None:
        del self._sent_s[request]
        self._model.cancel(request, now_s)
        self._counts.failed += 1
        self._send_again(now_s)

    def _make_ready(self, now_s: float) -> None:
        while self._creating and self._creating[0][0] <= now_s:
            _, pod = self._creating.popleft()
            self._model.add_pod(pod, self._function, self._places[pod], now_s)
            self._ready.append(pod)
            self._used_s[pod] = (0.0, now_s)
        while self._held and self._ready:
            request = self._held.popleft()
            if request in self._sent_s:
                self._forward(request, now_s)

    def _end_drained(self, now_s: float) -> None:
        for pod in sorted(self._draining):
            if not self._model.in_flight(pod):
                self._draining.discard(pod)
                self._model.remove_pod(pod, now_s)
                self._free(pod)

    def _free(self, pod: str) -> None:
        self._room[self._places.pop(pod)] += self._function.cpu_cores
