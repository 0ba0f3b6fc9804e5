"""The comparison in virtual time, on the lab's node model.

Four functions on one cluster, each with a Scaler. Deciding and the control plane take no time. Creating
takes as long as the node model says, growing in place tau_u; removed or shrunk containers free their
resources at once. Removals and shrinks of a decision wait until its creations and growths are ready if the
target would not be met without them, unless these need the room: no arm gives up serving capacity before
its replacement is ready. Scalers see a node's speed as of the last creation that ended there, as a probe
would.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from experiments.combofunc.model import Container, Create, NodeView, Remove, Resize, Scaler, State
from experiments.combofunc.node_load import LoadWatch
from experiments.combofunc.running import Pod, Running, difference, releases, serving
from experiments.combofunc.track import Holding, Track
from experiments.combofunc.workload import FUNCTIONS, Size, Workload
from kwok.errors import LabError
from kwok.node_model import Created, NodeModel, Resized

__all__ = ["Outcome", "OvercommitError", "simulate"]

_SAMPLE_S, _UTILISATION_S = 1.0, 5.0


class OvercommitError(LabError):
    """A scaler asked for more than a node has; the message names arm, node and size."""


@dataclass
class Outcome:
    tracks: dict[str, Track]
    cpu_utilisation: list[float] = field(default_factory=list)  # requested / whole, a node a sample
    memory_utilisation: list[float] = field(default_factory=list)


@dataclass
class _Node:
    cpu: int
    memory: int
    pods: int


def simulate(workload: Workload, seed: int, scaler_of: Callable[[str], Scaler]) -> Outcome:
    """Play one arm; `scaler_of` makes a function's scaler."""
    return _Simulation(workload, seed, {name: scaler_of(name) for name in FUNCTIONS}).run()


class _Simulation:
    def __init__(self, workload: Workload, seed: int, scalers: Mapping[str, Scaler]) -> None:
        self._workload, self._scenario = workload, workload.scenario(seed)
        self._model = NodeModel(self._scenario)
        self._functions = {name: Running(name, scaler) for name, scaler in scalers.items()}
        self._free = {
            name: _Node(workload.node_cpu_millicores, workload.node_memory_bytes, workload.node_pods)
            for name in workload.node_names
        }
        for resident in workload.residents(seed):
            node = self._free[f"node-{resident.node}"]
            node.cpu -= resident.cpu_millicores
            node.memory -= resident.memory_bytes
            node.pods -= 1
        self._watch = LoadWatch(workload, self._scenario, seed)
        self._tau_seen_s = dict.fromkeys(workload.node_names, workload.tau_create_s)
        self._owner: dict[str, str] = {}
        self._now_s, self._made, self._freed = 0.0, 0, False
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        for name, targets in workload.targets(seed).items():
            for at_s, target in targets.changes:
                self._at(at_s, lambda n=name, t=target: self._aim(n, t))  # type: ignore[misc]
        for newcomer in workload.newcomers(seed):
            node_name = f"node-{newcomer.node}"
            self._at(newcomer.at_s, lambda n=newcomer.name, at=node_name: self._come(n, at))  # type: ignore[misc]
        self._outcome = Outcome({name: f.track for name, f in self._functions.items()})

    def run(self) -> Outcome:
        self._every(_SAMPLE_S, self._sample)
        self._every(_UTILISATION_S, self._sample_utilisation)
        self._every(
            self._watch.every_s, lambda: self._watch.sample(self._now_s, serving(self._functions.values()))
        )
        while True:
            next_s = min(self._planned[0][0] if self._planned else math.inf, self._model.next_event_s())
            if next_s > self._workload.duration_s:
                break
            self._pass(next_s)
            for event in self._model.advance(next_s):
                self._happened(event)
            while self._planned and self._planned[0][0] <= next_s:
                heapq.heappop(self._planned)[2]()
            self._ask_those_short()
        self._pass(self._workload.duration_s)
        for function in self._functions.values():
            function.track.end(self._now_s)
        return self._outcome

    def _at(self, at_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._planned, (at_s, self._made, do))
        self._made += 1

    def _every(self, seconds: float, do: Callable[[], None]) -> None:
        for i in range(1, int(self._workload.duration_s / seconds) + 1):
            self._at(i * seconds, do)

    def _pass(self, until_s: float) -> None:
        for function in self._functions.values():
            cpu = sum(pod.size.cpu_millicores for pod in function.pods.values())
            memory = sum(pod.size.memory_bytes for pod in function.pods.values())
            function.track.passed(until_s - self._now_s, function.ready, cpu, memory)
        self._now_s = until_s

    # What comes from outside.

    def _come(self, pod: str, node: str) -> None:
        self._bind(pod, node, None)
        end_s = self._now_s + self._workload.newcomer_lifetime_s
        self._at(end_s, lambda: self._gone(pod, node))

    def _aim(self, name: str, target: int) -> None:
        function = self._functions[name]
        function.target = target
        function.track.aim(self._now_s, target, function.ready)
        self._decide(function)

    def _ask_again(self, function: Running) -> None:
        if function.again_at_s <= self._now_s:
            self._decide(function)

    def _ask_those_short(self) -> None:
        """Room was freed: kube-scheduler retries pending pods, and a controller plans again."""
        for function in self._functions.values():
            if function.keeps_warm and self._others_short(function):
                self._decide(function)
        freed, self._freed = self._freed, False
        for function in self._functions.values():
            if freed and self._short(function):
                self._decide(function)

    def _short(self, function: Running) -> bool:
        return function.concurrency < function.target

    def _others_short(self, function: Running) -> bool:
        return any(self._short(other) for other in self._functions.values() if other is not function)

    # Deciding, and carrying it out.

    def _decide(self, function: Running) -> None:
        decision = function.scaler.decide(self._state(function), function.target)
        function.track.decided_s.append(decision.decided_s)
        function.again_at_s, function.keeps_warm = decision.again_at_s, decision.keeps_warm
        if decision.again_at_s < math.inf:
            self._at(function.again_at_s, lambda: self._ask_again(function))
        pods = function.pods
        function.releases = [a for a in decision.actions if releases(a, pods)]  # type: ignore[misc]
        for action in decision.actions:
            if isinstance(action, Resize) and not releases(action, pods):
                pod = pods[action.pod]
                more = difference(action.size, pod.size)
                self._make_room(function, pod.node, more)
                self._take(pod.node, more)
                self._resize(pod, action.size)
        for action in decision.actions:
            if isinstance(action, Create):
                self._create(function, action)
        self._settle(function)

    def _create(self, function: Running, action: Create) -> None:
        size = action.size
        self._make_room(function, action.node, (size.cpu_millicores, size.memory_bytes))
        self._take(action.node, (size.cpu_millicores, size.memory_bytes))
        self._free[action.node].pods -= 1
        self._made += 1
        name = f"{function.name}-{self._made}"
        function.pods[name] = Pod(name, action.node, size, self._made)
        self._owner[name] = function.name
        self._bind(name, action.node, size.cpu_millicores)

    def _bind(self, pod: str, node: str, cpu_millicores: int | None) -> None:
        self._model.bind(pod, node, 1, [], self._now_s)
        self._watch.bind(pod, node, self._now_s, cpu_millicores)

    def _gone(self, pod: str, node: str) -> None:
        self._model.gone(pod, node, self._now_s)
        self._watch.gone(pod, node)

    def _resize(self, pod: Pod, size: Size) -> None:
        if pod.ready:
            pod.serving, pod.growing_to = min(pod.serving, size.concurrency), size.concurrency
            if pod.growing_to <= pod.serving:
                pod.growing_to = 0
            pod.resizing, pod.generation = True, pod.generation + 1
            self._model.resize(pod.name, pod.node, pod.generation, self._now_s)
        pod.size = size

    def _make_room(self, function: Running, node: str, needed: tuple[int, int]) -> None:
        """Release containers there now, where the room is needed."""
        here = [a for a in function.releases if function.pods[a.pod].node == node]
        while here and not self._has(node, needed):
            self._release(function, here.pop(0))
        if not self._has(node, needed):
            free = self._free[node]
            raise OvercommitError(
                f"{function.name} at {self._now_s:.3f} s: {needed[0]}m and {needed[1]} bytes on {node},"
                f" which has {free.cpu}m and {free.memory} bytes free"
            )

    def _settle(self, function: Running) -> None:
        """Release containers as soon as the target is met without them."""
        for action in list(function.releases):
            pod = function.pods[action.pod]
            left = action.size.concurrency if isinstance(action, Resize) else 0
            lost = max(pod.serving - left, 0)
            if not lost or not function.coming or function.ready - lost >= function.target:
                self._release(function, action)
        function.track.became(self._now_s, function.ready)

    def _release(self, function: Running, action: Remove | Resize) -> None:
        function.releases.remove(action)
        pod = function.pods[action.pod]
        self._freed = True
        if isinstance(action, Resize):
            cpu, memory = difference(action.size, pod.size)
            self._take(pod.node, (cpu, memory))
            self._resize(pod, action.size)
            return
        del function.pods[pod.name]
        del self._owner[pod.name]
        self._take(pod.node, (-pod.size.cpu_millicores, -pod.size.memory_bytes))
        self._free[pod.node].pods += 1
        self._gone(pod.name, pod.node)

    def _has(self, node: str, needed: tuple[int, int]) -> bool:
        free = self._free[node]
        return all(need <= max(have, 0) for need, have in zip(needed, (free.cpu, free.memory), strict=True))

    def _take(self, node: str, amount: tuple[int, int]) -> None:
        self._free[node].cpu -= amount[0]
        self._free[node].memory -= amount[1]

    def _happened(self, event: object) -> None:
        if isinstance(event, Created):
            self._tau_seen_s[event.node] = self._scenario.tau_create_s(event.node, event.at_s)
        if not isinstance(event, Created | Resized) or event.pod not in self._owner:
            return
        function = self._functions[self._owner[event.pod]]
        pod = function.pods[event.pod]
        if isinstance(event, Created):
            pod.ready, pod.serving = True, pod.size.concurrency
        elif event.generation == pod.generation:
            pod.resizing, pod.growing_to, pod.serving = False, 0, pod.size.concurrency
        function.track.became(self._now_s, function.ready)
        self._settle(function)

    # What is seen and noted.

    def _state(self, function: Running) -> State:
        workload = self._workload
        nodes = [
            NodeView(
                name, workload.node_cpu_millicores, workload.node_memory_bytes, free.cpu, free.memory,
                free.pods, self._model.creating(name), self._tau_seen_s[name], workload.tau_resize_s,
            )
            for name, free in self._free.items()
        ]  # fmt: skip
        containers = [
            Container(p.name, p.node, p.size, p.ready, p.resizing, p.age) for p in function.pods.values()
        ]
        return State(nodes, containers, self._now_s, self._others_short(function), self._watch.loads)

    def _sample(self) -> None:
        workload = self._workload
        for function in self._functions.values():
            holdings = [
                Holding(
                    pod.size,
                    self._free[pod.node].cpu / workload.node_cpu_millicores,
                    self._free[pod.node].memory / workload.node_memory_bytes,
                )
                for pod in function.pods.values()
            ]
            function.track.sample(self._now_s, function.ready, holdings)

    def _sample_utilisation(self) -> None:
        workload = self._workload
        for free in self._free.values():
            self._outcome.cpu_utilisation.append(round(1 - free.cpu / workload.node_cpu_millicores, 4))
            self._outcome.memory_utilisation.append(round(1 - free.memory / workload.node_memory_bytes, 4))
