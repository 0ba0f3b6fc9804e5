"""The scale-out of `surgekit bench placement` in virtual time: one policy, on the lab's node model.

kube-scheduler binds one pod after the other. The extender's cost, its assumed pods and the probe's ledger are
the real ones; the watch, the API server and the scheduler are delays. So the gain can be shown over how fast
node speeds change, how unequal they are, and how old the probe's knowledge is.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cluster_autoscaler_hook.expander.stock_scheduler import PodKinds, ScoredNodes
from cluster_model.cluster_state import ClusterState, PodFacts
from cluster_model.contention import MEASURED
from cluster_model.cost import PodPrices
from cluster_model.model import GIB
from cluster_model.node_table import NodeFacts, NodeTable, SpeedFacts
from cluster_model.price_list import cheapest
from experiments.placement.workload import Workload
from kwok.node_model import Created, NodeModel
from kwok.scenario import Scenario
from node_speed_probe.ledger import Ledger
from node_speed_probe.model import NodeSeen, PodSeen, Stage
from node_speed_probe.settings import Settings as ProbeSettings
from scheduler_extender.settings import Settings as ExtenderSettings

__all__ = ["Policy", "Scaled", "simulate"]

_MIB = 1 << 20
# Pods that kube-scheduler binds in a second on the lab (docs/results.md, `bench extender`).
_BINDINGS_PER_S = 150.0
_WATCH_S = 0.05  # until a watch shows a change
_LONGEST_S = 600.0
_BACKGROUND = (50, 64 * _MIB)


class Policy(StrEnum):
    STOCK = "stock"
    OURS = "ours"  # what the probe has published
    KNOWN = "known"  # the true speeds of the moment a pod is placed
    COUNTED = "counted"  # k_n alone: all nodes believed to be equally fast


@dataclass(frozen=True)
class Scaled:
    """One scale-out."""

    seconds: float  # until all pods were created
    ready_s: tuple[float, ...]  # of each pod, sorted
    age_s: float  # mean age of the probe's latest samples when the scale-out began
    believed_error: float  # mean |believed / true - 1| then


def simulate(workload: Workload, scenario: Scenario, seed: int, policy: Policy) -> Scaled:
    return _Simulation(workload, scenario, seed, policy).run()


class _Simulation:
    def __init__(self, workload: Workload, scenario: Scenario, seed: int, policy: Policy) -> None:
        self._workload, self._scenario, self._policy = workload, scenario, policy
        self._model = NodeModel(scenario)
        self._names = [f"node-{i}" for i in range(workload.nodes)]
        self._draw, self._ties = random.Random(f"background/{seed}"), random.Random(f"ties/{seed}")
        self._settings, probe = ExtenderSettings(), ProbeSettings()
        self._table = NodeTable(workload.tau_create_s, 0.0, str(seed), MEASURED)
        self._state = ClusterState(
            self._table, self._settings.assumed_pod_ttl_s, self._settings.creation_limit_s
        )
        self._ledger, self._publish_every_s = Ledger(probe), probe.publish_interval_s
        self._facts: dict[str, PodFacts] = {}
        self._events: list[tuple[float, int, str, str]] = []  # time, order, what, name of the pod or node
        self._made = 0
        cpu, memory = int(float(workload.node_cpu) * 1000), int(workload.node_memory.removesuffix("Gi")) << 30
        kinds = PodKinds.of([[workload.cpu_millicores, workload.memory_mib * _MIB, 1], [*_BACKGROUND, 1]])
        free = np.array([[cpu, memory, 110]] * workload.nodes, dtype=np.int64)
        for number, name in enumerate(self._names):
            self._table.put_node(NodeFacts(name, cpu, memory, frozenset()))
            self._ledger.observe(NodeSeen(name, name), 0.0)
            taken = self._residents(seed, number, cpu)
            held = 2 * taken * _MIB  # two MiB of memory a millicore, as live
            free[number] -= np.array([taken, held, 1])
            self._state.put_pod(PodFacts(f"resident-{name}", name, taken, held, False), 0.0)
        siblings = np.zeros((2, workload.nodes), dtype=np.int64)
        self._stock = ScoredNodes(kinds, np.array([[cpu, memory]] * workload.nodes), free, siblings)
        self._prices = PodPrices(
            workload.cpu_millicores / 1000, workload.memory_mib * _MIB / GIB, 1.0, 1.0,
            self._settings.price_weight, self._settings.price_swing,
        )  # fmt: skip
        self._ready: dict[str, float] = {}

    def _residents(self, seed: int, number: int, cpu: int) -> int:
        return int(cpu * random.Random(f"residents/{seed}/{number}").uniform(*self._workload.resident_share))

    def run(self) -> Scaled:
        workload = self._workload
        self._at(0.0, "churn")
        self._at(self._publish_every_s, "publish")
        for i in range(workload.replicas):
            self._at(workload.warm_up_s + i / _BINDINGS_PER_S, "place", f"pod-{i}")
        began, age_s, error = False, 0.0, 0.0
        while len(self._ready) < workload.replicas:
            now_s = min(self._events[0][0] if self._events else math.inf, self._model.next_event_s())
            if now_s > workload.warm_up_s + _LONGEST_S:
                raise TimeoutError(f"{len(self._ready)} of {workload.replicas} pods after {_LONGEST_S:.0f} s")
            if now_s >= workload.warm_up_s and not began:
                began, (age_s, error) = True, self._knowledge(workload.warm_up_s)
            for event in self._model.advance(now_s):
                if isinstance(event, Created):
                    self._at(event.at_s + _WATCH_S, "created", event.pod)
                    if event.pod.startswith("pod-"):
                        self._ready[event.pod] = event.at_s - workload.warm_up_s
            while self._events and self._events[0][0] <= now_s:
                _, _, what, name = heapq.heappop(self._events)
                getattr(self, f"_{what}")(name, now_s)
        ready = tuple(sorted(self._ready.values()))
        return Scaled(ready[-1], ready, age_s, error)

    def _at(self, at_s: float, what: str, name: str = "") -> None:
        heapq.heappush(self._events, (at_s, self._made, what, name))
        self._made += 1

    # What happens, each at its time.

    def _churn(self, _: str, now_s: float) -> None:
        """Another tenant creates a pod somewhere, and deletes it later."""
        name = f"churn-{self._made}"
        self._bind(name, self._draw.randrange(len(self._names)), 1, now_s)
        self._at(now_s + self._workload.lifetime_s, "gone", name)
        gap_s = self._workload.creations_every_s / len(self._names)
        self._at(now_s + self._draw.expovariate(1 / gap_s), "churn")

    def _gone(self, name: str, now_s: float) -> None:
        pod = self._facts.pop(name)
        self._model.gone(name, pod.node, now_s)
        self._state.drop_pod(name)

    def _place(self, name: str, now_s: float) -> None:
        self._bind(name, self._chosen(now_s), 0, now_s)

    def _bind(self, name: str, node: int, kind: int, now_s: float) -> None:
        self._stock.put(kind, node)  # churn stays in kube-scheduler's view: it requests next to nothing
        workload, place = self._workload, self._names[node]
        cpu, memory = _BACKGROUND if kind else (workload.cpu_millicores, workload.memory_mib * _MIB)
        self._model.bind(name, place, 1, [], now_s)
        self._facts[name] = PodFacts(name, place, cpu, memory, creating=True)
        self._state.put_pod(self._facts[name], now_s)  # assumed at once, as the extender does
        self._at(now_s + _WATCH_S, "seen", name)

    def _seen(self, name: str, now_s: float) -> None:
        if pod := self._facts.get(name):
            self._ledger.observe(PodSeen(name, pod.node, Stage.CREATING), now_s)

    def _created(self, name: str, now_s: float) -> None:
        if pod := self._facts.get(name):
            self._ledger.observe(PodSeen(name, pod.node, Stage.STARTED), now_s)
            self._state.put_pod(PodFacts(name, pod.node, pod.cpu_millicores, pod.memory_bytes, False), now_s)

    def _publish(self, _: str, now_s: float) -> None:
        if self._policy is Policy.OURS:
            for found in self._ledger.snapshot(now_s).estimates:
                self._table.put_speed(SpeedFacts(found.node, found.tau_create_s, {}), now_s)
        self._at(now_s + self._publish_every_s, "publish")

    def _chosen(self, now_s: float) -> int:
        possible = self._stock.best(0)
        if self._policy is Policy.STOCK:
            return int(possible[self._ties.randrange(len(possible))])
        if self._policy is Policy.KNOWN:
            for name in self._names:
                self._table.put_speed(SpeedFacts(name, self._scenario.tau_create_s(name, now_s), {}), now_s)
        offered = [self._names[at] for at in self._stock.fitting(0).tolist()]
        known = (node for name in offered if (node := self._table.get(name)))
        return self._names.index(cheapest((self._prices, ()), known, self._table, 1)[0].name)

    def _knowledge(self, now_s: float) -> tuple[float, float]:
        """The mean age of the latest samples, and the mean error of what is believed."""
        found = self._ledger.snapshot(now_s).estimates
        ages_s = [now_s - e.last_sample_s for e in found if e.last_sample_s is not None]
        errors = [abs(e.tau_create_s / self._scenario.tau_create_s(e.node, now_s) - 1) for e in found]
        return float(np.mean(ages_s)) if ages_s else math.inf, float(np.mean(errors))
