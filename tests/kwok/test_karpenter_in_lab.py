"""The Karpenter hook with the real Karpenter, under its own service account: plans, faults, the way down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kwok import karpenter, parts
from kwok.arrivals import Arrivals, is_ready
from kwok.binaries import KARPENTER, Binaries
from kwok.errors import BinariesError
from kwok.lab import Lab
from kwok.pods import create_pods, delete_pods, pod, wait_for_account
from surgekit.kube import ApiError, Kube

pytestmark = pytest.mark.lab
TABLE = Path(__file__).parents[2] / "cluster_autoscaler_hook" / "data" / "aws_eu_west_1.csv"
CLAIMS, PLAN = "/apis/karpenter.sh/v1/nodeclaims", "/apis/surgekit.dev/v1alpha1/nodeplans/fcma"
QUICK = {"empty_after_s": 1.0, "launch_timeout_s": 2.0, "stuck_after_s": 20.0}
TYPE = "node.kubernetes.io/instance-type"


@pytest.fixture(scope="module")
def cluster(binaries: Binaries) -> Iterator[Lab]:
    try:
        binaries.directory(KARPENTER)
    except BinariesError as error:
        pytest.skip(f"Karpenter cannot be had: {error}")
    with Lab.temporary("karpenter", instant_pods=True) as lab:
        parts.install(lab)
        karpenter.install(lab)
        karpenter.install_hook(lab)
        lab.start_scheduler()
        karpenter.start(lab, TABLE)
        karpenter.add_node_pool(lab)
        lab.wait_for(lambda: _gated(lab), "the opt-in policy to be in force")
        yield lab


def _gated(lab: Lab) -> bool:
    asking = pod("asking", "1m", "1Mi", labels={"surgekit.dev/nodes": "enforce"})
    made = lab.kube.create("/api/v1/namespaces/default/pods", asking, dryRun="All")
    return "schedulingGates" in made["spec"]


@pytest.fixture
def hook(cluster: Lab) -> Iterator[Callable[..., None]]:
    """Starts the hook with settings; stopped after the test, when all nodes are gone."""

    def start(**settings: Any) -> None:
        karpenter.start_hook(cluster, TABLE, QUICK | settings)

    yield start
    cluster.stop(karpenter.HOOK)
    for claim in claims(cluster):
        try:
            cluster.kube.delete(f"{CLAIMS}/{claim['metadata']['name']}")
        except ApiError as error:
            if error.code != 404:
                raise
    cluster.wait_for(lambda: not claims(cluster), "no claims", 120)


@pytest.fixture
def namespace(cluster: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    """Opted in; empty again before the nodes are taken away."""
    name = request.node.name.replace("_", "-")[:50].rstrip("-")
    labels = {"surgekit.dev/nodes": "enforce"}
    cluster.kube.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    wait_for_account(cluster.kube, name)
    yield name
    delete_pods(cluster.kube, name)


def claims(lab: Lab) -> list[dict[str, Any]]:
    return lab.kube.list_all(CLAIMS)[0]


def all_run(lab: Lab, namespace: str, count: int, timeout_s: float = 90.0) -> dict[str, str]:
    """Wait until `count` pods are Ready; the node of each."""
    arrivals = Arrivals(lab.kube, namespace, ready=is_ready)
    try:
        arrivals.wait("ready", count, timeout_s)
        return dict(arrivals.node)
    finally:
        arrivals.close()


def plan(lab: Lab) -> dict[str, Any]:
    try:
        return lab.kube.get(PLAN).get("status") or {}
    except ApiError:
        return {}


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
    create_pods(cluster.kube, namespace, 9, "900m", "3Gi", prefix="even")
    create_pods(cluster.kube, namespace, 3, "2500m", "4Gi", prefix="large")
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
    names = {c["metadata"]["name"] for c in claims(cluster)}
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
        launched = {"phase": "Launched", "waitingPods": 6}
        cluster.wait_for(lambda: launched.items() <= plan(cluster).items(), "all claims of the plan", 30)
        planned = {c["metadata"]["name"] for c in claims(cluster)}
        time.sleep(5)
        assert {c["metadata"]["name"] for c in claims(cluster)} == planned, "waits, and rents nothing else"
    finally:
        karpenter.start(cluster, TABLE)
    all_run(cluster, namespace, 6)
    assert {c["metadata"]["name"] for c in claims(cluster)} == planned


def test_a_class_that_cannot_be_had_is_replaced(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    """Karpenter without the class that is cheapest for the pods: the provider refuses to launch it."""
    create_pods(cluster.kube, namespace, 6, "900m", "3Gi", prefix="first")
    hook()  # after them, and so below: one plan for all six
    all_run(cluster, namespace, 6)
    wanted = {n["instanceClass"] for n in plan(cluster)["nodes"]}
    delete_pods(cluster.kube, namespace)
    cluster.wait_for(lambda: not claims(cluster), "empty nodes to go", 60)
    cluster.stop(karpenter.KARPENTER)
    cluster.stop(karpenter.HOOK)
    karpenter.start(cluster, TABLE, without=wanted)
    try:
        create_pods(cluster.kube, namespace, 6, "900m", "3Gi", prefix="again")
        hook()
        all_run(cluster, namespace, 6)
        status = plan(cluster)
        assert {u["instanceClass"] for u in status["unavailable"]} >= wanted
        assert not wanted & {n["instanceClass"] for n in status["nodes"]}
    finally:
        cluster.stop(karpenter.KARPENTER)
        karpenter.start(cluster, TABLE)


def test_shadow_mode_plans_and_prices_and_changes_nothing(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    hook(mode="shadow")
    create_pods(
        cluster.kube, namespace, 5, "900m", "3Gi", labels={"surgekit.dev/nodes": "shadow"},
        nodeSelector={"nobody": "has-this"},
    )  # fmt: skip
    create_pods(cluster.kube, namespace, 5, "900m", "3Gi", prefix="seen")
    shadow = {"phase": "Shadow", "waitingPods": 10}
    cluster.wait_for(lambda: shadow.items() <= plan(cluster).items(), "a shadow plan for all", 30)
    status = plan(cluster)
    assert status["costPerHour"] > 0
    assert sum(s["pods"] for s in status["shortages"]) == 5, "no class has the label nobody has"
    assert not claims(cluster)
    found, _ = cluster.kube.list_all(f"/api/v1/namespaces/{namespace}/pods")
    assert not any(p["status"].get("nominatedNodeName") for p in found)


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


def test_the_hooks_account_can_do_no_more_than_it_needs(cluster: Lab, namespace: str) -> None:
    kube = Kube.connect(cluster.account_kubeconfig("surgekit-system", "surgekit-nodes"))
    cluster.kube.create(f"/api/v1/namespaces/{namespace}/pods", pod("victim", "1m", "1Mi"))
    path = f"/api/v1/namespaces/{namespace}/pods/victim"
    kube.patch(f"{path}/status", {"status": {"nominatedNodeName": "somewhere"}})
    for forbidden in ({"status": {"phase": "Succeeded"}}, {"status": {"podIP": "10.1.1.1"}}):
        with pytest.raises(ApiError):
            kube.patch(f"{path}/status", forbidden)
    patches: tuple[dict[str, Any], ...] = (
        {"metadata": {"labels": {"x": "y"}}},
        {"spec": {"nodeSelector": {"disk": "ssd"}, "schedulingGates": None}},
        {"spec": {"containers": [{"name": "app", "image": "registry.example/evil:1"}]}},
    )
    for body in patches:
        with pytest.raises(ApiError):
            kube.patch(path, body)
    assert kube.patch(path, {"spec": {"schedulingGates": None}})["spec"].get("schedulingGates") is None
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
