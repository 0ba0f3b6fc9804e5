"""Which pods are planned for, as what, and which are left alone and why."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_autoscaler_hook.karpenter.labels import HOSTNAME, POOL_LABEL
from cluster_autoscaler_hook.karpenter.model import Requirement
from cluster_autoscaler_hook.karpenter.pods import Unmodelled, is_unschedulable, kind_of, tolerates
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, pod


def anti_affinity(topology: str = HOSTNAME, **selector: Any) -> dict[str, Any]:
    term = {"topologyKey": topology, "labelSelector": selector or {"matchLabels": {"app": "web"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def node_affinity(*lines: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(lines)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_same_requests_and_constraints_are_one_kind_whatever_the_name() -> None:
    assert kind_of(pod("a-0")) == kind_of(pod("b-1"))
    assert kind_of(pod("a-0")).id == kind_of(pod("b-1")).id
    assert kind_of(pod(cpu="501m")).id != kind_of(pod(cpu="500m")).id


def test_requests_are_rounded_up() -> None:
    kind = kind_of(pod(cpu="100500u", memory="1073741824500m"))
    assert (kind.cpu_millicores, kind.memory_bytes) == (101, GIB + 1)


def test_a_kind_may_be_kept_apart_from_itself() -> None:
    assert kind_of(pod(affinity=anti_affinity())).exclusive
    ports = [{"name": "app", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    assert kind_of(pod(containers=ports)).exclusive
    assert not kind_of(pod()).exclusive


def test_affinity_and_selector_restrict_the_classes() -> None:
    line = {"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["arm64"]}
    kind = kind_of(pod(affinity=node_affinity(line)))
    assert Requirement("kubernetes.io/arch", "NotIn", ("arm64",)) in kind.terms[0]
    assert kind.allows({"kubernetes.io/arch": "amd64"})
    assert not kind.allows({"kubernetes.io/arch": "arm64"})


CPUS = "karpenter.k8s.aws/instance-cpu"


@pytest.mark.parametrize(
    ("operator", "values", "allowed", "refused"),
    [
        ("In", ["4", "8"], ["4", "8"], ["2", None]),
        ("NotIn", ["4"], ["8", None], ["4"]),
        ("Exists", [], ["2"], [None]),
        ("DoesNotExist", [], [None], ["2"]),
        ("Gt", ["3"], ["4", "16"], ["3", "-4", None, "many", "9" * 5000]),
        ("Lt", ["4"], ["3", "-4"], ["4", "16", None, "many", "9" * 5000]),
        ("Gt", ["9" * 5000], [], ["4"]),
        ("Lt", ["many"], [], ["4"]),
    ],
)
def test_every_operator_of_node_affinity_is_understood_labels(
    operator: str, values: list[str], allowed: list[str | None], refused: list[str | None]
) -> None:
    kind = kind_of(pod(affinity=node_affinity({"key": CPUS, "operator": operator, "values": values})))
    for value in (*allowed, *refused):
        labels = {} if value is None else {CPUS: value}
        assert kind.allows(labels) is (value in allowed), value


def test_kinds_that_share_a_host_port_or_an_anti_affinity_stay_apart() -> None:
    ports = [{"containerPort": 80, "hostPort": 80}, {"containerPort": 90, "hostPort": 90}]
    small = kind_of(pod(cpu="100m", affinity=anti_affinity()))
    large = kind_of(pod(cpu="200m", affinity=anti_affinity()))
    assert small.id != large.id
    assert set(small.exclusive) & set(large.exclusive)
    both = kind_of(pod(containers=[{"name": "app", "ports": ports}]))
    one = kind_of(pod(containers=[{"name": "app", "ports": ports[:1]}]))
    assert set(one.exclusive) < set(both.exclusive)


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
        ({"affinity": node_affinity({"key": "cpus", "operator": "Near", "values": ["3"]})}, "operator Near"),
        ({"preemptionPolicy": "Never"}, "preemptionPolicy"),
        ({"containers": [{"resources": {"requests": {"ephemeral-storage": "1Gi"}}}]}, "ephemeral-storage"),
        ({"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}, "nvidia.com/gpu"),
        ({"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}, "lots"),
    ],
)
def test_what_is_not_modelled_is_left_with_a_reason(spec: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unmodelled, match=reason):
        kind_of(pod(**spec))


def test_a_request_of_none_of_a_resource_is_no_request() -> None:
    """The mark of the extender's opt-in."""
    marked = [{"resources": {"requests": {"cpu": "1", "surgekit.dev/scored": "0"}}}]
    assert kind_of(pod(containers=marked)).cpu_millicores == 1000


def test_a_pod_that_the_scheduler_gave_up_on_is_unschedulable() -> None:
    assert not is_unschedulable(pod())
    tried = pod()
    tried["status"]["conditions"][0]["reason"] = "Unschedulable"
    assert is_unschedulable(tried)


def test_our_taint_is_tolerated_by_key_or_by_all() -> None:
    assert tolerates(pod(), "fcma")
    assert not tolerates(pod(), "other")
    assert tolerates(pod(tolerations=[{"operator": "Exists"}]), "fcma")
    evicted = {"key": POOL_LABEL, "value": "fcma", "effect": "NoExecute"}
    assert not tolerates(pod(tolerations=[evicted]), "fcma")
