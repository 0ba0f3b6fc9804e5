"""The stock HPA, as Knative's HPA class makes it for a revision, lands on every target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kwok.binaries import Binaries
from kwok.lab import Lab
from kwok.parts import MANIFESTS, apply_manifests
from surgekit.kube.watch import Watch
from tests.hpa_replacement.adapter import in_lab
from tests.hpa_replacement.adapter.test_adapter_in_lab import Steps

pytestmark = pytest.mark.lab
REVISION, NAMESPACE = "shop-00001", "default"
LABELS = {"serving.knative.dev/revision": REVISION, "serving.knative.dev/revisionUID": "uid-1"}
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
HPAS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[Lab]:
    with Lab.temporary("podsmetric", instant_pods=True, time_factor=4.0) as lab:
        lab.add_nodes(2)
        lab.start_scheduler()
        in_lab.install(lab)
        apply_manifests(lab, MANIFESTS / "adapter" / "knative")
        port = lab.free_port()
        in_lab.start(lab, port, knative=True)
        in_lab.register_both(lab, port)
        yield lab


def deploy(lab: Lab, replicas: int) -> None:
    """The Deployment of a revision, and its HPA (serving v0.50.0, hpa/resources/hpa.go)."""
    selector = {"matchLabels": {"serving.knative.dev/revisionUID": "uid-1"}}
    pod = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "app", "image": "registry.example/app:1"}],
    }
    template = {"metadata": {"labels": LABELS}, "spec": pod}
    spec: Any = {"replicas": replicas, "selector": selector, "template": template}
    lab.kube.create(DEPLOYMENTS, {"metadata": {"name": f"{REVISION}-deployment"}, "spec": spec})
    target = {"type": "AverageValue", "averageValue": "1"}
    window = {"stabilizationWindowSeconds": 6}  # the shortest `window` that Knative takes
    lab.kube.create(
        HPAS,
        {
            "metadata": {"name": REVISION},
            "spec": {
                "scaleTargetRef": {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": f"{REVISION}-deployment",
                },
                "maxReplicas": 2**31 - 1,
                "metrics": [
                    {"type": "Pods", "pods": {"metric": {"name": "knee-replicas"}, "target": target}}
                ],
                "behavior": {"scaleUp": window, "scaleDown": window},
            },
        },
    )


def test_the_stock_hpa_lands_on_every_target(cluster: Lab) -> None:
    deploy(cluster, 20)
    path = f"{DEPLOYMENTS}/{REVISION}-deployment"
    steps = Steps()
    watch = Watch(cluster.kube, DEPLOYMENTS, steps).start()

    def landed(replicas: int) -> bool:
        in_lab.set_policy(cluster, NAMESPACE, REVISION, replicas)  # decided just now, again and again
        status = cluster.kube.get(path)["status"]
        return steps.seen[-1:] == [replicas] and status.get("readyReplicas") == replicas

    def counted(replicas: int) -> bool:
        """The HPA has looked since, and found nothing to do."""
        in_lab.set_policy(cluster, NAMESPACE, REVISION, replicas)
        status = cluster.kube.get(f"{HPAS}/{REVISION}").get("status") or {}
        return status.get("currentReplicas") == status.get("desiredReplicas") == replicas

    try:
        cluster.wait_for(lambda: bool(steps.seen), "the watch of the Deployment")
        for replicas in (21, 20, 3):
            cluster.wait_for(lambda n=replicas: landed(n), f"{replicas} replicas, after {steps.seen}", 180)  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
            cluster.wait_for(lambda n=replicas: counted(n), f"the HPA to rest at {replicas}", 60)  # type: ignore[misc]
    finally:
        watch.stop()
    # From 20 to 21 is within the HPA's tolerance: the only step that needs a detour.
    assert steps.seen == [20, 23, 21, 20, 3]
