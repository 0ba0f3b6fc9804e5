"""What runs in an arm over time: pods, emergency instances, containers that are ready, and CPU."""

from __future__ import annotations

import asyncio
import copy
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from burst_plane.model import NodeState
from burst_plane.wire.messages import PULSELET, WatchRequest
from experiments.arrivals import is_ready
from experiments.pulsenet.live.autoscaler import look
from experiments.pulsenet.live.objects import NAMESPACE
from experiments.pulsenet.live.processes import ProcessTimes
from kwok.burst.node import PLACEMENT, SERVER_NAME
from kwok.burst.plane import Plane
from surgekit.kube.watch import Watch
from surgekit.wire.client import WireClient, WireError

__all__ = ["Observer", "Seen"]

Json = dict[str, Any]
_LOOK_S = 0.2


@dataclass
class Seen:
    """Integrals and counters; the difference of two is an interval. Hosts and names of functions as keys."""

    at_s: float
    regular_s: dict[str, float] = field(default_factory=dict)  # seconds of pods, from creation to deletion
    emergency_s: dict[str, float] = field(default_factory=dict)
    frozen_s: dict[str, float] = field(default_factory=dict)
    created_s: float = 0.0  # seconds of containers that are created and not started
    creations: int = 0  # of pods
    creation_s: list[float] = field(default_factory=list)  # until Ready, of each
    arrivals: dict[str, float] = field(default_factory=dict)
    overflowed: dict[str, float] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)  # by process

    def since(self, first: Seen) -> Seen:
        return Seen(
            self.at_s - first.at_s,
            _less(self.regular_s, first.regular_s),
            _less(self.emergency_s, first.emergency_s),
            _less(self.frozen_s, first.frozen_s),
            self.created_s - first.created_s,
            self.creations - first.creations,
            self.creation_s[len(first.creation_s) :],
            _less(self.arrivals, first.arrivals),
            _less(self.overflowed, first.overflowed),
            _less(self.cpu_s, first.cpu_s),
        )


def _less(last: Mapping[str, float], first: Mapping[str, float]) -> dict[str, float]:
    return {key: value - first.get(key, 0.0) for key, value in last.items()}


class Observer:
    """Watches pods and the node agent, and looks at HAProxy's counters."""

    def __init__(self, plane: Plane, with_agent: bool) -> None:
        self._plane, self._with_agent = plane, with_agent
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._pods: dict[str, str] = {}  # uid -> function
        self._ready: NodeState | None = None
        self._sums = Seen(time.monotonic())
        self._in_emergency: Mapping[str, int] = {}
        self._born: dict[str, float] = {}  # when the first event of a pod arrived
        self._ready_pods: set[str] = set()
        self._processes = ProcessTimes(plane.lab.directory, plane.node)
        self.failed_looks = 0
        self.loads: list[float] = []
        self._watch = Watch(plane.lab.kube, f"/api/v1/namespaces/{NAMESPACE}/pods", self)
        runs = [self._look, self._follow_agent] if with_agent else [self._look]
        self._threads = [threading.Thread(target=run, daemon=True) for run in runs]

    def __enter__(self) -> Observer:
        self._watch.start()
        if not self._watch.synced.wait(30):
            raise TimeoutError("no list of pods within 30 s")
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._watch.stop()
        for thread in self._threads:
            thread.join(timeout=10.0)

    def seen(self) -> Seen:
        """Until now."""
        with self._lock:
            self._pass(time.monotonic())
            return replace(copy.deepcopy(self._sums), cpu_s=self._processes.cpu_s())

    # The watch of pods.

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        with self._lock:
            self._pass(arrival_s)
            self._pods = {}
            for obj in objects:
                self._note(obj, arrival_s)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        with self._lock:
            self._pass(arrival_s)
            if kind == "DELETED":
                self._pods.pop(obj["metadata"]["uid"], None)
            else:
                self._note(obj, arrival_s)

    def _note(self, obj: Json, arrival_s: float) -> None:
        uid, name = obj["metadata"]["uid"], (obj["metadata"].get("labels") or {}).get("app", "")
        self._pods[uid] = name
        if uid not in self._born:
            self._born[uid] = arrival_s
            self._sums.creations += 1
        if uid not in self._ready_pods and is_ready(obj):
            self._ready_pods.add(uid)
            self._sums.creation_s.append(arrival_s - self._born[uid])

    # HAProxy and the agent.

    def _look(self) -> None:
        while not self._stopped.wait(_LOOK_S):
            self.loads.append(os.getloadavg()[0])
            try:
                seen = look(self._plane.directory)
            except OSError:
                self.failed_looks += 1
                continue
            with self._lock:
                self._pass(time.monotonic())
                names = {host: host.partition(".")[0] for host in seen}
                self._in_emergency = {names[host]: of.in_emergency for host, of in seen.items()}
                self._sums.arrivals = {names[host]: of.arrivals for host, of in seen.items()}
                self._sums.overflowed = {names[host]: of.overflowed for host, of in seen.items()}

    def _follow_agent(self) -> None:
        asyncio.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        following = asyncio.create_task(self._follow())
        while not self._stopped.is_set():
            await asyncio.sleep(_LOOK_S)
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following

    async def _follow(self) -> None:
        plane = self._plane
        agent = WireClient(plane.agent, PULSELET, plane.certificates, SERVER_NAME, PLACEMENT)
        try:
            while True:
                with suppress(WireError):
                    async for state in agent.stream("Watch", WatchRequest(), NodeState):
                        with self._lock:
                            self._pass(time.monotonic())
                            self._ready = state
                await asyncio.sleep(1.0)
        finally:
            await agent.close()

    def _pass(self, until_s: float) -> None:
        """Account for the time since the last change. Events of several sources may be slightly out of
        order: time never goes back."""
        sums = self._sums
        passed_s = until_s - sums.at_s
        if passed_s <= 0.0:
            return
        sums.at_s = until_s
        for name, number in Counter(self._pods.values()).items():
            _add(sums.regular_s, name, passed_s * number)
        for name, number in self._in_emergency.items():
            _add(sums.emergency_s, name, passed_s * number)
        for of in self._ready.prepared if self._ready else ():
            _add(sums.frozen_s, of.function.name, passed_s * of.frozen)
            sums.created_s += passed_s * of.created


def _add(to: dict[str, float], key: str, amount: float) -> None:
    to[key] = to.get(key, 0.0) + amount
