"""The lab's pods as a scaler sees them, and each function's track, by the arrival of watch events."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from experiments.arrivals import is_ready
from experiments.combofunc.model import Container, NodeView, State
from experiments.combofunc.simulation import Outcome
from experiments.combofunc.track import Holding, Track
from experiments.combofunc.workload import FUNCTIONS, Function, Size, Workload
from surgekit.kube.pods import Creation, creation, requests
from surgekit.kube.quantity import parse

__all__ = ["FUNCTION", "LiveView", "serving"]

Json = dict[str, Any]
FUNCTION = "lab.surgekit.dev/function"  # label of a function's pods, in every arm
CONCURRENCY, OURS_LABEL, SERVING_LABEL = (
    "surgekit.dev/concurrency",
    "surgekit.dev/combofunc",
    "surgekit.dev/serving",
)


@dataclass(frozen=True)
class _Seen:
    name: str
    node: str  # "" while it has none
    cpu_millicores: int
    memory_bytes: int
    function: str | None
    size: Size | None  # what its spec asks for
    serving: int
    ready: bool
    creating: bool
    resizing: bool
    age: int


class LiveView:
    """Consumes the watch of all pods. Times are those of `time.monotonic`."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._lock = threading.RLock()
        self._pods: dict[str, _Seen] = {}
        self._ages: dict[str, int] = {}
        self._totals = dict.fromkeys(FUNCTIONS, (0, 0, 0))  # ready, millicores, bytes
        self._began_s = self._now_s = 0.0
        self._outcome: Outcome | None = None

    # A measurement.

    def begin(self) -> None:
        with self._lock:
            self._outcome = Outcome({name: Track() for name in FUNCTIONS})
            self._began_s = self._now_s = time.monotonic()

    def end(self) -> Outcome:
        with self._lock:
            self._pass(time.monotonic())
            outcome, self._outcome = self._outcome, None
            if outcome is None:
                raise RuntimeError("no measurement has begun")
            for track in outcome.tracks.values():
                track.end(self._now_s - self._began_s)
            return outcome

    def aim(self, function: str, target: int) -> None:
        with self._lock:
            self._pass(time.monotonic())
            if self._outcome:
                ready = self._totals[function][0]
                self._outcome.tracks[function].aim(self._now_s - self._began_s, target, ready)

    def sample(self, with_utilisation: bool) -> None:
        with self._lock:
            self._pass(time.monotonic())
            if self._outcome is None:
                return
            free = self._free()
            whole = self._workload.node_cpu_millicores, self._workload.node_memory_bytes
            shares = {node: (cpu / whole[0], memory / whole[1]) for node, (cpu, memory, _, _) in free.items()}
            for name, track in self._outcome.tracks.items():
                mine = [p for p in self._pods.values() if p.function == name and p.size and p.node in shares]
                holdings = [Holding(p.size, *shares[p.node]) for p in mine if p.size]
                track.sample(self._now_s - self._began_s, self._totals[name][0], holdings)
            if with_utilisation:
                self._outcome.cpu_utilisation += [round(1 - cpu, 4) for cpu, _ in shares.values()]
                self._outcome.memory_utilisation += [round(1 - memory, 4) for _, memory in shares.values()]

    # What a scaler is told.

    def state(self, function: str) -> State:
        with self._lock:
            workload = self._workload
            nodes = [
                NodeView(
                    name, workload.node_cpu_millicores, workload.node_memory_bytes, cpu, memory,
                    pods, creating, workload.tau_create_s, workload.tau_resize_s,
                )
                for name, (cpu, memory, pods, creating) in self._free().items()
            ]  # fmt: skip
            containers = [
                Container(p.name, p.node, p.size, p.ready, p.resizing, p.age)
                for p in self._pods.values()
                if p.function == function and p.size is not None
            ]
            return State(nodes, containers)

    def knows(self, names: Iterable[str]) -> bool:
        with self._lock:
            there = {p.name for p in self._pods.values()}
            return all(name in there for name in names)

    # The watch.

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        with self._lock:
            self._pass(arrival_s)
            there = {obj["metadata"]["uid"] for obj in objects}
            for uid in self._pods.keys() - there:
                del self._pods[uid]
            for obj in objects:
                self._note(obj)
            for function in FUNCTIONS:
                self._count(function)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        with self._lock:
            self._pass(arrival_s)
            uid = obj["metadata"]["uid"]
            if kind == "DELETED":
                self._pods.pop(uid, None)
            else:
                self._note(obj)
            function = _function(obj)
            if function is not None:
                self._count(function.name)

    def _note(self, obj: Json) -> None:
        meta = obj["metadata"]
        uid, function = meta["uid"], _function(obj)
        if creation(obj) is Creation.FINISHED:
            self._pods.pop(uid, None)
            return
        cpu, memory = requests(obj)
        self._pods[uid] = _Seen(
            name=meta["name"],
            node=obj["spec"].get("nodeName") or "",
            cpu_millicores=round(cpu),
            memory_bytes=round(memory),
            function=function.name if function else None,
            size=_size(function, _cpu(obj["spec"]["containers"][0])) if function else None,
            serving=serving(obj, function) if function else 0,
            ready=is_ready(obj),
            creating=creation(obj) is Creation.CREATING,
            resizing=any(c["type"].startswith("PodResize") for c in obj["status"].get("conditions") or ()),
            age=self._ages.setdefault(uid, len(self._ages)),
        )

    def _count(self, function: str) -> None:
        mine = [p for p in self._pods.values() if p.function == function]
        held = [p for p in mine if p.node]
        ready = sum(p.serving for p in mine)
        self._totals[function] = (
            ready, sum(p.cpu_millicores for p in held), sum(p.memory_bytes for p in held)
        )  # fmt: skip
        if self._outcome:
            self._outcome.tracks[function].became(self._now_s - self._began_s, ready)

    def _pass(self, until_s: float) -> None:
        """Account for the time since the last event. Events of two watches may arrive slightly out of
        order: time never goes back."""
        passed_s = max(until_s - self._now_s, 0.0)
        if self._outcome:
            for name, track in self._outcome.tracks.items():
                track.passed(passed_s, *self._totals[name])
        self._now_s += passed_s

    def _free(self) -> dict[str, tuple[int, int, int, int]]:
        """(millicores, bytes, pods, being created) by node."""
        workload = self._workload
        whole = workload.node_cpu_millicores, workload.node_memory_bytes, workload.node_pods, 0
        free = dict.fromkeys(workload.node_names, whole)
        for p in self._pods.values():
            if p.node in free:
                cpu, memory, pods, creating = free[p.node]
                free[p.node] = (
                    cpu - p.cpu_millicores, memory - p.memory_bytes, pods - 1, creating + p.creating
                )  # fmt: skip
        return free


def serving(pod: Json, function: Function) -> int:
    """The concurrency that a pod takes now: the smaller of its requested and its actual size, and for a
    ComboFunc's pod no more than its concurrency annotation."""
    labels = pod["metadata"].get("labels") or {}
    if not is_ready(pod) or "deletionTimestamp" in pod["metadata"]:
        return 0
    if OURS_LABEL in labels and SERVING_LABEL not in labels:
        return 0  # drained
    has = (_cpu(c) for c in (pod["spec"]["containers"][0], pod["status"]["containerStatuses"][0]))
    capacity = int(min(has) / function.cpu_millicores + 1e-6)
    told = (pod["metadata"].get("annotations") or {}).get(CONCURRENCY)
    return capacity if told is None else min(capacity, int(told))


def _function(pod: Json) -> Function | None:
    return FUNCTIONS.get((pod["metadata"].get("labels") or {}).get(FUNCTION, ""))


def _size(function: Function, cpu_millicores: float) -> Size | None:
    return next((s for s in function.sizes if abs(s.cpu_millicores - cpu_millicores) < 0.5), None)


def _cpu(container: Json) -> float:
    asked = ((container.get("resources") or {}).get("requests") or {}).get("cpu")
    return 0.0 if asked is None else parse(asked) * 1000
