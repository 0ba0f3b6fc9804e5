"""Many functions at a time: `surgekit bench combofunc-scale`.

One lab with the real API server, scheduler and garbage collector, and ComboFunc's controller under its own
account. Functions get new targets at a steady pace. The bench checks whether every plan is carried out, how
soon, and whether anything is left over. Pods are Ready as soon as they are bound, so that creation times do
not add to the lag. For the same reason there is no probe: to the planner all nodes are equally fast.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from experiments.combofunc.scale_figures import Found, figures, not_as_planned
from experiments.combofunc.scale_record import Change, Record
from experiments.combofunc.workload import FUNCTIONS, Function
from experiments.process_usage import Usage, usage
from kwok import parts
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.pods import pod, wait_for_account
from surgekit.kube.watch import Watch

__all__ = ["Plan", "run"]

Json = dict[str, Any]
NAMESPACE = "functions"
_PATH = f"/apis/surgekit.dev/v1alpha1/namespaces/{NAMESPACE}/combofuncs"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
# 5,000 pods of the largest sizes of workload.py take 13,750 cores: 43 % of 1,000 such nodes, so that all
# targets together always fit and nothing is waited for but the control plane.
_NODE_CPU, _NODE_MEMORY = "32", "64Gi"
# Of what a function has at first: up and down alike, so that the sum stays, and by ten pods at most.
_TARGET_SHARE = (0.6, 1.4)
# Short, as a pod that goes counts until it is gone; not 0, which would leave a step out.
_DRAIN_S = 1.0
_SETTLE_S = 120.0  # for the last changes
_GONE_S = 600.0  # for the pods of deleted functions: the garbage collector's work


@dataclass(frozen=True)
class Plan:
    functions: int = 200
    nodes: int = 1000
    pods_each: int = 25  # at first, and on average
    changes_per_minute: float = 100.0
    minutes: float = 10.0
    # Of the 5 m that are shipped: what falls shrinks, may grow again, and goes before the next change of its
    # function, two minutes later on average; so the pods stay about as many.
    keep_warm_s: float = 30.0
    seed: int = 1

    @classmethod
    def quick(cls) -> Plan:
        """Within five minutes."""
        return cls(functions=40, nodes=200, minutes=2.0)

    def function(self, index: int) -> Function:
        kinds = list(FUNCTIONS.values())
        return kinds[index % len(kinds)]

    def first_target(self, index: int) -> int:
        """The planner uses the largest size where there is room."""
        return self.pods_each * self.function(index).sizes[-1].concurrency

    def changes(self) -> list[tuple[float, int, int]]:
        """(seconds from the beginning, function, target); each target differs from the one before."""
        draw = random.Random(f"combofunc-scale/{self.seed}")
        targets = [self.first_target(index) for index in range(self.functions)]
        found: list[tuple[float, int, int]] = []
        for number in range(round(self.minutes * self.changes_per_minute)):
            index = draw.randrange(self.functions)
            least, most = (round(share * self.first_target(index)) for share in _TARGET_SHARE)
            target = draw.choice([t for t in range(least, most + 1) if t != targets[index]])
            targets[index] = target
            found.append((number * 60 / self.changes_per_minute, index, target))
        return found


def run(plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the test. `failures` says what was not carried out or was left over."""
    with Lab.temporary("scale", instant_pods=True) as lab:
        scale = _Scale(lab, plan, say)
        try:
            return scale.play()
        finally:
            scale.close()


class _Scale:
    def __init__(self, lab: Lab, plan: Plan, say: Callable[[str], None]) -> None:
        self._lab, self._plan, self._say = lab, plan, say
        self._record = Record()
        say(f"lab: control plane, {plan.nodes} nodes, scheduler, controller")
        parts.install(lab)
        parts.install_combofunc(lab)
        lab.add_nodes(plan.nodes, cpu=_NODE_CPU, memory=_NODE_MEMORY, timeout_s=300)
        lab.kube.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        wait_for_account(lab.kube, NAMESPACE)
        lab.start_scheduler()
        parts.start_combofunc(lab)
        self._watch = Watch(lab.kube, _PATH, self._record).start()
        if not self._watch.synced.wait(30):
            raise LabError("no list of the ComboFuncs within 30 s")

    def close(self) -> None:
        self._watch.stop()

    def play(self) -> dict[str, Any]:
        plan = self._plan
        first_s = self._create()
        begin = self._usage()
        self._say(f"all Ready after {first_s:.0f} s; {plan.minutes:g} minutes of changes")
        self._record.changes.clear()
        began_s, each_minute = time.monotonic(), [begin.memory_mb]
        for at_s, index, target in plan.changes():
            time.sleep(max(began_s + at_s - time.monotonic(), 0.0))
            if at_s // 60 >= len(each_minute):
                each_minute.append(self._usage().memory_mb)
                self._say(f"{len(self._record.changes)} changes, {len(self._record.waiting())} under way")
            self._record.aim(_name(index), target, time.monotonic())
            self._lab.kube.patch(f"{_PATH}/{_name(index)}", {"spec": {"targetConcurrency": target}})
        took_s = max(time.monotonic() - began_s, 60 * plan.minutes)
        functions, pods = self._at_rest()
        end = self._usage()
        self._say(f"{len(pods)} pods; deleting all functions")
        left = self._delete(functions)
        found = Found(self._record.changes, functions, pods, left, begin, end)
        return (
            {"functions": plan.functions, "nodes": plan.nodes, "minutes": plan.minutes}
            | figures(found)
            | {
                "drain_s": _DRAIN_S,
                "first_ready_s": round(first_s, 1),
                # Less than was meant where the API server took too long to answer.
                "changes_per_minute": round(60 * len(self._record.changes) / took_s, 1),
                "memory_mb_each_minute": each_minute,
            }
        )

    def _usage(self) -> Usage:
        process = self._lab.processes.find("combofunc")
        if process is None or not process.alive():
            raise LabError("the controller has ended; nothing was measured")
        return usage(process.pid)

    def _create(self) -> float:
        """Create all functions; seconds until all are Ready for the first time."""
        began_s = time.monotonic()
        for index in range(self._plan.functions):
            self._record.aim(_name(index), self._plan.first_target(index), time.monotonic())
            self._lab.kube.create(_PATH, _combofunc(self._plan, index))
        if waiting := self._wait(240 + 0.2 * self._plan.functions * self._plan.pods_each):
            raise LabError(f"{len(waiting)} functions were never Ready, {waiting[0].function} for one")
        return time.monotonic() - began_s

    def _at_rest(self) -> tuple[list[Json], list[Json]]:
        """Functions and pods when all is as planned, or at the timeout: warm pods may just be ending."""
        kube, deadline_s = self._lab.kube, time.monotonic() + _SETTLE_S
        self._wait(_SETTLE_S)
        while True:
            functions, pods = kube.list_all(_PATH)[0], kube.list_all(_PODS)[0]
            if not not_as_planned(functions, pods) or time.monotonic() > deadline_s:
                return functions, pods
            time.sleep(1.0)

    def _wait(self, timeout_s: float) -> list[Change]:
        deadline_s = time.monotonic() + timeout_s
        while (waiting := self._record.waiting()) and time.monotonic() < deadline_s:
            time.sleep(0.1)
        return waiting

    def _delete(self, functions: Sequence[Json]) -> int:
        """Delete all functions; return the pods left over."""
        kube = self._lab.kube
        with ThreadPoolExecutor(4) as pool:
            paths = [f"{_PATH}/{f['metadata']['name']}" for f in functions]
            list(pool.map(lambda path: kube.delete(path, propagationPolicy="Background"), paths))
        deadline_s = time.monotonic() + _GONE_S
        while kube.get(_PODS, limit=1)["items"] and time.monotonic() < deadline_s:
            time.sleep(0.5)
        return len(kube.list_all(_PODS)[0])


def _name(index: int) -> str:
    return f"function-{index:03d}"


def _combofunc(plan: Plan, index: int) -> Json:
    function = plan.function(index)
    template = pod(function.name, "0", "0", image=f"registry.example/{function.name}:1")
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "ComboFunc",
        "metadata": {"name": _name(index)},
        "spec": {
            "template": {"spec": template["spec"]},
            "sizes": [size.offered for size in function.sizes],
            "targetConcurrency": plan.first_target(index),
            "drain": f"{_DRAIN_S:g}s",
            "keepWarm": f"{plan.keep_warm_s:g}s",
        },
    }
