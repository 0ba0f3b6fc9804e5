"""What nodes use, and what load-watcher (v0.2.4, Trimaran's source) tells of it.

metrics-server looks every 15 s and load-watcher asks every minute: it has the last value, or from Prometheus
the mean and standard deviation of 15 minutes. All of them go as fast as the trace is played.

A container uses the CPU and the memory of the requests that it serves, others' pods what they request. What
makes a node slow is seen as load too, if `shows_speed`: of what its pods leave, only as much is idle as its
speed is of the fastest there can be. Nobody measured whether that is so; without it Trimaran is blind to
speeds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

import numpy as np

from experiments.combofunc.model import Bound, NodeLoad
from experiments.combofunc.workload import FUNCTIONS, MIB, Size, Workload
from kwok.scenario import Scenario

__all__ = ["LoadWatch", "Serving"]

_METRICS_S, _FETCH_S, _WINDOW_S = 15.0, 60.0, 900.0
# (node, function, size, the share of its concurrency that is used; 0 while it starts)
Serving = tuple[str, str, Size, float]


class LoadWatch:
    def __init__(self, workload: Workload, scenario: Scenario, seed: int) -> None:
        self._workload, self._scenario = workload, scenario
        faster = workload.time_factor
        self.every_s = _METRICS_S / faster
        self._fetch_every = round(_FETCH_S / _METRICS_S)
        self._window: deque[np.ndarray] = deque(maxlen=round(_WINDOW_S / _METRICS_S))
        self._at = {name: i for i, name in enumerate(workload.node_names)}
        self._others = np.zeros((workload.nodes, 2))  # CPU in millicores, memory in bytes
        for resident in workload.residents(seed):
            self._others[resident.node] += (resident.cpu_millicores, resident.memory_bytes)
        self._bound: dict[str, dict[str, Bound]] = {name: {} for name in self._at}
        self._samples = 0
        self.loads: dict[str, NodeLoad] = {}
        self.sample(0.0, [])

    def bind(self, pod: str, node: str, now_s: float, cpu_millicores: int | None) -> None:
        self._bound[node][pod] = Bound(now_s, cpu_millicores)

    def gone(self, pod: str, node: str) -> None:
        self._bound[node].pop(pod, None)

    def sample(self, now_s: float, serving: Iterable[Serving]) -> None:
        """Measure all nodes; every fourth time load-watcher asks."""
        used = self._others.copy()
        for node, function, size, share in serving:
            each = FUNCTIONS[function].memory_each_mib * MIB * size.concurrency
            used[self._at[node]] += (share * size.cpu_millicores, size.memory_bytes - (1 - share) * each)
        used /= (self._workload.node_cpu_millicores, self._workload.node_memory_bytes)
        used[:, 0] += (1 - used[:, 0]) * self._hidden(now_s)
        self._window.append(used)
        if self._samples % self._fetch_every == 0:
            self._fetch(now_s)
        self._samples += 1

    def _hidden(self, now_s: float) -> np.ndarray:
        """The share of what pods leave that somebody else has."""
        walk, tau_s = self._scenario.walk, self._scenario.tau_create_s
        if not self._workload.load_shows_speed or walk is None:
            return np.zeros(len(self._at))
        fastest_s = self._workload.tau_create_s / math.sqrt(walk.max_ratio)
        return np.array([1 - fastest_s / tau_s(name, now_s) for name in self._at])

    def _fetch(self, now_s: float) -> None:
        window = np.array(self._window)
        mean, std = window.mean(axis=0), window.std(axis=0)
        for name, i in self._at.items():
            lately = self._bound[name]
            for pod in [pod for pod, bound in lately.items() if bound.at_s <= now_s - _FETCH_S]:
                del lately[pod]
            self.loads[name] = NodeLoad(
                now_s, float(window[-1, i, 0]), float(mean[i, 0]), float(std[i, 0]), float(mean[i, 1]),
                float(std[i, 1]), lately.values(),
            )  # fmt: skip
