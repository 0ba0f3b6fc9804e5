"""The Karpenter hook with the real Karpenter: which pods are gated, and which are left to Karpenter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from kwok import karpenter
from kwok.lab import Lab
from kwok.pods import create_pods, delete_pods, pod
from surgekit.kube.client import ApiError, Kube
from tests.cluster_autoscaler_hook.karpenter.lab_with_hook import (
    CLAIMS,
    GATED,
    OTHER_ZONE,
    PLAN,
    TYPE,
    ZONE,
    all_run,
    claims,
    hand_over_reasons,
    labels_of,
    plan,
    selecting,
    start_karpenter,
)

pytestmark = pytest.mark.lab


def test_shadow_plans_for_a_namespace_and_changes_nothing(cluster: Lab, hook: Callable[..., None]) -> None:
    """The documented first step: the namespace's label alone."""
    name = "seen-in-shadow"
    labels = {"surgekit.dev/nodes": "shadow"}
    cluster.kube.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    hook(mode="shadow")
    cluster.stop(karpenter.KARPENTER)  # which would serve the pods before they have been seen to wait
    try:
        create_pods(cluster.kube, name, 5, "900m", "3Gi")
        create_pods(
            cluster.kube, name, 5, "900m", "3Gi", prefix="picky", nodeSelector={TYPE: "nobody-has-this"}
        )
        shadow = {"mode": "shadow", "phase": "Shadow", "waitingPods": 10}
        cluster.wait_for(lambda: shadow.items() <= plan(cluster).items(), "a shadow plan for all", 90)
        status = plan(cluster)
        assert status["costPerHour"] > 0
        assert sum(s["pods"] for s in status["shortages"]) == 5
        assert not claims(cluster)
        found, _ = cluster.kube.list_all(f"/api/v1/namespaces/{name}/pods")
        assert not any(p["status"].get("nominatedNodeName") for p in found)
    finally:
        delete_pods(cluster.kube, name)
        start_karpenter(cluster)


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_a_hook_that_does_not_rent_takes_its_gates_off(
    cluster: Lab, hook: Callable[..., None], namespace: str, mode: str
) -> None:
    # As they are left behind by a hook that was in mode enforce.
    create_pods(cluster.kube, namespace, 3, "900m", "3Gi", prefix="left", **GATED)
    hook(mode=mode)
    cluster.wait_for(lambda: plan(cluster)["mode"] == mode, "the NodePlan to say so", 90)
    where = all_run(cluster, namespace, 3)
    assert all("karpenter.sh/nodepool" in labels_of(cluster, node) for node in where.values())
    assert f"the hook's mode is {mode}" in hand_over_reasons(cluster, namespace)["left-00000"]
    create_pods(cluster.kube, namespace, 1, "100m", "1Gi", prefix="new")
    found = cluster.kube.get(f"/api/v1/namespaces/{namespace}/pods/new-00000")
    assert "schedulingGates" not in found["spec"]


def test_without_a_hook_no_pod_is_gated(cluster: Lab, namespace: str) -> None:
    """The opt-in policy alone, with nobody's NodePlan to read."""
    with contextlib.suppress(ApiError):
        cluster.kube.delete(PLAN)

    def gated() -> bool:
        made = cluster.kube.create(
            f"/api/v1/namespaces/{namespace}/pods", pod("asking", "1m", "1Mi"), dryRun="All"
        )
        return "schedulingGates" in made["spec"]

    cluster.wait_for(lambda: not gated(), "the policy to see that there is no NodePlan", 90)


def test_after_a_restart_the_nodeplan_says_what_the_hook_does_now(
    cluster: Lab, hook: Callable[..., None]
) -> None:
    hook()
    assert {"mode": "enforce", "gating": True}.items() <= plan(cluster).items()
    cluster.stop(karpenter.HOOK)
    assert plan(cluster)["gating"] is False, "nobody plans now"
    hook(mode="shadow")
    cluster.wait_for(lambda: plan(cluster)["mode"] == "shadow", "the NodePlan to say so", 90)


def away_from(**labels: str) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def container(**resources: Any) -> dict[str, Any]:
    return {"containers": [{"name": "app", "image": "registry.example/app:1", "resources": resources}]}


# Pods that the hook with its default settings leaves to Karpenter's pools.
NOT_OURS: dict[str, dict[str, Any]] = {
    "gpu": container(requests={"cpu": "500m"}, limits={"nvidia.com/gpu": "1"}),
    "disk": container(requests={"cpu": "500m", "ephemeral-storage": "1Gi"}),
    "zone": {"nodeSelector": {"topology.kubernetes.io/zone": OTHER_ZONE}},
    "zone-affinity": selecting("topology.kubernetes.io/zone", "In", ZONE),
    "gt": selecting("karpenter.kwok.sh/instance-cpu", "Gt", "3"),
    "away": away_from(app="ours"),
}


def test_pods_with_constraints_that_are_not_modelled_are_karpenters(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    hook()
    path = f"/api/v1/namespaces/{namespace}/pods"
    for name, spec in NOT_OURS.items():
        made = cluster.kube.create(path, pod(f"{name}-0", "500m", "1Gi", **spec))
        assert "schedulingGates" not in made["spec"], f"{name} must not be gated"
    planned = [{"name": "surgekit.dev/planned-placement"}]
    made = cluster.kube.create(path, pod("planned", "1m", "1Mi", schedulingGates=planned), dryRun="All")
    assert made["spec"]["schedulingGates"] == planned, "a ComboFunc has a place for it"
    spot = pod("spot-0", "500m", "1Gi", nodeSelector={"karpenter.sh/capacity-type": "spot"})
    assert "schedulingGates" in cluster.kube.create(path, spot)["spec"], "a label that is understood"
    create_pods(cluster.kube, namespace, 1, "500m", "1Gi", prefix="ours")
    where = all_run(cluster, namespace, len(NOT_OURS) + 2)
    assert "surgekit.dev/pool" in labels_of(cluster, where.pop("ours-00000"))
    for name, node in where.items():
        assert "karpenter.sh/nodepool" in labels_of(cluster, node), name
    assert labels_of(cluster, where["spot-0"])["karpenter.sh/capacity-type"] == "spot"
    assert "allows no class" in hand_over_reasons(cluster, namespace)["spot-0"]


def test_gated_pods_that_will_not_be_planned_for_are_handed_over(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    """Whoever gated them: the hook answers for its gate."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    for name, spec in NOT_OURS.items():
        cluster.kube.create(path, pod(f"{name}-0", "500m", "1Gi", **GATED | spec))
    hook()
    all_run(cluster, namespace, len(NOT_OURS))
    said = hand_over_reasons(cluster, namespace)
    assert set(said) == {f"{name}-0" for name in NOT_OURS}
    assert "nvidia.com/gpu" in said["gpu-0"]


def test_a_nomination_that_does_not_hold_leaves_the_pod_to_karpenter(cluster: Lab, namespace: str) -> None:
    """What the hook relies on when its picture of a node was wrong."""
    path = f"/api/v1/namespaces/{namespace}/pods/wrong-0"
    cluster.kube.create(path.rpartition("/")[0], pod("wrong-0", "500m", "1Gi", **GATED))
    cluster.kube.patch(f"{path}/status", {"status": {"nominatedNodeName": "no-such-node"}})
    cluster.kube.patch(path, {"spec": {"schedulingGates": None}})
    where = all_run(cluster, namespace, 1)
    assert "karpenter.sh/nodepool" in labels_of(cluster, where["wrong-0"])


def refused(message: str = "surgekit-node-planner") -> AbstractContextManager[Any]:
    return pytest.raises(ApiError, match=message)


def test_the_hooks_account_can_do_no_more_than_it_needs(cluster: Lab, namespace: str) -> None:
    kube = Kube.connect(cluster.account_kubeconfig("surgekit-system", "surgekit-node-planner"))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    other_gate = {"name": "example.com/other"}
    gated = GATED | {"schedulingGates": [*GATED["schedulingGates"], other_gate]}
    victim = pod("victim", "1m", "1Mi", **gated)
    config = cluster.kube.create(
        f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "owner"}}
    )
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": config["metadata"]["uid"]}
    victim["metadata"] |= {"finalizers": ["example.com/keep"], "ownerReferences": [owner]}
    cluster.kube.create(pods, victim)
    path = f"{pods}/victim"
    kube.patch(f"{path}/status", {"status": {"nominatedNodeName": "somewhere"}})
    condition = {"type": "PodScheduled", "status": "True"}
    for status in (
        {"phase": "Succeeded"},
        {"podIP": "10.1.1.1"},
        {"reason": "x"},
        {"conditions": [condition]},
    ):
        with refused():
            kube.patch(f"{path}/status", {"status": status})
    ungate = {"schedulingGates": [other_gate]}
    patches: tuple[dict[str, Any], ...] = (
        {"metadata": {"labels": {"x": "y"}}},
        {"metadata": {"annotations": {"x": "y"}}},
        {"metadata": {"finalizers": None}, "spec": ungate},
        {"metadata": {"finalizers": ["example.com/keep", "example.com/more"]}, "spec": ungate},
        {"metadata": {"ownerReferences": None}, "spec": ungate},
        {"metadata": {"ownerReferences": [owner | {"uid": "1"}]}, "spec": ungate},
        {"spec": {"nodeSelector": {"disk": "ssd"}} | ungate},
        {"spec": {"schedulingGates": GATED["schedulingGates"]}},
        {"spec": {"schedulingGates": None}},
        {"spec": {"containers": [victim["spec"]["containers"][0] | {"image": "registry.example/evil:1"}]}},
    )
    try:
        before = cluster.kube.get(path)["metadata"]
        for body in patches:
            for there in (path, f"{path}/status") if "metadata" in body else (path,):
                # The API server itself lets nobody change owners through the status.
                with contextlib.nullcontext() if "owner" in str(body) and there != path else refused():
                    kube.patch(there, body)
        after = cluster.kube.get(path)["metadata"]
        for field in ("labels", "finalizers", "ownerReferences"):
            assert after[field] == before[field]
        assert "annotations" not in after
        assert kube.patch(path, {"spec": ungate})["spec"]["schedulingGates"] == [other_gate]
        # A pod without the gate is not the hook's.
        with refused("behind its gate"):
            kube.patch(f"{path}/status", {"status": {"nominatedNodeName": "elsewhere"}})
    finally:
        cluster.kube.patch(path, {"metadata": {"finalizers": None}})
    foreign = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "foreign"},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": TYPE, "operator": "In", "values": ["c5.large"]}],
        },
    }
    with pytest.raises(ApiError):
        kube.create(CLAIMS, foreign)
