"""An oracle for the function model: the same rules, computed for every request at every event."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from kwok.traffic.function import Function

# Demands end here when rounding leaves a crumb of them.
CRUMB = 1e-9


@dataclass
class FluidRequest:
    request_id: int
    cpu_s: float
    io_s: float
    arrived_s: float
    started_s: float = 0.0


@dataclass
class FluidPod:
    function: Function
    node: str
    warm_s: float | None = None  # None until its first request
    queue: list[FluidRequest] = field(default_factory=list)
    running: list[FluidRequest] = field(default_factory=list)
    cpu_used_s: float = 0.0

    def on_cpu(self) -> list[FluidRequest]:
        return [request for request in self.running if request.cpu_s > CRUMB]


class Fluid:
    def __init__(self, cores: dict[str, float]) -> None:
        self.cores = cores
        self.pods: dict[str, FluidPod] = {}
        self.now_s = 0.0
        self.answered: dict[int, tuple[float, float, float]] = {}

    def add_pod(self, pod_id: str, function: Function, node: str) -> None:
        self.pods[pod_id] = FluidPod(function, node, 0.0 if function.cold_start_s == 0 else None)

    def resize_pod(self, pod_id: str, concurrency: int, cpu_cores: float) -> None:
        pod = self.pods[pod_id]
        pod.function = replace(pod.function, concurrency=concurrency, cpu_cores=cpu_cores)
        self._start()

    def remove_pod(self, pod_id: str) -> set[int]:
        pod = self.pods.pop(pod_id)
        return {request.request_id for request in pod.queue + pod.running}

    def arrive(self, pod_id: str, request_id: int, cpu_s: float, io_s: float) -> None:
        pod = self.pods[pod_id]
        if pod.warm_s is None:
            pod.warm_s = self.now_s + pod.function.cold_start_s
        pod.queue.append(FluidRequest(request_id, cpu_s, io_s, self.now_s))
        self._start()

    def cancel(self, request_id: int) -> None:
        for pod in self.pods.values():
            pod.queue = [request for request in pod.queue if request.request_id != request_id]
            pod.running = [request for request in pod.running if request.request_id != request_id]
        self._start()

    def advance(self, now_s: float) -> None:
        while self.now_s < now_s:
            step_s = now_s - self.now_s
            speeds = {pod_id: self._speed(pod) for pod_id, pod in self.pods.items()}
            for pod_id, pod in self.pods.items():
                if pod.warm_s is not None and pod.warm_s > self.now_s:
                    step_s = min(step_s, pod.warm_s - self.now_s)
                for request in pod.running:
                    left_s = request.cpu_s / speeds[pod_id] if request.cpu_s > CRUMB else request.io_s
                    step_s = min(step_s, left_s)
            for pod_id, pod in self.pods.items():
                pod.cpu_used_s += step_s * (speeds[pod_id] * len(pod.on_cpu()) if pod.on_cpu() else 0.0)
                for request in pod.running:
                    if request.cpu_s > CRUMB:
                        request.cpu_s -= step_s * speeds[pod_id]
                    else:
                        request.io_s -= step_s
            self.now_s += step_s
            self._start()

    def _speed(self, pod: FluidPod) -> float:
        running = len(pod.on_cpu())
        if not running:
            return math.nan
        wanted = sum(
            min(other.function.cpu_cores, len(other.on_cpu()))
            for other in self.pods.values()
            if other.node == pod.node
        )
        share = min(1.0, self.cores[pod.node] / wanted)
        return share * min(pod.function.cpu_cores, running) / running

    def _start(self) -> None:
        """Let out who is done and in who can start, until nothing changes."""
        for pod in self.pods.values():
            while True:
                for request in [r for r in pod.running if r.cpu_s <= CRUMB and r.io_s <= CRUMB]:
                    pod.running.remove(request)
                    times = (
                        self.now_s,
                        request.started_s - request.arrived_s,
                        self.now_s - request.started_s,
                    )
                    self.answered[request.request_id] = times
                warm = pod.warm_s is not None and pod.warm_s <= self.now_s + CRUMB
                if not (warm and pod.queue and len(pod.running) < pod.function.concurrency):
                    break
                request = pod.queue.pop(0)
                request.started_s = self.now_s
                pod.running.append(request)
