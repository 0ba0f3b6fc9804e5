"""The Karpenter hook with the real Karpenter, under its own service account: plans, faults, the way down."""

from __future__ import annotations

import contextlib
import re
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import yaml

from experiments.arrivals import Arrivals, is_ready
from kwok import karpenter, parts
from kwok.binaries import KARPENTER, Binaries
from kwok.errors import BinariesError
from kwok.lab import Lab
from kwok.pods import create_pods, delete_pods, pod, wait_for_account
from surgekit.kube.client import ApiError, Kube
from tests.paths import ROOT

pytestmark = pytest.mark.lab
TABLE = ROOT / "cluster_autoscaler_hook" / "data" / "aws_eu_west_1.csv"
CLAIMS, PLAN = "/apis/karpenter.sh/v1/nodeclaims", "/apis/surgekit.dev/v1alpha1/nodeplans/fcma"
QUICK = {"empty_after_s": 1.0, "launch_timeout_s": 2.0}
TYPE, ARCHITECTURE = "node.kubernetes.io/instance-type", "kubernetes.io/arch"
ZONE, OTHER_ZONE = karpenter.ZONE, "eu-west-1b"
# Of AWS's names; offered where nothing of the table is.
GPU_TYPE = karpenter.instance_type(
    "g4dn.xlarge",
    4,
    16,
    {("on-demand", OTHER_ZONE): 0.587, ("spot", OTHER_ZONE): 0.2},
    **{"nvidia.com/gpu": "1"},
)
# What the opt-in policy does to a pod, for pods created while no hook runs.
GATED: dict[str, Any] = {
    "schedulingGates": [{"name": "surgekit.dev/node-plan"}],
    "tolerations": [{"key": "surgekit.dev/pool", "value": "fcma", "effect": "NoSchedule"}],
}


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
        start_karpenter(lab)
        karpenter.add_node_pool(lab)
        karpenter.add_node_pool(lab, "spot", capacity_type="spot")
        yield lab


def start_karpenter(lab: Lab, without: Collection[str] = ()) -> None:
    karpenter.start(lab, TABLE, without, [GPU_TYPE])


@pytest.fixture
def hook(cluster: Lab) -> Iterator[Callable[..., None]]:
    """Starts the hook with settings; stopped after the test, when all nodes are gone."""

    def start(**settings: Any) -> None:
        karpenter.start_hook(cluster, TABLE, QUICK | settings)
        if settings.get("mode", "enforce") == "enforce":
            karpenter.wait_until_gating(cluster)

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
    words = re.sub("[^a-z0-9]+", "-", request.node.name)
    name = f"{words[:40]}-{zlib.crc32(words.encode()):x}"
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


def labels_of(lab: Lab, node: str) -> dict[str, str]:
    labels: dict[str, str] = lab.kube.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
    return labels


def let_go_events(lab: Lab, namespace: str) -> dict[str, str]:
    """Pod -> why the hook let go of it."""
    events, _ = lab.kube.list_all(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return {e["regarding"]["name"]: e["note"] for e in events if e["reason"] == "LeftToKarpenter"}


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
        launched = {"phase": "Launched", "waitingPods": 6}
        cluster.wait_for(lambda: launched.items() <= plan(cluster).items(), "all claims of the plan", 30)
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
    finally:
        cluster.stop(karpenter.KARPENTER)
        start_karpenter(cluster)


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
    assert f"the hook's mode is {mode}" in let_go_events(cluster, namespace)["left-00000"]
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


def selecting(key: str, operator: str, *values: str) -> dict[str, Any]:
    line = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    terms = {"nodeSelectorTerms": [{"matchExpressions": [line]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


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


def test_pods_with_wishes_the_planner_has_no_word_for_are_karpenters(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    hook()
    path = f"/api/v1/namespaces/{namespace}/pods"
    for name, spec in NOT_OURS.items():
        made = cluster.kube.create(path, pod(f"{name}-0", "500m", "1Gi", **spec))
        assert "schedulingGates" not in made["spec"], f"{name} must not be gated"
    spot = pod("spot-0", "500m", "1Gi", nodeSelector={"karpenter.sh/capacity-type": "spot"})
    assert "schedulingGates" in cluster.kube.create(path, spot)["spec"], "a label that is understood"
    create_pods(cluster.kube, namespace, 1, "500m", "1Gi", prefix="ours")
    where = all_run(cluster, namespace, len(NOT_OURS) + 2)
    assert "surgekit.dev/pool" in labels_of(cluster, where.pop("ours-00000"))
    for name, node in where.items():
        assert "karpenter.sh/nodepool" in labels_of(cluster, node), name
    assert labels_of(cluster, where["spot-0"])["karpenter.sh/capacity-type"] == "spot"
    assert "allows no class" in let_go_events(cluster, namespace)["spot-0"]


def test_gated_pods_that_will_not_be_planned_for_are_let_go(
    cluster: Lab, hook: Callable[..., None], namespace: str
) -> None:
    """Whoever gated them: the hook answers for its gate."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    for name, spec in NOT_OURS.items():
        cluster.kube.create(path, pod(f"{name}-0", "500m", "1Gi", **GATED | spec))
    hook()
    all_run(cluster, namespace, len(NOT_OURS))
    said = let_go_events(cluster, namespace)
    assert set(said) == {f"{name}-0" for name in NOT_OURS}
    assert "nvidia.com/gpu" in said["gpu-0"]


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


def test_a_nomination_that_does_not_hold_leaves_the_pod_to_karpenter(cluster: Lab, namespace: str) -> None:
    """What the hook relies on when its picture of a node was wrong."""
    path = f"/api/v1/namespaces/{namespace}/pods/wrong-0"
    cluster.kube.create(path.rpartition("/")[0], pod("wrong-0", "500m", "1Gi", **GATED))
    cluster.kube.patch(f"{path}/status", {"status": {"nominatedNodeName": "no-such-node"}})
    cluster.kube.patch(path, {"spec": {"schedulingGates": None}})
    where = all_run(cluster, namespace, 1)
    assert "karpenter.sh/nodepool" in labels_of(cluster, where["wrong-0"])


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
