"""Every part as pods on real nodes, from the manifests: installed, used, upgraded, removed; in this order.

The lab adds a toleration and a node selector, nothing else. Its CNI plugin, a bridge, does not enforce the
NetworkPolicies: they are there, and what they forbid is not tried.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from kwok import images, prometheus, real_node
from kwok.binaries import PROMETHEUS, Binaries
from kwok.errors import BinariesError, ImageError
from kwok.karpenter.process import CRDS
from kwok.lab import Lab
from kwok.network import addresses
from kwok.network_namespace import entering
from kwok.pods import delete_pods, wait_for_account
from kwok.scenario import Scenario
from surgekit.kube.client import ApiError, Kube
from tests.commands import Commands
from tests.manifests.installed_cluster import MANIFESTS, NAMESPACE, PLACEMENT, placed
from tests.manifests.parts_as_pods import (
    address,
    all_objects,
    get_in_lab,
    memory_mib,
    overlay,
    parts_pods,
    scheduler_configuration,
    start_s,
    wait_for_rollouts,
    write_secret,
)
from tests.paths import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.real_node]

# On 2 cores the parts request more than one node has, and a rolling upgrade needs room for one more of each.
NODES = {"real-0", "real-1", "real-2"}

PARTS = (
    "overlays/self-signed", "overlays/second-scheduler", "combofunc", "load-balancer", "kneescale", "adapter",
    "expander", "karpenter",
)  # fmt: skip
IMAGES = ("surgekit", "haproxy", "kube-scheduler", "function-server")
METRICS = "/apis/external.metrics.k8s.io/v1beta1"
FUNCTION = {
    "nodeSelector": {real_node.LABEL: "true"},
    "tolerations": [real_node.TOLERATION],
    "containers": [
        {
            "name": "function",
            "image": images.reference("function-server"),
            "ports": [{"name": "http", "containerPort": 8080}],
        }
    ],
}


@pytest.fixture(scope="module")
def cluster(real_node_binaries: Binaries) -> Iterator[Lab]:
    """Nodes `node-0` (emulated) and NODES; Karpenter's kinds; the stock scheduler."""
    try:
        for image in IMAGES:
            images.build(image)
    except (BinariesError, ImageError) as error:
        pytest.skip(f"the images cannot be had: {error}")
    with Lab.temporary("pods", own_network=True) as lab:
        lab.start_node_model(Scenario.equal(lab.add_nodes(1), tau_create_s=0.2))
        lab.start_scheduler()
        lab.apply(CRDS)
        real_node.start(lab, len(NODES), IMAGES)
        yield lab


@pytest.fixture(scope="module")
def before(cluster: Lab) -> set[str]:
    return all_objects(cluster)


@pytest.fixture(scope="module")
def installed(cluster: Lab, before: set[str]) -> Lab:
    """All parts, applied one after the other and rolled out; the lab's scheduler asks the extender."""
    for part in PARTS:
        cluster.apply(overlay(cluster, part))
    cluster.apply(MANIFESTS / "base" / "opt-in")
    wait_for_rollouts(cluster)
    cluster.stop_scheduler()
    cluster.start_scheduler(scheduler_configuration(cluster))
    return cluster


@pytest.fixture(scope="module")
def shop(installed: Lab) -> str:
    """A namespace that opted in."""
    metadata = {"name": "shop", "labels": {PLACEMENT: "enforce"}}
    installed.kube.create("/api/v1/namespaces", {"metadata": metadata})
    wait_for_account(installed.kube, "shop")
    return "shop"


def function(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": FUNCTION | {"terminationGracePeriodSeconds": 0} | spec}


def explained(lab: Lab, commands: Commands, pod: str) -> dict[str, Any]:
    said = commands.run("explain", "pod", pod, "--kubeconfig", str(lab.kubeconfig), "--json", "-")
    assert said.returncode == 0, said.stderr
    return dict(json.loads(said.stdout))


def test_every_part_is_ready_under_its_own_account_without_a_restart(installed: Lab) -> None:
    pods = parts_pods(installed)
    accounts = {
        pod["metadata"]["labels"]["app.kubernetes.io/name"]: pod["spec"]["serviceAccountName"] for pod in pods
    }
    assert accounts == {name: name for name in accounts}
    assert len(accounts) == 9
    restarts = {
        pod["metadata"]["name"]: c["restartCount"] for pod in pods for c in pod["status"]["containerStatuses"]
    }
    assert set(restarts.values()) == {0}, restarts
    policies, _ = installed.kube.list_all(
        f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"
    )
    assert {p["metadata"]["name"] for p in policies} >= set(accounts)


def test_no_part_can_write_outside_its_own_directories(installed: Lab) -> None:
    program = (
        "import os\nfor place in ('/', '/opt/surgekit', '/etc', '/var'):\n"
        "    try: open(f'{place}/x', 'w'); print(place)\n    except OSError: pass\n"
        "print(os.getuid())"
    )
    names = {pod["metadata"]["labels"]["app.kubernetes.io/name"] for pod in parts_pods(installed)}
    for name in sorted(names - {"surgekit-scheduler"}):  # its image is kube-scheduler alone
        said = installed.kubectl("exec", "-n", NAMESPACE, f"deploy/{name}", "--", "python", "-c", program)
        assert said.split() == ["65532"], name


def test_the_labs_scheduler_asks_the_extender_through_its_service(
    installed: Lab, shop: str, commands: Commands
) -> None:
    """`explain` then asks the replicas by a port-forward through a kubelet."""
    installed.kube.create(f"/api/v1/namespaces/{shop}/pods", function("by-first"))
    installed.wait_for(lambda: placed(installed, shop, "by-first"), "the pod is placed")
    said = explained(installed, commands, f"{shop}/by-first")
    assert {candidate["node"] for candidate in said["candidates"]} == NODES


def test_the_second_scheduler_goes_on_while_the_extender_is_killed(
    installed: Lab, shop: str, commands: Commands
) -> None:
    path, asks = f"/api/v1/namespaces/{shop}/pods", {"schedulerName": "surgekit"}
    installed.kube.create(path, function("by-second", **asks))
    installed.wait_for(lambda: placed(installed, shop, "by-second"), "the pod is placed")
    assert explained(installed, commands, f"{shop}/by-second")["candidates"]
    deployment = ("-n", NAMESPACE, "scale", "deployment/surgekit-extender")
    installed.kubectl(*deployment, "--replicas=0")
    for pod in parts_pods(installed, "surgekit-extender"):
        installed.kube.delete(
            f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}", gracePeriodSeconds=0
        )
    installed.wait_for(lambda: not parts_pods(installed, "surgekit-extender"), "the extender is gone")
    try:
        installed.kube.create(path, function("without-second", **asks))
        installed.kube.create(path, function("without-first"))
        for name in ("without-second", "without-first"):
            installed.wait_for(lambda n=name: placed(installed, shop, n), f"{name} is placed")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
    finally:
        installed.kubectl(*deployment, "--replicas=2")
        wait_for_rollouts(installed)


def test_the_probe_measures_real_nodes(installed: Lab) -> None:
    def measured() -> bool:
        speeds, _ = installed.kube.list_all("/apis/surgekit.dev/v1alpha1/nodespeeds")
        sources = {s["metadata"]["name"]: s["status"]["source"] for s in speeds}
        return {sources.get(node) for node in NODES} == {"measured"}

    installed.wait_for(measured, "the speeds of all real nodes")


def test_a_combofunc_gets_pods_and_requests_reach_them_through_haproxy(installed: Lab, shop: str) -> None:
    combofunc = {
        "apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc", "metadata": {"name": "thumbnails"},
        "spec": {
            "template": {"spec": FUNCTION},
            "sizes": [{"name": "small", "cpu": "50m", "memory": "64Mi", "concurrency": 2, "replicas": 2}],
        },
    }  # fmt: skip
    service = {
        "metadata": {"name": "thumbnails", "labels": {"surgekit.dev/combofunc": "thumbnails"}},
        "spec": {
            "selector": {"surgekit.dev/combofunc": "thumbnails", "surgekit.dev/serving": "true"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    path = f"/apis/surgekit.dev/v1alpha1/namespaces/{shop}/combofuncs"
    installed.kube.create(path, combofunc)
    installed.kube.create(f"/api/v1/namespaces/{shop}/services", service)
    installed.wait_for(
        lambda: installed.kube.get(f"{path}/thumbnails")["status"]["readyConcurrency"] == 4, "its pods"
    )
    # The balancer's watch may be a moment behind the one that the status comes from.
    installed.wait_for(lambda: request_through_haproxy(installed) == 200, "HAProxy knows them")


def request_through_haproxy(lab: Lab) -> int:
    return get_in_lab(lab, address(lab, "surgekit-balancer"), 80, "thumbnails.shop")


@contextmanager
def requests(lab: Lab) -> Iterator[list[str]]:
    """Requests through HAProxy and to the aggregated API go on; what failed is in the list."""
    done, failed = Event(), list[str]()

    def use() -> None:
        while not done.wait(0.2):
            try:
                if (status := request_through_haproxy(lab)) != 200:
                    failed.append(f"HAProxy answered {status}")
                lab.kube.get(METRICS)
            except (OSError, ApiError) as error:
                failed.append(repr(error))

    user = Thread(target=use)
    user.start()
    try:
        yield failed
    finally:
        done.set()
        user.join()


def test_a_kneepolicy_gets_a_status(installed: Lab, shop: str) -> None:
    policy = {
        "apiVersion": "surgekit.dev/v1alpha1", "kind": "KneePolicy", "metadata": {"name": "checkout"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"},
            "mode": "shadow", "maxReplicas": 4, "metrics": {"preset": "openfaas"},
        },
    }  # fmt: skip
    path = f"/apis/surgekit.dev/v1alpha1/namespaces/{shop}/kneepolicies"
    installed.kube.create(path, policy)
    installed.wait_for(lambda: installed.kube.get(f"{path}/checkout")["status"]["conditions"], "its status")


def test_the_adapter_answers_behind_the_aggregation_layer(
    installed: Lab, shop: str, commands: Commands
) -> None:
    """Registered as its README says. The API server reaches it by its Service."""
    ca = write_secret(installed, "surgekit-adapter-tls", installed.directory / "adapter-tls") / "ca.crt"
    said = commands.run("metrics-api", "register", "--ca", str(ca), "--kubeconfig", str(installed.kubeconfig))
    assert said.returncode == 0, said.stderr
    service = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io"
    installed.wait_for(lambda: available(installed.kube.get(service)), "the API server reaches it")
    # Its own proxy learns of that a moment later.
    installed.wait_for(lambda: answered(installed.kube, METRICS), "the API server asks it")
    assert [metric["name"] for metric in installed.kube.get(METRICS)["resources"]] == ["knee-replicas"]
    path = f"{METRICS}/namespaces/{shop}/knee-replicas"
    with pytest.raises(ApiError, match=f"KneePolicy {shop}/checkout: it is applied through `scale`"):
        installed.kube.get(path, labelSelector="policy=checkout")


def test_a_kneepolicy_decides_and_the_adapter_serves_its_number(
    built: Callable[..., Binaries], installed: Lab, shop: str
) -> None:
    """Requests, HAProxy, balancer, Prometheus, KneeScale, adapter: each as shipped."""
    built(PROMETHEUS)
    installed.kube.create(f"/apis/apps/v1/namespaces/{shop}/deployments", deployment("checkout", 2))
    policy = {
        "apiVersion": "surgekit.dev/v1alpha1", "kind": "KneePolicy", "metadata": {"name": "by-metrics"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"},
            "mode": "enforce", "via": "metrics", "maxReplicas": 4, "samplingInterval": "5s",
            "metrics": {"preset": "surgekit", "function": "thumbnails"},
        },
    }  # fmt: skip
    path = f"/apis/surgekit.dev/v1alpha1/namespaces/{shop}/kneepolicies"
    with prometheus_service(installed), requests(installed) as failed:
        installed.kube.create(path, policy)

        def decided() -> dict[str, Any]:
            return dict(installed.kube.get(f"{path}/by-metrics").get("status") or {})

        installed.wait_for(lambda: decided()["lastSample"], "a sample through Prometheus", 120)
        installed.wait_for(lambda: decided()["targetReplicas"] >= 1, "a decision")

        def served() -> bool:
            selector = {"labelSelector": "policy=by-metrics"}
            found = installed.kube.get(f"{METRICS}/namespaces/{shop}/knee-replicas", **selector)
            (item,) = found["items"]
            return bool(int(item["value"]) == decided()["targetReplicas"])

        installed.wait_for(served, "the number of the policy's status as a metric")
    assert not failed
    installed.kube.delete(f"{path}/by-metrics")
    checkout = f"/apis/apps/v1/namespaces/{shop}/deployments/checkout"
    installed.kube.delete(checkout, propagationPolicy="Background")


def deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": FUNCTION | {"terminationGracePeriodSeconds": 0}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


@contextmanager
def prometheus_service(lab: Lab) -> Iterator[None]:
    """A Prometheus where the parts look for it by default, which scrapes the balancers."""
    balancers = parts_pods(lab, "surgekit-balancer")
    targets = {"balancer": [f"{balancer['status']['podIP']}:8080" for balancer in balancers]}
    port = prometheus.start(lab, targets, address="0.0.0.0").port  # noqa: S104
    lab.kube.create("/api/v1/namespaces", {"metadata": {"name": "monitoring"}})
    name = "prometheus-operated"
    ports = [{"name": "web", "port": 9090, "targetPort": port}]
    lab.kube.create(
        "/api/v1/namespaces/monitoring/services", {"metadata": {"name": name}, "spec": {"ports": ports}}
    )
    slice_ = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [str(addresses.CONTROL_PLANE)]}],
        "ports": [{"name": "web", "port": port}],
    }
    lab.kube.create("/apis/discovery.k8s.io/v1/namespaces/monitoring/endpointslices", slice_)
    yield
    lab.kubectl("delete", "namespace", "monitoring", "--timeout=60s")
    lab.stop(prometheus.PROMETHEUS)


def answered(kube: Kube, path: str) -> bool:
    try:
        kube.get(path)
    except ApiError as error:
        if error.code != 503:
            raise
        return False
    return True


def available(service: dict[str, Any]) -> bool:
    return any(c["type"] == "Available" and c["status"] == "True" for c in service["status"]["conditions"])


def test_the_expander_answers_as_cluster_autoscaler_asks(installed: Lab) -> None:
    directory = write_secret(installed, "surgekit-expander-tls", installed.directory / "expander-tls")
    target = f"{address(installed, 'surgekit-expander')}:443"
    ask = [sys.executable, "-m", "tests.manifests.ask_expander", target, str(directory / "ca.crt")]
    done = subprocess.run(
        [*entering(installed.directory), *ask],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(), "in shadow, every option is left to the next expander"


def test_the_node_planner_writes_its_plan(installed: Lab) -> None:
    plan = "/apis/surgekit.dev/v1alpha1/nodeplans/fcma"
    installed.wait_for(lambda: installed.kube.get(plan)["status"]["phase"] == "Idle", "its NodePlan")


def test_figures(installed: Lab) -> None:
    """A minute after the last use; `pytest -s` shows what docs/results/lab.md has."""
    time.sleep(60)
    lines = [f"image {image}: {images.build(image).stat().st_size / 1e6:.0f} MB" for image in IMAGES]
    for pod in parts_pods(installed):
        used = memory_mib(pod)
        assert used.keys() == {container["name"] for container in pod["spec"]["containers"]}
        name = pod["metadata"]["labels"]["app.kubernetes.io/name"]
        lines += [f"{name}/{c}: Ready after {start_s(pod):.0f} s, {mib:.0f} MiB" for c, mib in used.items()]
    sys.stdout.write("\n".join(["", *lines, ""]))


def test_an_upgrade_rolls_every_part_and_loses_no_request(installed: Lab) -> None:
    earlier = {pod["metadata"]["name"] for pod in parts_pods(installed)}
    with requests(installed) as failed:
        for part in PARTS:
            installed.apply(overlay(installed, part, version="2"))
        wait_for_rollouts(installed, 420)
    assert not failed
    pods = parts_pods(installed)
    assert not earlier & {pod["metadata"]["name"] for pod in pods}
    assert {pod["metadata"]["annotations"]["example.com/version"] for pod in pods} == {"2"}


def test_after_the_removal_the_cluster_is_as_before(installed: Lab, shop: str, before: set[str]) -> None:
    """As manifests/README.md says: APIServices first, everything else after."""
    path = f"/apis/surgekit.dev/v1alpha1/namespaces/{shop}/combofuncs/thumbnails"
    installed.kube.delete(path, propagationPolicy="Background")
    delete_pods(installed.kube, shop)
    installed.kubectl("delete", "namespace", shop, "--timeout=110s")
    installed.stop_scheduler()
    installed.start_scheduler()
    installed.kubectl("delete", "-k", MANIFESTS / "adapter" / "apiservices")
    installed.kubectl("delete", "-k", MANIFESTS / "base" / "opt-in")
    for part in reversed(PARTS):
        installed.kubectl("delete", "-k", overlay(installed, part), "--ignore-not-found", "--timeout=110s")
    installed.wait_for(lambda: all_objects(installed) == before, "the cluster is as before")
