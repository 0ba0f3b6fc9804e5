"""State and arithmetic of nodes, pods and requests in the function model.

Processor sharing at two levels. The requests of a pod share its limit: each pod counts in `done_s` the CPU
time that every one of its requests has got, so a request ends when that counter has grown by its demand.
The pods of a node share its cores by a clock that runs slower the more they demand. Pods keep their work in
that clock's time, so that a change of the node's speed changes nothing in its pods.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from kwok.traffic.function import Function

__all__ = ["Node", "Phase", "Pod", "Request"]


class Phase(Enum):
    QUEUED = 0  # in its pod
    CPU = 1
    DISK = 2  # waits for a stream of its node's disk
    IO = 3
    GONE = 4


class Request:
    __slots__ = ("arrived_s", "cpu_s", "due", "io_s", "phase", "pod", "request_id", "started_s")

    def __init__(self, request_id: int, pod: Pod, cpu_s: float, io_s: float, now_s: float) -> None:
        self.request_id, self.pod, self.cpu_s, self.io_s = request_id, pod, cpu_s, io_s
        self.arrived_s = self.started_s = now_s
        self.phase = Phase.QUEUED
        self.due = -1  # the number of the event that concerns it; events with other numbers are stale


class Node:
    """Cores for its pods. In one second, its clock advances by `share`."""

    __slots__ = (
        "base_clock_s",
        "base_s",
        "cpu_events",
        "demand",
        "disk_busy",
        "disk_queue",
        "disk_streams",
        "due",
        "limits",
        "millicores",
        "name",
        "oversubscribed",
        "pods",
        "share",
    )

    def __init__(self, name: str, millicores: int, disk_streams: int | None) -> None:
        self.name, self.millicores = name, millicores
        self.pods: dict[str, Pod] = {}
        self.limits = 0  # millicores of its pods
        self.oversubscribed = False  # limits above `millicores`: only then can its pods disturb each other
        self.demand = 0  # millicores its pods could use now
        self.share = 1.0
        self.base_s = self.base_clock_s = 0.0  # the clock showed this at that time, and `share` since
        self.cpu_events: list[tuple[float, int, Pod]] = []  # by its clock, while it is oversubscribed
        self.due = -1
        self.disk_streams, self.disk_busy = disk_streams, 0
        self.disk_queue: deque[Request] = deque()

    def clock_s(self, now_s: float) -> float:
        return self.base_clock_s + (now_s - self.base_s) * self.share

    def time_s(self, clock_s: float) -> float:
        return self.base_s + (clock_s - self.base_clock_s) / self.share


class Pod:
    """Processor sharing: `done_s` is the CPU time each running request has got since the pod was idle."""

    __slots__ = (
        "base_clock_s",
        "cold_start_s",
        "concurrency",
        "cpu",
        "cpu_used_s",
        "demand",
        "done_s",
        "due",
        "limit",
        "node",
        "pod_id",
        "queue",
        "requests",
        "running",
        "speed",
        "warm",
    )

    def __init__(self, pod_id: str, function: Function, node: Node, clock_s: float) -> None:
        self.pod_id, self.node = pod_id, node
        self.concurrency, self.cold_start_s = function.concurrency, function.cold_start_s
        self.limit = round(function.cpu_cores * 1000)
        self.warm = function.cold_start_s == 0
        self.queue: deque[Request] = deque()
        self.cpu: list[tuple[float, int, Request]] = []  # running on cpu, by `done_s` at their end
        self.running = 0  # on cpu, disk or io
        self.requests: dict[int, Request] = {}  # running or queued
        self.demand, self.speed = 0, 0.0  # millicores in all; cores a request; both by the node's clock
        self.done_s = self.cpu_used_s = 0.0  # up to `base_clock_s`
        self.base_clock_s = clock_s
        self.due = -1

    def settle(self, clock_s: float) -> None:
        """Account for the CPU time used so far."""
        passed_s = clock_s - self.base_clock_s
        if passed_s > 0:
            self.done_s += passed_s * self.speed
            self.cpu_used_s += passed_s * self.demand / 1000
            self.base_clock_s = clock_s
