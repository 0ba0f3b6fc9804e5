"""A stock HorizontalPodAutoscaler on an external metric drives a ComboFunc, as the shipped example has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kwok import parts
from kwok.binaries import Binaries
from kwok.lab import Lab
from tests.hpa_replacement.adapter import in_lab

pytestmark = pytest.mark.lab
EXAMPLE = parts.MANIFESTS / "combofunc" / "examples" / "hpa.yaml"
FUNCTION = "/apis/surgekit.dev/v1alpha1/namespaces/default/combofuncs/video"
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[Lab]:
    with Lab.temporary("combofunc-hpa", instant_pods=True, time_factor=4.0) as lab:
        lab.add_nodes(4)
        lab.start_scheduler()
        parts.install(lab)
        parts.install_combofunc(lab)
        parts.install_kneescale(lab)
        in_lab.install_beside_kneescale(lab)
        port = lab.free_port()
        in_lab.start(lab, port)
        in_lab.register_both(lab, port)
        parts.start_combofunc(lab)
        yield lab


def test_the_metric_becomes_ready_concurrency(cluster: Lab) -> None:
    function, autoscaler = yaml.safe_load_all(EXAMPLE.read_text())
    # Our adapter stands for the one that would serve the example's metric.
    metric = {"name": "knee-replicas", "selector": {"matchLabels": {"policy": "in-flight"}}}
    autoscaler["spec"]["metrics"][0]["external"]["metric"] = metric
    autoscaler["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] = 0
    in_lab.set_policy(cluster, "default", "in-flight", 1, maxReplicas=100)
    cluster.kube.create(FUNCTION.rpartition("/")[0], function)
    cluster.kube.create(HPAS, autoscaler)

    for in_flight, target in ((16, 20), (17, 22), (4, 5)):  # a fifth is to be free
        in_lab.set_policy(cluster, "default", "in-flight", in_flight)

        def served(target: int = target) -> bool:
            status = _status(cluster)
            return bool(status.get("targetConcurrency") == target <= status.get("readyConcurrency", 0))

        cluster.wait_for(served, f"{target}: {_status(cluster)}", 60)
    autoscaled = cluster.kube.get(f"{HPAS}/video")["status"]
    said = {c["type"]: c["status"] for c in autoscaled["conditions"]}
    assert (said["AbleToScale"], said["ScalingActive"]) == ("True", "True")
    assert cluster.kube.get(FUNCTION)["spec"]["targetConcurrency"] == 5


def _status(lab: Lab) -> dict[str, Any]:
    status: dict[str, Any] = lab.kube.get(FUNCTION).get("status") or {}
    return status
