"""One scale-out as a user sees it: a Deployment that grows in waves, placed by kube-scheduler on one node.

It is played on a real node, emulated by KWOK and the node model, and predicted by the model in virtual time.
"""

from __future__ import annotations

import time

from experiments.arrivals import Arrivals, is_ready
from kwok import images, real_node
from kwok.lab import Lab
from kwok.node_model import Created, NodeModel
from kwok.scenario import Scenario

__all__ = ["CONTAINERS", "WAVES", "ScaleOuts", "predict"]

WAVES = ((0.0, 4), (1.0, 9), (2.0, 12))  # seconds, replicas from then on
CONTAINERS = 2
_NAMESPACE = "scale-out"
_LONGEST_S = 120.0


class ScaleOuts:
    """Scale-outs on one node of a lab that has a scheduler."""

    def __init__(self, lab: Lab, node: str) -> None:
        self._lab, self._name = lab, f"on-{node}"
        self._deployments = f"/apis/apps/v1/namespaces/{_NAMESPACE}/deployments"
        names = {n["metadata"]["name"] for n in lab.kube.list_all("/api/v1/namespaces")[0]}
        if _NAMESPACE not in names:
            lab.kube.create("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
        lab.kube.create(self._deployments, self._deployment(node))

    def play(self) -> list[float]:
        """Seconds from the first wave until each pod was Ready, in order. All pods are gone afterwards."""
        arrivals = Arrivals(self._lab.kube, _NAMESPACE, ready=is_ready)
        try:
            began_s = time.monotonic()
            for at_s, replicas in WAVES:
                time.sleep(max(0.0, began_s + at_s - time.monotonic()))
                self._scale(replicas)
            ready = arrivals.wait("ready", WAVES[-1][1], _LONGEST_S)
            return sorted(at_s - began_s for at_s in ready.values())
        finally:
            arrivals.close()
            self._scale(0)
            self._lab.wait_for(self._is_empty, "the pods of a scale-out to be gone", _LONGEST_S)

    def _scale(self, replicas: int) -> None:
        self._lab.kube.patch(f"{self._deployments}/{self._name}/scale", {"spec": {"replicas": replicas}})

    def _is_empty(self) -> bool:
        return not self._lab.kube.list_all(f"/api/v1/namespaces/{_NAMESPACE}/pods")[0]

    def _deployment(self, node: str) -> dict[str, object]:
        each = {"image": images.reference("pause"), "resources": {"requests": {"cpu": "5m"}}}
        labels = {"app": self._name}
        spec = {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [real_node.TOLERATION],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": f"c{number}", **each} for number in range(CONTAINERS)],
        }
        return {
            "metadata": {"name": self._name},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }


def predict(scenario: Scenario) -> list[float]:
    """The same in virtual time, without an API server."""
    model, pods = NodeModel(scenario), 0
    for at_s, replicas in WAVES:
        for number in range(pods, replicas):
            model.bind(f"p{number}", "n", CONTAINERS, [], at_s)
        pods = replicas
    return [event.at_s for event in model.advance(1e9) if isinstance(event, Created)]
