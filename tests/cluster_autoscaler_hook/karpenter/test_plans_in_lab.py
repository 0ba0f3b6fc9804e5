"""The Karpenter hook with the real Karpenter: plans, faults, the way down."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from kwok import karpenter
from kwok.lab import Lab
from kwok.pods import create_pods, delete_pods, pod
from tests.cluster_autoscaler_hook.karpenter.lab_with_hook import (
    ARCHITECTURE,
    CLAIMS,
    GATED,
    OTHER_ZONE,
    TYPE,
    ZONE,
    all_run,
    claims,
    labels_of,
    plan,
    selecting,
    start_karpenter,
)

pytestmark = pytest.mark.lab


def apart() -> dict[str, Any]:
    """One to a node, so that a plan has as many claims as pods."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchExpressions": [{"key": "apart", "operator": "Exists"}]},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_waiting_pods_are_planned_nodes_launched_pods_land_and_empty_nodes_go(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    # Created before: on busy cores they would come in several batches, and the NodePlan has the last.
    create_pods(cluster.kube, namespace, 9, "900m", "3Gi", prefix="even", **GATED)
    create_pods(cluster.kube, namespace, 3, "2500m", "4Gi", prefix="large", **GATED)
    hook()
    where = all_run(cluster, namespace, 12)
    cluster.wait_for(lambda: plan(cluster)["phase"] == "Launched", "the NodePlan to say so")
    status = plan(cluster)
    assert status["lowerBoundPerHour"] <= status["costPerHour"] + 1e-9
    made = claims(cluster)
    # Exactly the plan, followed by the scheduler to the letter: no second node was needed.
    assert sorted(c["metadata"]["name"] for c in made) == sorted(n["claim"] for n in status["nodes"])
    assert {c["metadata"]["labels"].get("karpenter.sh/nodepool") for c in made} == {None}
    nodes = {n["metadata"]["name"]: n for n in cluster.kube.list_all("/api/v1/nodes")[0]}
    assert {nodes[n]["metadata"]["labels"][TYPE] for n in where.values()} == {
        n["instanceClass"] for n in status["nodes"]
    }
    # The pods name no architecture, and nothing in this cluster is arm64, which would be cheaper.
    assert {nodes[n]["metadata"]["labels"][ARCHITECTURE] for n in where.values()} == {"amd64"}
    events, _ = cluster.kube.list_all(f"/api/v1/namespaces/{namespace}/events")
    assert not [e for e in events if (e.get("source") or {}).get("component") == "karpenter"], events
    delete_pods(cluster.kube, namespace)
    cluster.wait_for(lambda: not claims(cluster), "empty nodes to go", 60)
    cluster.wait_for(lambda: plan(cluster)["runningNodes"] == 0, "the NodePlan to say so", 10)


def test_a_hook_killed_in_the_middle_of_a_plan_goes_on_without_doubling_it(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    hook()
    create_pods(
        cluster.kube, namespace, 12, "500m", "1Gi", prefix="one", labels={"apart": "yes"}, affinity=apart()
    )
    cluster.wait_for(lambda: bool(claims(cluster)), "the first claim", 30)
    cluster.kill(karpenter.HOOK)
    before = {c["metadata"]["name"] for c in claims(cluster)}
    hook()
    where = all_run(cluster, namespace, 12)
    assert len(set(where.values())) == 12
    made = claims(cluster)
    names = {c["metadata"]["name"] for c in made}
    assert {c["metadata"]["labels"].get("surgekit.dev/pool") for c in made} == {"fcma"}
    assert before <= names
    assert len(names) == 12


def test_with_karpenter_gone_nothing_is_half_done_and_all_resumes(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    hook()
    cluster.kill(karpenter.KARPENTER)
    try:
        create_pods(cluster.kube, namespace, 6, "900m", "3Gi")

        # On busy cores the six may come in two batches: planned for is what counts, in one plan or two.
        # The phase may still be that of the plan before.
        def launched() -> bool:
            found = plan(cluster)
            reasons = {group["reason"] for group in found.get("waiting", [])}
            counts = found.get("phase") == "Launched" and found.get("waitingPods") == 6
            return counts and reasons == {"its node is being prepared"}

        cluster.wait_for(launched, "all claims of the plan", 60)
        planned = {c["metadata"]["name"] for c in claims(cluster)}
        time.sleep(5)
        assert {c["metadata"]["name"] for c in claims(cluster)} == planned, "waits, and rents nothing else"
    finally:
        start_karpenter(cluster)
    all_run(cluster, namespace, 6)
    assert {c["metadata"]["name"] for c in claims(cluster)} == planned


def test_a_class_that_cannot_be_had_is_replaced(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    """Karpenter without the class that is cheapest for the pods: the provider refuses to launch it."""
    create_pods(cluster.kube, namespace, 6, "900m", "3Gi", prefix="first", **GATED)
    hook()  # after them, and so below: one plan for all six
    all_run(cluster, namespace, 6)
    wanted = {n["instanceClass"] for n in plan(cluster)["nodes"]}
    delete_pods(cluster.kube, namespace)
    cluster.wait_for(lambda: not claims(cluster), "empty nodes to go", 60)
    cluster.stop(karpenter.KARPENTER)
    cluster.stop(karpenter.HOOK)
    start_karpenter(cluster, without=wanted)
    try:
        create_pods(cluster.kube, namespace, 6, "900m", "3Gi", prefix="again", **GATED)
        hook()
        all_run(cluster, namespace, 6)
        status = plan(cluster)
        assert {u["instanceClass"] for u in status["unavailable"]} >= wanted
        assert not wanted & {n["instanceClass"] for n in status["nodes"]}
        events, _ = cluster.kube.list_all("/apis/events.k8s.io/v1/namespaces/default/events")
        left_out = [e["note"] for e in events if e["reason"] == "ClassLeftOut"]
        assert all(any(name in note for note in left_out) for name in wanted), left_out
    finally:
        cluster.stop(karpenter.KARPENTER)
        start_karpenter(cluster)


def test_zones_and_labels_that_settings_and_catalogue_name_are_planned_for(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    cpus = "karpenter.kwok.sh/instance-cpu"
    classes = [
        {"class": name, "family": "c5", "cores": cores, "memoryGiB": 4 * cores, "price": price}
        | {"labels": {cpus: str(2 * cores)}}
        for name, cores, price in (("c5.large", 1, 0.096), ("c5.xlarge", 2, 0.192))
    ]
    catalogue = cluster.directory / "catalogue.yaml"
    catalogue.write_text(yaml.safe_dump({"currency": "USD", "cpusPerCore": 2, "classes": classes}))
    hook(catalogue=str(catalogue), zones=[ZONE])
    path = f"/api/v1/namespaces/{namespace}/pods"
    pods: dict[str, dict[str, Any]] = {
        "zone": {"nodeSelector": {"topology.kubernetes.io/zone": ZONE}},
        "not-zone": selecting("topology.kubernetes.io/zone", "NotIn", OTHER_ZONE),
        "gt": selecting(cpus, "Gt", "3"),
        "on-demand": {"nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}},
    }
    for name, spec in pods.items():
        made = cluster.kube.create(path, pod(f"{name}-0", "500m", "1Gi", **spec))
        assert "schedulingGates" in made["spec"], name
    where = all_run(cluster, namespace, len(pods))
    labels = {name: labels_of(cluster, node) for name, node in where.items()}
    assert all("surgekit.dev/pool" in found for found in labels.values()), labels
    assert int(labels["gt-0"][cpus]) > 3
    assert labels["zone-0"]["topology.kubernetes.io/zone"] == ZONE


def test_karpenters_own_pool_and_ours_live_side_by_side(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    hook()
    create_pods(cluster.kube, namespace, 4, "900m", "3Gi", prefix="ours")
    create_pods(
        cluster.kube, namespace, 4, "900m", "3Gi", prefix="theirs", labels={"surgekit.dev/nodes": "off"}
    )
    where = all_run(cluster, namespace, 8)
    nodes = {
        n["metadata"]["name"]: n["metadata"]["labels"] for n in cluster.kube.list_all("/api/v1/nodes")[0]
    }
    for name, node in where.items():
        ours = name.startswith("ours")
        assert ("surgekit.dev/pool" in nodes[node]) is ours, name
        assert ("karpenter.sh/nodepool" in nodes[node]) is not ours, name
    before = {
        c["metadata"]["name"] for c in claims(cluster) if "surgekit.dev/pool" in c["metadata"]["labels"]
    }
    time.sleep(20)  # two rounds of Karpenter's disruption
    after = {c["metadata"]["name"] for c in claims(cluster) if "surgekit.dev/pool" in c["metadata"]["labels"]}
    assert after == before


def test_on_the_way_down_a_disruption_budget_holds(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    hook()
    create_pods(cluster.kube, namespace, 1, "500m", "1Gi", prefix="kept", labels={"kept": "yes"})
    all_run(cluster, namespace, 1)
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    selector = {"matchLabels": {"kept": "yes"}}
    spec = {"minAvailable": 1, "selector": selector}
    cluster.kube.create(budgets, {"metadata": {"name": "kept"}, "spec": spec})
    (claim,) = claims(cluster)
    cluster.kube.delete(f"{CLAIMS}/{claim['metadata']['name']}")
    time.sleep(5)
    assert len(cluster.kube.list_all(f"/api/v1/namespaces/{namespace}/pods")[0]) == 1
    assert claims(cluster)
    cluster.kube.delete(f"{budgets}/kept")
    cluster.wait_for(lambda: not claims(cluster), "the node to go without the budget", 60)
