"""Pods, namespaces and nodes as they are read: no object stops the others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.karpenter.labels import GATE, POOL_LABEL
from cluster_autoscaler_hook.karpenter.records import pending, read_node, read_pod
from tests.cluster_autoscaler_hook.karpenter.builders import pod


def one(obj: dict[str, Any], **namespaces: str) -> Any:
    record = read_pod(obj, "fcma")
    return next(iter(pending([record] if record else [], namespaces)), None)


@pytest.mark.parametrize(
    ("pod_says", "namespace_says", "expected"),
    [
        (None, "shadow", "shadow"),
        (None, "enforce", "enforce"),
        (None, "", ""),
        ("off", "enforce", "off"),
        ("", "enforce", ""),
        ("enforce", "shadow", "enforce"),
    ],
)
def test_the_pods_label_decides_and_without_one_its_namespaces(
    pod_says: str | None, namespace_says: str, expected: str
) -> None:
    obj = pod()
    if pod_says is not None:
        obj["metadata"]["labels"]["surgekit.dev/nodes"] = pod_says
    assert one(obj, default=namespace_says).opt_in == expected


def test_pods_with_a_node_on_their_way_out_or_of_a_daemonset_are_not_pending() -> None:
    assert one(pod()).gates == (GATE,)
    assert one(pod(nodeName="n")) is None
    done = pod()
    done["status"]["phase"] = "Succeeded"
    assert one(done) is None
    leaving = pod()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert one(leaving) is None
    daemon = pod()
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet"}]
    assert one(daemon) is None


def test_the_taint_of_our_pool_decides_whose_a_gated_pod_is() -> None:
    assert one(pod()).kind
    assert "no toleration" in one(pod(tolerations=[])).unmodelled
    elsewhere = {"key": POOL_LABEL, "value": "other", "effect": "NoSchedule"}
    assert one(pod(tolerations=[elsewhere])) is None


def test_a_node_takes_pods_once_only_our_taint_is_left() -> None:
    taint = {"key": POOL_LABEL, "value": "fcma", "effect": "NoSchedule"}
    labels = {"karpenter.sh/registered": "true"}
    node: dict[str, Any] = {"metadata": {"name": "n", "labels": labels}, "spec": {"taints": [taint]}}
    assert read_node(node).ready
    starting = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    node["spec"]["taints"] = [taint, starting]
    assert not read_node(node).ready
    node["spec"]["taints"] = [taint, starting | {"effect": "PreferNoSchedule"}]
    assert read_node(node).ready


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just("9" * 5000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
TERM = st.dictionaries(st.sampled_from(["topologyKey", "labelSelector", "namespaces"]), ANYTHING)
LINE = st.fixed_dictionaries(
    {"key": st.text(max_size=10), "operator": st.sampled_from(["In", "Gt", "Lt", "Exists", "Near"])},
    optional={"values": st.lists(st.text(max_size=10) | st.just("9" * 5000), max_size=2)},
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.builds(
            lambda lines: {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": lines}]}},
            st.lists(LINE, max_size=3),
        ),
        "podAntiAffinity": st.builds(lambda terms: {REQUIRED: terms}, st.lists(TERM, max_size=2)),
        "podAffinity": ANYTHING,
    },
)


@given(AFFINITY, st.dictionaries(st.text(max_size=10), ANYTHING, max_size=3), ANYTHING)
def test_whatever_a_tenant_writes_is_a_kind_or_a_reason(affinity: Any, requests: Any, volumes: Any) -> None:
    containers = [{"name": "app", "resources": {"requests": requests}}]
    found = one(pod(affinity=affinity, containers=containers, volumes=volumes))
    assert bool(found.kind) is not bool(found.unmodelled)
    if found.kind:
        found.kind.allows({"a": "1"})
