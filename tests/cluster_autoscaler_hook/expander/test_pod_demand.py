"""What kube-scheduler would set aside for a pod."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_autoscaler_hook.expander import expander_pb2
from cluster_autoscaler_hook.expander.model import Demand
from cluster_autoscaler_hook.expander.pod_demand import demand

MIB = 1 << 20


def make(*containers: dict[str, str], init: tuple[dict[str, str], ...] = (), **spec: dict[str, str]) -> Any:
    """A container's requests; `restart` is its restartPolicy."""
    pod = expander_pb2.Pod()
    for field, of in ((pod.spec.containers, containers), (pod.spec.initContainers, init)):
        for requests in of:
            container = field.add(restartPolicy=requests.get("restart", ""))
            _fill(container.resources.requests, {k: v for k, v in requests.items() if k != "restart"})
    _fill(pod.spec.overhead, spec.get("overhead", {}))
    _fill(pod.spec.resources.requests, spec.get("whole", {}))
    return pod


def _fill(entries: Any, requests: dict[str, str]) -> None:
    for key, value in requests.items():
        entries.add(key=key).value.string = value


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (make(), Demand(0, 0)),
        (make({"cpu": "100m", "memory": "64Mi"}, {"cpu": "0.2"}), Demand(300, 64 * MIB)),
        (make({"cpu": "1"}, init=({"cpu": "3"},)), Demand(3000, 0)),
        (make({"cpu": "1"}, init=({"cpu": "500m", "restart": "Always"},)), Demand(1500, 0)),
        # the init container runs beside the sidecar that was started before it
        (make({"cpu": "1"}, init=({"cpu": "500m", "restart": "Always"}, {"cpu": "2"})), Demand(2500, 0)),
        (make({"cpu": "1"}, init=({"cpu": "2"}, {"cpu": "500m", "restart": "Always"})), Demand(2000, 0)),
        (make({"cpu": "1"}, overhead={"cpu": "250m", "memory": "120Mi"}), Demand(1250, 120 * MIB)),
        (make({"cpu": "1", "memory": "1Mi"}, whole={"cpu": "2"}), Demand(2000, MIB)),
        (
            make({"cpu": "1", "nvidia.com/gpu": "1", "ephemeral-storage": "1k"}),
            Demand(1000, 0, (("ephemeral-storage", 1000), ("nvidia.com/gpu", 1))),
        ),
        (make({"cpu": "0.0001"}), Demand(1, 0)),  # rounded up, as the scheduler does
    ],
)
def test_requests(pod: Any, expected: Demand) -> None:
    assert demand(pod) == expected


def repelling(topology: str = "kubernetes.io/hostname", operator: str = "", value: str = "web") -> Any:
    pod = make({"cpu": "1"})
    pod.metadata.namespace = "shop"
    pod.metadata.labels.add(key="app", value="web")
    term = pod.spec.affinity.podAntiAffinity.required.add(topologyKey=topology)
    if operator:
        term.labelSelector.matchExpressions.add(key="app", operator=operator, values=[value])
    else:
        term.labelSelector.matchLabels.add(key="app", value=value)
    return pod


@pytest.mark.parametrize(
    ("pod", "alone"),
    [
        (repelling(), True),
        (repelling(value="other"), False),
        (repelling("topology.kubernetes.io/zone"), False),  # the caller's count already knows
        (repelling(operator="In"), True),
        (repelling(operator="NotIn"), False),
        (repelling(operator="NotIn", value="other"), True),
        (repelling(operator="Exists"), True),
        (repelling(operator="DoesNotExist"), False),
        (repelling(operator="Sometimes"), False),
    ],
)
def test_pods_that_repel_their_own_kind_are_alone(pod: Any, alone: bool) -> None:
    assert demand(pod).alone is alone


def test_in_another_namespace_they_do_not() -> None:
    pod = repelling()
    pod.spec.affinity.podAntiAffinity.required[0].namespaces.append("other")
    assert not demand(pod).alone


def test_a_host_port_is_there_once() -> None:
    pod = make({"cpu": "1"})
    pod.spec.containers[0].ports.add(hostPort=80)
    assert demand(pod).alone
