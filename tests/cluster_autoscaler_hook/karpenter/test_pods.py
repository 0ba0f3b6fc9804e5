"""Which pods are planned for, as what, and which are left alone and why."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_autoscaler_hook.karpenter.model import HOSTNAME, Requirement
from cluster_autoscaler_hook.karpenter.pods import Unmodelled, is_ours, is_waiting, kind_of
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, pod


def anti_affinity(topology: str = HOSTNAME, **selector: Any) -> dict[str, Any]:
    term = {"topologyKey": topology, "labelSelector": selector or {"matchLabels": {"app": "web"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def node_affinity(*lines: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(lines)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_same_requests_and_constraints_are_one_kind_whatever_the_name() -> None:
    assert kind_of(pod("a-0"), "fcma") == kind_of(pod("b-1"), "fcma")
    assert kind_of(pod("a-0"), "fcma").id == kind_of(pod("b-1"), "fcma").id
    assert kind_of(pod(cpu="501m"), "fcma").id != kind_of(pod(cpu="500m"), "fcma").id


def test_requests_are_rounded_up() -> None:
    kind = kind_of(pod(cpu="100500u", memory="1073741824500m"), "fcma")
    assert (kind.cpu_millicores, kind.memory_bytes) == (101, GIB + 1)


def test_a_kind_may_be_kept_apart_from_itself() -> None:
    assert kind_of(pod(affinity=anti_affinity()), "fcma").apart
    ports = [{"name": "app", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    assert kind_of(pod(containers=ports), "fcma").apart
    assert not kind_of(pod(), "fcma").apart


def test_affinity_and_selector_restrict_the_classes() -> None:
    line = {"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["arm64"]}
    kind = kind_of(pod(affinity=node_affinity(line)), "fcma")
    assert Requirement("kubernetes.io/arch", "NotIn", ("arm64",)) in kind.terms[0]
    assert kind.allows({"surgekit.dev/pool": "fcma", "kubernetes.io/arch": "amd64"})
    assert not kind.allows({"surgekit.dev/pool": "fcma", "kubernetes.io/arch": "arm64"})
    assert not kind.allows({"kubernetes.io/arch": "amd64"})


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "DRA"),
        ({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]}, "persistent volume"),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
            "topology spread",
        ),
        ({"affinity": anti_affinity("topology.kubernetes.io/zone")}, "anti-affinity over"),
        ({"affinity": anti_affinity(matchLabels={"app": "db"})}, "other pods"),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            "pod affinity",
        ),
        ({"tolerations": []}, "tolerate"),
        ({"affinity": node_affinity({"key": "cpus", "operator": "Gt", "values": ["3"]})}, "operator Gt"),
        (
            {
                "affinity": node_affinity(
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
                )
            },
            "zone",
        ),
        ({"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}, "nvidia.com/gpu"),
        ({"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}, "lots"),
    ],
)
def test_what_is_not_modelled_is_left_with_a_reason(spec: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unmodelled, match=reason):
        kind_of(pod(**spec), "fcma")


def test_a_request_of_none_of_a_resource_is_no_request() -> None:
    """The mark of the extender's opt-in."""
    marked = [{"resources": {"requests": {"cpu": "1", "surgekit.dev/placement": "0"}}}]
    assert kind_of(pod(containers=marked), "fcma").cpu_millicores == 1000


def test_only_pods_behind_our_gate_or_that_the_scheduler_gave_up_on_wait() -> None:
    assert is_waiting(pod())
    assert not is_waiting(pod() | {"status": {"phase": "Pending"}})
    assert not is_waiting(pod(nodeName="node-1"))
    gate, other = {"name": "surgekit.dev/nodes"}, {"name": "kueue.x-k8s.io/admission"}
    untried = {"status": {"phase": "Pending"}}
    assert is_waiting(pod(schedulingGates=[gate]) | untried)
    assert not is_waiting(pod(schedulingGates=[gate, other]) | untried)
    deleted = pod()
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not is_waiting(deleted)


def test_opting_in() -> None:
    assert is_ours(pod(), "fcma")
    assert not is_ours(pod(), "other")
    shadow = pod(nodeSelector={}, tolerations=[])
    assert not is_ours(shadow, "fcma")
    shadow["metadata"]["labels"]["surgekit.dev/nodes"] = "shadow"
    assert is_ours(shadow, "fcma")
    assert kind_of(shadow, "fcma").allows({})
