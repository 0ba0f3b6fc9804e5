"""In-place resize, driven by the same signals: each new limit goes through the API server and the kubelet.

One pod on a real node of a lab follows the load in steps (fig. 2). A thread reads its cgroup as our agent
does, decides as our controller does, and patches `pods/resize` when the kubelet has written the last one.
Ours follows the same load in the same pod, as shipped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from experiments.escra.arms import ARMS
from experiments.escra.burn_plans import STEPPING, STEPPING_S
from experiments.escra.chain import Chain
from experiments.escra.node import Node
from experiments.escra.node_bench import followed
from experiments.escra.observer import Observer
from kwok import images, real_node
from kwok.binaries import Binaries
from kwok.cgroups import cgroup_name
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.pods import wait_for_account
from limit_allocator.allocation.cpu import CpuContainers, next_quotas
from limit_allocator.allocation.model import PERIOD_US, Parameters
from limit_allocator.allocation.telemetry import Readings, Telemetry
from limit_allocator.cgroups.container import Container, Cpu, Gone
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy, find
from limit_allocator.cgroups.opening import open_container
from surgekit.kube.api_path import Resource
from surgekit.kube.client import STRATEGIC_MERGE, ApiError, Kube

__all__ = ["play"]

Json = dict[str, Any]
_PODS, _NAMESPACE, _POD, _CONTAINER = Resource("v1", "pods"), "default", "stepping", "load"
_CEILING_US, _MEMORY_BYTES = round(1.8 * PERIOD_US), 256 << 20
_TICK_S, _LOOK_S, _LATEST_S = 0.1, 0.002, 30.0
_MILLICORE_US = PERIOD_US // 1000


def play(node: Node) -> dict[str, Json]:
    """As `stepping`: what each arm followed, and what a resize costs."""
    if reason := real_node.why_no_real_node():
        raise LabError(f"no real node: {reason}")
    parameters = ARMS["ours_1_5"].ours or Parameters()
    with Lab.temporary("escra-resize", own_network=True) as lab:
        lab.start_scheduler()
        real_node.start(lab, 1)
        wait_for_account(lab.kube, _NAMESPACE)
        hierarchy = Hierarchy(root=f"{cgroup_name(lab.directory)}/real-0")
        found: dict[str, Json] = {}
        with _pod(lab) as uid:
            cgroup = _cgroup_of(hierarchy, uid)
            # A pod's spec has no burst.
            resizer = _Resizer(lab.kube, hierarchy, cgroup, replace(parameters, burst=0.0))
            with resizer, Observer(hierarchy, {_POD: cgroup}) as observer:
                time.sleep(STEPPING_S)
            found["stock_resize"] = followed(observer.observed) | resizer.cost.figures()
        with _pod(lab) as uid:
            cgroup = _cgroup_of(hierarchy, uid)
            chain = Chain(parameters, _CEILING_US, _MEMORY_BYTES)
            chain.start(hierarchy, [cgroup], node.clear("limiter"))
            try:
                with Observer(hierarchy, {_POD: cgroup}) as observer:
                    time.sleep(STEPPING_S)
            finally:
                chain.stop()
            found["ours_on_a_kubelet"] = followed(observer.observed)
        return found


@dataclass
class _Cost:
    """Of each patch that was sent."""

    answered_ms: list[float] = field(default_factory=list)
    written_ms: list[float] = field(default_factory=list)  # until the container's cgroup has the new quota
    dips: int = 0  # meanwhile it had one below both the old and the new
    refused: int = 0
    unwritten: int = 0

    def figures(self) -> Json:
        def p(values: list[float], percentile: float) -> float | None:
            return round(float(np.percentile(values, percentile)), 1) if values else None

        return {
            "resizes": len(self.answered_ms),
            "answered_ms": {"p50": p(self.answered_ms, 50), "p99": p(self.answered_ms, 99)},
            "written_ms": {"p50": p(self.written_ms, 50), "p99": p(self.written_ms, 99)},
            "dips": self.dips,
            "refused": self.refused,
            "not_written": self.unwritten,
        }


class _Resizer:
    """For a `with` block: sets the pod's CPU limit in a thread."""

    def __init__(
        self, kube: Kube, hierarchy: Hierarchy, cgroup: ContainerCgroup, parameters: Parameters
    ) -> None:
        opened = open_container(hierarchy, cgroup)
        if isinstance(opened, Gone):
            raise LabError("the pod's container is gone")
        self._kube, self._container, self._parameters = kube, opened, parameters
        self._telemetry = Telemetry(parameters.window_periods, 1)
        self.cost = _Cost()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="resize", daemon=True)

    def __enter__(self) -> _Resizer:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        died = not self._thread.is_alive()
        self._ended.set()
        self._thread.join()
        self._container.close()
        if died:
            raise LabError("the thread that resizes ended before the run did")

    def _run(self) -> None:
        quota_us, order = _CEILING_US, 0
        while not self._ended.wait(_TICK_S):
            order += 1
            wanted_us = self._decide(order, quota_us)
            if wanted_us // _MILLICORE_US != quota_us // _MILLICORE_US and self._resize(wanted_us):
                quota_us = wanted_us

    def _decide(self, order: int, quota_us: int) -> int:
        """As the controller for an application of one container."""
        cpu, now_s = self._container.cpu(), time.monotonic()
        if isinstance(cpu, Gone):
            raise LabError("the pod's container is gone")

        def one(value: int) -> np.ndarray[Any, np.dtype[np.int64]]:
            return np.array([value], np.int64)

        self._telemetry.record(
            Readings(
                one(0), one(order), one(int(now_s * 1e6)), one(cpu.nr_periods), one(cpu.used_us),
                one(cpu.nr_throttled), one(cpu.throttled_us), one(cpu.quota_us or quota_us),
            ),
            now_s,
        )  # fmt: skip
        window = self._telemetry.window(one(0), self._parameters.window_periods)
        containers = CpuContainers(
            one(0), one(quota_us), one(self._parameters.floor_us), one(_CEILING_US), window
        )
        return int(next_quotas(containers, one(_CEILING_US), self._parameters, now_s).quota_us[0])

    def _resize(self, quota_us: int) -> bool:
        """Whether the kubelet has written it."""
        before_us, began_s = self._quota_us(), time.monotonic()
        limits = {"cpu": f"{quota_us // _MILLICORE_US}m"}
        patch = {"spec": {"containers": [{"name": _CONTAINER, "resources": {"limits": limits}}]}}
        try:
            self._kube.patch(_PODS.path(_NAMESPACE, _POD, "resize"), patch, STRATEGIC_MERGE)
        except ApiError:
            self.cost.refused += 1
            return False
        self.cost.answered_ms.append(1e3 * (time.monotonic() - began_s))
        wanted_us, least_us = quota_us // _MILLICORE_US * _MILLICORE_US, before_us
        while (now_us := self._quota_us()) != wanted_us:
            least_us = min(least_us, now_us)
            if self._ended.is_set() or time.monotonic() - began_s > _LATEST_S:
                self.cost.unwritten += 1
                return False
            time.sleep(_LOOK_S)
        self.cost.written_ms.append(1e3 * (time.monotonic() - began_s))
        self.cost.dips += least_us < min(before_us, wanted_us)
        return True

    def _quota_us(self) -> int:
        cpu = self._container.cpu()
        return (cpu.quota_us or 0) if isinstance(cpu, Cpu) else 0


@contextmanager
def _pod(lab: Lab) -> Iterator[str]:
    """The uid of a pod that follows the load in steps from the time it is Ready."""
    program = Binaries().path("microservice")
    resources = {
        "requests": {"cpu": "10m", "memory": "32Mi"},
        "limits": {"cpu": f"{_CEILING_US // _MILLICORE_US}m", "memory": str(_MEMORY_BYTES)},
    }
    body = {
        "metadata": {"name": _POD},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {real_node.LABEL: "true"},
            "tolerations": [real_node.TOLERATION],
            "volumes": [{"name": "program", "hostPath": {"path": str(program.parent)}}],
            "containers": [
                {
                    "name": _CONTAINER,
                    "image": images.reference("function-server"),
                    "command": [f"/program/{program.name}", f"-burn={STEPPING}"],
                    "env": [{"name": "GOMAXPROCS", "value": "2"}],
                    "volumeMounts": [{"name": "program", "mountPath": "/program", "readOnly": True}],
                    "resources": resources,
                }
            ],
        },
    }
    path = _PODS.path(_NAMESPACE, _POD)
    uid = str(lab.kube.create(_PODS.path(_NAMESPACE), body)["metadata"]["uid"])
    # The API server refuses a resize until the status has resources.
    lab.wait_for(
        lambda: lab.kube.get(path)["status"]["containerStatuses"][0]["resources"]["limits"], "the pod runs"
    )
    yield uid
    lab.kube.delete(path, gracePeriodSeconds=0)
    lab.wait_for(lambda: not lab.kube.list_all(_PODS.path(_NAMESPACE))[0], "the pod is gone")


def _cgroup_of(hierarchy: Hierarchy, uid: str) -> ContainerCgroup:
    """Of the pod's container; its sandbox has no quota."""
    for cgroup in find(hierarchy):
        opened = open_container(hierarchy, cgroup) if cgroup.pod_uid == uid else None
        if isinstance(opened, Container):
            cpu = opened.cpu()
            opened.close()
            if isinstance(cpu, Cpu) and cpu.quota_us is not None:
                return cgroup
    raise LabError("the pod's container has no cgroup with a quota")
