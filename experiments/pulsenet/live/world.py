"""The lab of one arm: control plane, emulated nodes, gateway, and for our arms the burst plane."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import yaml

from experiments.pulsenet.live.objects import MODEL, NAMESPACE, PROBE, PROBE_REPLICAS, objects, status
from experiments.pulsenet.live.plan import Setting
from experiments.pulsenet.live.workload import Workload
from kwok import parts
from kwok.burst import plane as burst
from kwok.burst.plane import Plane
from kwok.lab import Lab
from kwok.physics import Physics
from kwok.scenario import Scenario
from kwok.traffic.function import Function

__all__ = ["world"]

_CONTROLLER, _PLACEMENT = "burst-controller", "burst-placement"
_SLOTS = 64


@contextmanager
def world(workload: Workload, setting: Setting, replicas: Sequence[int]) -> Iterator[Plane]:
    names = workload.names()
    with Lab.temporary("pulse") as lab:
        cluster, creation = setting.cluster, setting.creation
        nodes = lab.add_nodes(cluster.nodes, cpu=f"{cluster.cores:g}", memory=str(cluster.memory_bytes))
        parts.install(lab)
        lab.start_node_model(
            Scenario.equal(
                nodes,
                tau_create_s=creation.alone_s,
                physics=Physics(creations_side_by_side=min(creation.at_once, 1000.0)),
            )
        )
        lab.start_scheduler()
        emergency_millis = round(cluster.nodes * cluster.cores * 1000 * cluster.emergency_share)
        plane = burst.start(
            lab,
            balancer={
                "functions": len(names) + 2, "functions_per_namespace": len(names) + 2, "slots": _SLOTS,
                "gateway_timeout_s": 600.0,
            },
            agent={"cpu_millis": emergency_millis, "memory_mib": 4096},
            function=Function(MODEL, 0.0, 0.1, 1, 0.0, cpu_cores=1.0, memory_bytes=64 << 20),
        )  # fmt: skip
        # Histories are read when a controller begins, so it begins after them.
        lab.stop(_CONTROLLER)
        if not setting.has_emergency:
            lab.stop(_PLACEMENT)
            lab.stop(burst.NODE)
        _create(lab, workload, setting, replicas)
        if setting.has_emergency:
            plane.start_controller()
            lab.wait_for(lambda: _all_overflow(lab, len(names)), "all functions to be able to overflow")
        yield plane


def _create(lab: Lab, workload: Workload, setting: Setting, replicas: Sequence[int]) -> None:
    names = workload.names()
    file = lab.directory / "functions.yaml"
    variant = "paper" if setting.arm == "paper" else "best"
    file.write_text(yaml.safe_dump_all(objects(names, replicas, variant, setting.retention_s)))
    lab.apply(file)
    for name, history in zip(names, workload.histories(), strict=True):
        lab.kube.patch(
            f"/apis/surgekit.dev/v1alpha1/namespaces/{NAMESPACE}/burstfunctions/{name}/status",
            {"status": status(history, not setting.has_emergency, time.time())},
        )
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    wanted = {**dict(zip(names, replicas, strict=True)), PROBE: PROBE_REPLICAS}

    def ready() -> bool:
        found = lab.kube.list_all(path)[0]
        return {of["metadata"]["name"]: of["status"].get("readyReplicas", 0) for of in found} == wanted

    lab.wait_for(ready, "the instances that a function begins with")


def _all_overflow(lab: Lab, number: int) -> bool:
    path = f"/apis/surgekit.dev/v1alpha1/namespaces/{NAMESPACE}/burstfunctions"
    found = [obj for obj in lab.kube.list_all(path)[0] if obj["metadata"]["name"] != PROBE]
    conditions = [(obj.get("status") or {}).get("conditions") or [] for obj in found]
    holds = [
        {one["type"] for one in of if one["status"] == "True"} >= {"Overflow", "Ready"} for of in conditions
    ]
    return len(holds) == number and all(holds)
