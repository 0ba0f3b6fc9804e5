"""What do nodes cost with a real Cluster Autoscaler, with our expander and with its own? `--live`

Each mix is played from an empty cluster once for each arm. kube-scheduler places the pods. The cost is that
of all nodes when every pod runs, follow-up scale-ups included.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.arrivals import Arrivals, is_ready
from experiments.intervals import geometric_mean, rounded
from kwok import cluster_autoscaler
from kwok.cluster_autoscaler import CLUSTER_AUTOSCALER, Expander, NodeGroup
from kwok.lab import Lab
from kwok.pods import delete_pods, pod, wait_for_account

__all__ = ["OURS", "Deployment", "LiveMix", "play", "run"]

OURS = "surgekit"
# Without the price expander: the KWOK provider has no prices.
_ARMS = (OURS, "least-waste", "most-pods", "random")
_ALL_RUN_S = 600.0


@dataclass(frozen=True)
class Deployment:
    cpu_millis: int
    memory_bytes: int
    replicas: int


@dataclass(frozen=True)
class LiveMix:
    name: str
    groups: Sequence[NodeGroup]
    deployments: Sequence[Deployment]

    @property
    def pods(self) -> int:
        return sum(deployment.replicas for deployment in self.deployments)


def run(mixes: Sequence[LiveMix], say: Callable[[str], None]) -> dict[str, Any]:
    cluster_autoscaler.binary()  # fail before a lab is started in vain
    with Lab.temporary("bench-expander", instant_pods=True) as lab:
        lab.start_scheduler()
        expander = cluster_autoscaler.start_expander(lab)
        played: list[dict[str, Any]] = [
            {"mix": mix.name, "pods": mix.pods} | _arms(lab, mix, expander, say) for mix in mixes
        ]
    ratios = {
        arm: [one[OURS]["cost_per_hour"] / one[arm]["cost_per_hour"] for one in played]
        for arm in _ARMS
        if arm != OURS
    }
    figures: dict[str, Any] = {"mixes": len(played)}
    for arm, found in ratios.items():
        figures[f"cost over {arm}"] = rounded(geometric_mean([[ratio] for ratio in found]))
        figures[f"worst over {arm}"] = round(max(found), 4)
        figures[f"mixes dearer than {arm}"] = sum(ratio > 1 + 1e-9 for ratio in found)
    return figures | {"played": played}


def _arms(lab: Lab, mix: LiveMix, expander: Expander, say: Callable[[str], None]) -> dict[str, Any]:
    found = {}
    for arm in _ARMS:
        found[arm] = play(lab, mix, arm, expander)
        say(f"{mix.name} {arm}: {found[arm]}")
    return found


def play(lab: Lab, mix: LiveMix, arm: str, expander: Expander) -> dict[str, Any]:
    """Cost and classes of the nodes when every pod is Ready. Empties the cluster afterwards."""
    namespace = f"{mix.name}-{arm}"
    lab.kube.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    wait_for_account(lab.kube, namespace)
    arrivals = Arrivals(lab.kube, namespace, ready=is_ready)
    asked = expander if arm == OURS else None
    cluster_autoscaler.start(lab, mix.groups, "grpc" if asked else arm, asked)
    try:
        began_s = time.monotonic()
        for index, deployment in enumerate(mix.deployments):
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
            lab.kube.create(path, _body(index, deployment))
        arrivals.wait("ready", mix.pods, _ALL_RUN_S)
        nodes, _ = lab.kube.list_all("/api/v1/nodes")
        labels = [node["metadata"]["labels"] for node in nodes]
        return {
            "cost_per_hour": round(sum(float(one[cluster_autoscaler.PRICE_LABEL]) for one in labels), 6),
            "seconds": round(time.monotonic() - began_s, 1),
            "classes": dict(sorted(Counter(one[cluster_autoscaler.CLASS_LABEL] for one in labels).items())),
        }
    finally:
        arrivals.close()
        lab.stop(CLUSTER_AUTOSCALER)
        _empty(lab, namespace, len(mix.deployments))


def _empty(lab: Lab, namespace: str, deployments: int) -> None:
    for index in range(deployments):
        lab.kube.delete(f"/apis/apps/v1/namespaces/{namespace}/deployments/kind-{index}")
    delete_pods(lab.kube, namespace)
    lab.kube.delete(f"/api/v1/namespaces/{namespace}")
    for node in lab.kube.list_all("/api/v1/nodes")[0]:
        lab.kube.delete(f"/api/v1/nodes/{node['metadata']['name']}")


def _body(index: int, deployment: Deployment) -> dict[str, Any]:
    name = f"kind-{index}"
    template = pod(f"{name}-0", f"{deployment.cpu_millis}m", str(deployment.memory_bytes))
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": deployment.replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
    }
