"""The function model: how long pods take to serve requests when they share a node's cores.

A pod runs `concurrency` requests at once and queues the others, first come first served. Its running
requests share its CPU limit equally; none uses more than one core. Pods of one node share its cores: if
together they could use more than there are, all are slowed in proportion, as under a quota and equal
weights per core. Then a request waits for its io; with `disk_streams`, that many do so at once on a node. A
new pod's first request waits for its cold start, and so do requests that arrive during it.

Pure: time and the demand of a request are arguments. Only changes are computed: a request costs a few heap
operations, whatever the number of pods, because every pod keeps its work in the time of its node's clock,
which runs slower the more its pods demand.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

from kwok.errors import TrafficError
from kwok.traffic.function import Function
from kwok.traffic.sharing import Node, Phase, Pod, Request

__all__ = ["Completion", "Function", "FunctionModel"]


@dataclass(frozen=True, slots=True)
class Completion:
    """A request was answered at `at_s`, after waiting (queue, cold start) and being served."""

    request_id: int
    at_s: float
    waited_s: float
    served_s: float


class FunctionModel:
    """All serving pods of a lab. Report what arrives and leaves; read what was answered.

    A time before the latest reported time counts as that one.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._requests: dict[int, Request] = {}
        self._events: list[tuple[float, int, Pod | Node | Request]] = []
        self._numbers = itertools.count()
        self._answered: list[Completion] = []
        self._now_s = -math.inf

    def add_node(self, node: str, cores: float, disk_streams: int | None = None) -> None:
        """Add a node; a known one is not changed."""
        if not cores > 0 or (disk_streams is not None and disk_streams < 1):
            raise TrafficError(f"node {node}: cores {cores!r}, disk_streams {disk_streams!r}: not above 0")
        if node not in self._nodes:
            self._nodes[node] = Node(node, round(cores * 1000), disk_streams)

    def add_pod(self, pod_id: str, function: Function, node: str, now_s: float) -> None:
        """A pod is ready to take requests; a known one is not changed."""
        if node not in self._nodes:
            raise TrafficError(f"pod {pod_id}: node {node} is not known")
        if pod_id in self._pods:
            return
        now_s = self._run(now_s)
        place = self._nodes[node]
        pod = Pod(pod_id, function, place, place.clock_s(now_s))
        self._pods[pod_id] = place.pods[pod_id] = pod
        self._change_limits(place, pod.limit, now_s)

    def resize_pod(self, pod_id: str, concurrency: int, cpu_cores: float, now_s: float) -> None:
        """Change a pod's concurrency and CPU; its running requests go on."""
        now_s = self._run(now_s)
        pod = self._pods.get(pod_id)
        if pod is None:
            raise TrafficError(f"pod {pod_id} is not known")
        pod.settle(pod.node.clock_s(now_s))
        change = round(cpu_cores * 1000) - pod.limit
        pod.concurrency, pod.limit = concurrency, pod.limit + change
        self._proceed(pod, now_s)
        self._change_limits(pod.node, change, now_s)

    def remove_pod(self, pod_id: str, now_s: float) -> list[int]:
        """Remove a pod at once; return the requests lost with it. A missing pod is no error."""
        now_s = self._run(now_s)
        pod = self._pods.pop(pod_id, None)
        if pod is None:
            return []
        lost = list(pod.requests.values())
        for request in lost:
            self._drop(request, now_s)
        self._proceed(pod, now_s)
        pod.due = -1
        del pod.node.pods[pod_id]
        self._change_limits(pod.node, -pod.limit, now_s)
        return [request.request_id for request in lost]

    def arrive(self, pod_id: str, request_id: int, cpu_s: float, io_s: float, now_s: float) -> None:
        """A request reaches a pod."""
        now_s = self._run(now_s)
        pod = self._pods.get(pod_id)
        if pod is None:
            raise TrafficError(f"request {request_id}: pod {pod_id} is not known")
        if request_id in self._requests:
            raise TrafficError(f"request {request_id}: already in flight")
        if not (cpu_s >= 0 and io_s >= 0):
            raise TrafficError(f"request {request_id}: cpu_s {cpu_s!r}, io_s {io_s!r}: not at least 0")
        request = Request(request_id, pod, cpu_s, io_s, now_s)
        self._requests[request_id] = pod.requests[request_id] = request
        pod.queue.append(request)
        if pod.warm:
            if pod.running < pod.concurrency:
                pod.settle(pod.node.clock_s(now_s))
                self._proceed(pod, now_s)
        elif pod.due < 0:  # the first: the function's initialisation starts
            pod.due = next(self._numbers)
            heapq.heappush(self._events, (now_s + pod.cold_start_s, pod.due, pod))

    def cancel(self, request_id: int, now_s: float) -> bool:
        """The caller gave up, so work on the request stops. False if it is not in flight."""
        now_s = self._run(now_s)
        request = self._requests.get(request_id)
        if request is None:
            return False
        pod, queued = request.pod, request.phase is Phase.QUEUED
        self._drop(request, now_s)
        if not queued:
            self._proceed(pod, now_s)
        return True

    def next_event_s(self) -> float | None:
        """When to call `advance` next if nothing arrives or leaves."""
        if self._answered:
            return self._answered[0].at_s
        events = self._events
        while events and events[0][2].due != events[0][1]:
            heapq.heappop(events)
        return events[0][0] if events else None

    def advance(self, now_s: float) -> list[Completion]:
        """Requests answered up to now and not returned yet, in order of time."""
        self._run(now_s)
        answered, self._answered = self._answered, []
        return answered

    def cpu_used_s(self, pod_id: str, now_s: float) -> float:
        """CPU seconds that a pod has used since it was added, as a kubelet would report."""
        now_s = self._run(now_s)
        pod = self._pods[pod_id]
        pod.settle(pod.node.clock_s(now_s))
        return pod.cpu_used_s

    def in_flight(self, pod_id: str) -> int:
        """Requests that a pod runs or queues."""
        return len(self._pods[pod_id].requests)

    def _run(self, now_s: float) -> float:
        """Advance to `now`; return the time that holds then."""
        events = self._events
        while events and events[0][0] <= now_s:
            at_s, number, what = heapq.heappop(events)
            if what.due != number:
                continue
            self._now_s = at_s = max(at_s, self._now_s)
            if isinstance(what, Pod):
                self._pod_event(what, what.node.clock_s(at_s), at_s)
            elif isinstance(what, Request):
                self._io_ended(what, at_s)
            else:
                self._node_event(what, at_s)
        self._now_s = max(now_s, self._now_s)
        return self._now_s

    def _pod_event(self, pod: Pod, clock_s: float, now_s: float) -> None:
        pod.settle(clock_s)
        if pod.warm:
            pod.done_s, _, request = heapq.heappop(pod.cpu)  # exactly, whatever rounding made of it
            self._wait_for_io(request, now_s)
        else:
            pod.warm = True
        self._proceed(pod, now_s)

    def _node_event(self, node: Node, now_s: float) -> None:
        clock_s, number, pod = heapq.heappop(node.cpu_events)
        node.base_s, node.base_clock_s = now_s, clock_s
        node.due = -1
        if pod.due == number:
            self._pod_event(pod, clock_s, now_s)
        if node.due < 0:
            self._await_node(node)

    def _proceed(self, pod: Pod, now_s: float) -> None:
        """Admit queued requests, then recompute speeds. The pod must be settled."""
        while pod.queue and pod.warm and pod.running < pod.concurrency:
            request = pod.queue.popleft()
            if request.phase is Phase.GONE:
                continue
            pod.running += 1
            request.started_s = now_s
            if request.cpu_s > 0:
                request.phase = Phase.CPU
                heapq.heappush(pod.cpu, (pod.done_s + request.cpu_s, next(self._numbers), request))
            else:
                self._wait_for_io(request, now_s)
        running = len(pod.cpu)
        demand = min(pod.limit, 1000 * running)
        if running:
            pod.speed = demand / (1000 * running)
        else:
            pod.done_s = pod.speed = 0.0
        node = pod.node
        if demand != pod.demand:
            change, pod.demand = demand - pod.demand, demand
            node.demand += change
            if node.oversubscribed or node.share < 1:
                self._change_share(node, now_s)
        if pod.warm:
            self._await_cpu(pod)

    def _await_cpu(self, pod: Pod) -> None:
        """Schedule the end of the pod's next request on CPU; earlier events are stale."""
        pod.due = number = next(self._numbers)
        if not pod.cpu:
            return
        node = pod.node
        end_s = pod.base_clock_s + (pod.cpu[0][0] - pod.done_s) / pod.speed
        if node.oversubscribed:
            heapq.heappush(node.cpu_events, (end_s, number, pod))
            self._await_node(node)
        else:
            heapq.heappush(self._events, (node.time_s(end_s), number, pod))

    def _await_node(self, node: Node) -> None:
        events = node.cpu_events
        while events and events[0][2].due != events[0][1]:
            heapq.heappop(events)
        node.due = next(self._numbers)
        if events:
            heapq.heappush(self._events, (node.time_s(events[0][0]), node.due, node))

    def _change_share(self, node: Node, now_s: float) -> None:
        share = min(1.0, node.millicores / node.demand) if node.demand else 1.0
        if share != node.share:
            node.base_clock_s, node.base_s = node.clock_s(now_s), now_s
            node.share = share
            self._await_node(node)

    def _change_limits(self, node: Node, change: int, now_s: float) -> None:
        """A pod was added or removed: pods that affect each other are scheduled together."""
        node.limits += change
        oversubscribed = node.limits > node.millicores
        if oversubscribed != node.oversubscribed:
            node.oversubscribed = oversubscribed
            self._change_share(node, now_s)
            for pod in node.pods.values():
                if pod.cpu:
                    self._await_cpu(pod)

    def _wait_for_io(self, request: Request, now_s: float) -> None:
        node = request.pod.node
        if request.io_s == 0:
            self._answer(request, now_s)
        elif node.disk_streams is not None and node.disk_busy >= node.disk_streams:
            request.phase = Phase.DISK
            node.disk_queue.append(request)
        else:
            self._start_io(request, now_s)

    def _start_io(self, request: Request, now_s: float) -> None:
        request.phase = Phase.IO
        request.pod.node.disk_busy += 1
        request.due = next(self._numbers)
        heapq.heappush(self._events, (now_s + request.io_s, request.due, request))

    def _io_ended(self, request: Request, now_s: float) -> None:
        self._free_stream(request.pod.node, now_s)
        self._answer(request, now_s)
        request.pod.settle(request.pod.node.clock_s(now_s))
        self._proceed(request.pod, now_s)

    def _free_stream(self, node: Node, now_s: float) -> None:
        node.disk_busy -= 1
        while node.disk_queue:
            request = node.disk_queue.popleft()
            if request.phase is not Phase.GONE:
                self._start_io(request, now_s)
                return

    def _answer(self, request: Request, now_s: float) -> None:
        waited_s = request.started_s - request.arrived_s
        served_s = now_s - request.started_s
        self._answered.append(Completion(request.request_id, now_s, waited_s, served_s))
        self._forget(request)
        request.pod.running -= 1

    def _drop(self, request: Request, now_s: float) -> None:
        """Remove a request unfinished. The pod is settled then, but its slots are not yet refilled."""
        pod, phase = request.pod, request.phase
        self._forget(request)
        if phase is Phase.QUEUED:
            return
        pod.settle(pod.node.clock_s(now_s))
        pod.running -= 1
        if phase is Phase.CPU:
            pod.cpu = [entry for entry in pod.cpu if entry[2] is not request]
            heapq.heapify(pod.cpu)
        elif phase is Phase.IO:
            self._free_stream(pod.node, now_s)

    def _forget(self, request: Request) -> None:
        request.phase = Phase.GONE
        request.due = -1
        del self._requests[request.request_id], request.pod.requests[request.request_id]
