"""A ComboFunc that is short brings nodes through the real Karpenter, alone and with our hook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from combofunc.labels import CONCURRENCY_ANNOTATION, SIZE_LABEL
from kwok import karpenter, parts
from kwok.binaries import CORE, KARPENTER, Binaries
from kwok.lab import Lab
from kwok.pods import wait_for_account
from tests.combofunc.lab_with_controller import GROUP, Json, template
from tests.paths import ROOT

pytestmark = pytest.mark.lab
TABLE = ROOT / "cluster_autoscaler_hook" / "data" / "aws_eu_west_1.csv"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NO_DELAY = {"drain": "0s", "keepWarm": "0s"}
SIZES = [
    {"name": "small", "cpu": "900m", "memory": "1Gi", "concurrency": 2},
    {"name": "large", "cpu": "2200m", "memory": "2Gi", "concurrency": 5},
]


@pytest.fixture(scope="module")
def lab(built: Callable[..., Binaries]) -> Iterator[Lab]:
    built(*CORE, KARPENTER)
    with Lab.temporary("node-demand", instant_pods=True) as lab:
        parts.install(lab)
        parts.install_combofunc(lab)
        karpenter.install(lab)
        karpenter.install_hook(lab)
        lab.start_scheduler()
        karpenter.start(lab, TABLE)
        karpenter.add_node_pool(lab)
        parts.start_combofunc(lab)
        yield lab


def function(lab: Lab, namespace: str, target: int, labels: dict[str, str] | None = None) -> None:
    metadata = {"name": namespace, "labels": labels or {}}
    lab.kube.create("/api/v1/namespaces", {"metadata": metadata})
    wait_for_account(lab.kube, namespace)
    spec = {"template": template(), "sizes": SIZES, "targetConcurrency": target} | NO_DELAY
    body = {"apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc", "metadata": {"name": "video"}}
    lab.kube.create(f"{GROUP}/namespaces/{namespace}/combofuncs", body | {"spec": spec})


def scale(lab: Lab, namespace: str, target: int) -> None:
    path = f"{GROUP}/namespaces/{namespace}/combofuncs/video"
    lab.kube.patch(path, {"spec": {"targetConcurrency": target}})


def status(lab: Lab, namespace: str) -> Json:
    found: Json = lab.kube.get(f"{GROUP}/namespaces/{namespace}/combofuncs/video").get("status") or {}
    return found


def pods(lab: Lab, namespace: str) -> list[Json]:
    return lab.kube.list_all(f"/api/v1/namespaces/{namespace}/pods")[0]


def concurrency(lab: Lab, namespace: str) -> int:
    """Of all pods, also those that wait."""
    return sum(int(pod["metadata"]["annotations"][CONCURRENCY_ANNOTATION]) for pod in pods(lab, namespace))


def served(lab: Lab, namespace: str, target: int) -> bool:
    said = status(lab, namespace)
    return said.get("shortage") == 0 and said.get("readyConcurrency", 0) >= target


def wait_served(lab: Lab, namespace: str, target: int) -> None:
    try:
        lab.wait_for(lambda: served(lab, namespace, target), f"concurrency {target}", 120)
    except Exception as error:
        there = [(p["metadata"]["name"], p["spec"].get("nodeName")) for p in pods(lab, namespace)]
        raise AssertionError(f"{error}: {status(lab, namespace)}, {there}") from error


def test_stock_karpenter_brings_nodes_for_what_fits_nowhere(lab: Lab) -> None:
    function(lab, "stock", 10)
    wait_served(lab, "stock", 10)
    lab.wait_for(lambda: concurrency(lab, "stock") < 10 + 5, "no more than is needed")
    claims = lab.kube.list_all(CLAIMS)[0]
    assert {claim["metadata"]["labels"].get("karpenter.sh/nodepool") for claim in claims} == {"default"}
    scale(lab, "stock", 0)
    lab.wait_for(lambda: not pods(lab, "stock"), "no pods", 60)
    lab.wait_for(lambda: not lab.kube.list_all(CLAIMS)[0], "the nodes to go", 120)


def test_pods_that_wait_go_with_the_target(lab: Lab) -> None:
    lab.kill(karpenter.KARPENTER)
    try:
        function(lab, "falls", 10)
        lab.wait_for(lambda: bool(pods(lab, "falls")), "pods that wait for nodes", 60)
        assert all(not pod["spec"].get("nodeName") for pod in pods(lab, "falls"))
        scale(lab, "falls", 0)
        lab.wait_for(lambda: not pods(lab, "falls"), "no pod waits for what nobody wants", 60)
    finally:
        karpenter.start(lab, TABLE)
    assert not lab.kube.list_all(CLAIMS)[0]


def test_the_hook_rents_for_sizes_whose_nodes_cost_less(lab: Lab) -> None:
    """ComboFunc wants two large pods: few creations. Nodes for five small ones cost less."""
    karpenter.start_hook(lab, TABLE, {"empty_after_s": 1.0, "architectures": ["amd64"]})
    karpenter.wait_until_gating(lab)
    try:
        function(lab, "joint", 10, {"surgekit.dev/nodes": "enforce"})
        wait_served(lab, "joint", 10)
        sizes = Counter(pod["metadata"]["labels"][SIZE_LABEL] for pod in pods(lab, "joint"))
        assert sizes == {"small": 5}
        claims = lab.kube.list_all(CLAIMS)[0]
        assert {claim["metadata"]["labels"].get("surgekit.dev/pool") for claim in claims} == {"fcma"}
        plan = lab.kube.get("/apis/surgekit.dev/v1alpha1/nodeplans/fcma")["status"]
        assert plan["runningCostPerHour"] < 0.3, "two large pods would take a c6i.2xlarge, 0.3648 USD"
        scale(lab, "joint", 0)
        lab.wait_for(lambda: not pods(lab, "joint"), "no pods", 60)
        lab.wait_for(lambda: not lab.kube.list_all(CLAIMS)[0], "the nodes to go", 120)
    finally:
        lab.stop(karpenter.HOOK)
