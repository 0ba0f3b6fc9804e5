"""Plays one serverless run: requests that are due every 0.8 s, or jobs one after the other."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np

from experiments.escra.chain import Chain
from experiments.escra.limiters import Limiter
from experiments.escra.node import Node
from experiments.escra.serverless.aggregate import Aggregate, Sums
from experiments.escra.serverless.model import (
    BATCH,
    IMAGE,
    LATEST_S,
    VCPU_CORES,
    Serverless,
    ServerlessRun,
)
from experiments.escra.serverless.pods import Pods, request
from limit_allocator.allocation.model import PERIOD_US

__all__ = ["play"]

Json = dict[str, Any]
_EVERY_S = 0.8
_TRIES = 5  # of a task
_TIMELINE = 400  # points at most


def play(node: Node, plan: Serverless, run: ServerlessRun) -> Json:
    cpu_us, memory_bytes = run.arm.total(run.function)
    limiter = Chain(run.arm.ours, cpu_us, memory_bytes) if run.arm.ours else Limiter()
    limiter.start(node.hierarchy, [], node.clear("limiter"))
    try:
        pods = Pods(node, run, limiter.change)
        with Aggregate(node.hierarchy, run, pods.cgroups) as aggregate:
            try:
                latencies_s, failed = (
                    _requests(pods, plan.image_s) if run.function is IMAGE else _jobs(pods, plan)
                )
            finally:
                pods.empty()
    finally:
        said = limiter.stop()
    return {
        "latencies_s": [round(latency_s, 3) for latency_s in latencies_s],
        "failed": failed,
        "pods": pods.started,
        "oom_kills": pods.oom_kills,
        "limiter": dict(said),
    } | _limits(aggregate.sums)


def _requests(pods: Pods, duration_s: float) -> tuple[list[float], int]:
    """Open loop; a latency counts from the time the request was due. A failed one counts with the longest."""
    count = max(round(duration_s / _EVERY_S), 1)
    began_s = time.monotonic()

    def send(number: int) -> float:
        due_s = began_s + number * _EVERY_S
        time.sleep(max(due_s - time.monotonic(), 0.0))
        return time.monotonic() - due_s if _answered(pods, number + 1) else LATEST_S

    with ThreadPoolExecutor(count) as clients:
        latencies_s = list(clients.map(send, range(count)))
    return latencies_s, sum(latency_s >= LATEST_S for latency_s in latencies_s)


def _jobs(pods: Pods, plan: Serverless) -> tuple[list[float], int]:
    """How long each job took, and how many tasks had to be tried again."""
    latencies_s, failed = [], 0
    for job in range(plan.jobs):
        began_s = time.monotonic()
        with ThreadPoolExecutor(BATCH.most_pods) as workers:
            numbers = range(job * plan.tasks + 1, (job + 1) * plan.tasks + 1)
            failed += sum(workers.map(lambda number: _done(pods, number), numbers))
        latencies_s.append(time.monotonic() - began_s)
        pods.empty()
    return latencies_s, failed


def _done(pods: Pods, number: int) -> int:
    """How often the task failed."""
    return next((tries for tries in range(_TRIES) if _answered(pods, number)), _TRIES)


def _answered(pods: Pods, number: int) -> bool:
    with suppress(OSError, http.client.HTTPException), pods.take() as pod:
        return request(pod, number)
    return False


def _limits(sums: Sums) -> Json:
    """Means while there were pods, and the course over time."""
    there = np.asarray(sums.pods) > 0
    step = max(len(sums.at_s) // _TIMELINE, 1)

    def mean(values: list[Any]) -> float:
        return float(np.asarray(values, dtype=float)[there].mean()) if there.any() else 0.0

    def vcpu(quota_us: float) -> float:
        return quota_us / PERIOD_US / VCPU_CORES

    def course(values: list[Any], unit: Callable[[float], float] = float) -> list[float]:
        return [round(unit(value), 2) for value in values[::step]]

    return {
        "cpu_limit_vcpu": vcpu(mean(sums.cpu_limit_us)),
        "memory_limit_mib": mean(sums.memory_limit_mib),
        "memory_used_mib": mean(sums.memory_used_mib),
        "at_ceiling_share": mean(sums.at_ceiling) / max(mean(sums.pods), 1.0),  # of pods and moments
        "timeline": {
            "at_s": course([at_s - sums.at_s[0] for at_s in sums.at_s]),
            "pods": course(sums.pods),
            "cpu_limit_vcpu": course(sums.cpu_limit_us, vcpu),
            "memory_limit_mib": course(sums.memory_limit_mib),
        },
    }
