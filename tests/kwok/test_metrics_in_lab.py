"""The real metrics-server, HPA and Prometheus in one lab, with usage from a source that the tests set."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from kwok import metrics_server, prometheus
from kwok.binaries import CORE, METRICS_SERVER, PROMETHEUS, Binaries
from kwok.errors import LabError
from kwok.hpa_loops import default_behavior
from kwok.lab import Lab
from kwok.nodes import kubelet_addresses
from kwok.pods import pod, wait_for_account
from kwok.traffic.kubelet_metrics import KubeletMetrics, PodUsage, listen, server_context

pytestmark = pytest.mark.lab
PODS = "/api/v1/namespaces/default/pods"
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
STEADY_CORES, MEMORY_BYTES = 0.1235, 96 << 20  # half millicores: kubectl rounds up, a microcore must not show


class Usage:
    """`steady` uses STEADY_CORES; the pods of the Deployment share `cores` evenly among them."""

    def __init__(self, lab: Lab) -> None:
        self._lab, self._lock = lab, threading.Lock()
        self._cores, self._at_s = 0.06, time.time()
        self._started_s: dict[str, float] = {}
        self._node: dict[str, str] = {}
        self._used_s: dict[str, float] = {}

    def set_cores(self, cores: float) -> None:
        with self._lock:
            self._advance()
            self._cores = cores

    def follow_pods(self) -> None:
        """Pods come and go; whoever runs has a share from now on."""
        found, _ = self._lab.kube.list_all(PODS)
        running = {p["metadata"]["name"]: p for p in found if p["status"].get("phase") == "Running"}
        with self._lock:
            self._advance()
            for name in self._used_s.keys() - running.keys():
                del self._used_s[name]
            for name in running.keys() - self._used_s.keys():
                self._used_s[name], self._started_s[name] = 0.0, self._at_s
                self._node[name] = running[name]["spec"]["nodeName"]

    def usage(self, node: str) -> Sequence[PodUsage]:
        with self._lock:
            self._advance()
            return [
                PodUsage("default", name, "app", used_s, MEMORY_BYTES, self._started_s[name])
                for name, used_s in self._used_s.items()
                if self._node[name] == node
            ]

    def _advance(self) -> None:
        now_s = time.time()
        passed_s, self._at_s = now_s - self._at_s, now_s
        sharing = sum(name != "steady" for name in self._used_s)
        for name in self._used_s:
            self._used_s[name] += passed_s * (STEADY_CORES if name == "steady" else self._cores / sharing)


@pytest.fixture(scope="module")
def cluster(built: Callable[..., Binaries]) -> Iterator[Lab]:
    built(*CORE, METRICS_SERVER, PROMETHEUS)
    with Lab.temporary("metrics", instant_pods=True, time_factor=4) as lab:
        yield lab


@pytest.fixture(scope="module")
def usage(cluster: Lab) -> Iterator[Usage]:
    """Two nodes, a pod on one and a Deployment on the other, and metrics-server that sees what they use."""
    port = cluster.free_port()
    cluster.add_nodes(2, kubelet_port=port)
    source = Usage(cluster)
    wait_for_account(cluster.kube, "default")
    cluster.kube.create(PODS, pod("steady", "1m", "1Mi", nodeName="node-1"))
    cluster.kube.create(DEPLOYMENTS, deployment())
    context = server_context(metrics_server.kubelet_certificates(cluster))
    metrics = KubeletMetrics(source, kubelet_addresses(cluster.kube), context)
    over = threading.Event()

    async def serve() -> None:
        async with metrics.serving(listen(port)):
            while not over.is_set():
                await asyncio.to_thread(source.follow_pods)
                await asyncio.sleep(0.2)

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    try:
        metrics_server.start(cluster)
        yield source
    finally:
        over.set()
        thread.join()


def deployment() -> dict[str, Any]:
    template = pod("web-0", "200m", "64Mi", nodeName="node-0")  # no scheduler runs here, and none is needed
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]},
        },
    }


def replicas(lab: Lab) -> int:
    return int(lab.kube.get(f"{DEPLOYMENTS}/web")["spec"]["replicas"])


def query(port: int | None, expression: str) -> dict[str, float]:
    """An instant query: the value for each job."""
    address = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    with urllib.request.urlopen(address) as answer:
        result = json.load(answer)["data"]["result"]
    return {series["metric"]["job"]: float(series["value"][1]) for series in result}


def test_prometheus_scrapes_its_targets_and_those_added_later(cluster: Lab) -> None:
    ports = cluster.free_port(), cluster.free_port()
    servers = []
    for port, value in zip(ports, (42.0, 43.0), strict=True):
        registry = CollectorRegistry()
        Gauge("lab_answer", "A number to be found again", registry=registry).set(value)
        servers.append(start_http_server(port, "127.0.0.1", registry))
    try:
        first, second = ({job: [f"127.0.0.1:{port}"]} for job, port in zip("ab", ports, strict=True))
        process = prometheus.start(cluster, first)
        cluster.wait_for(lambda: query(process.port, "lab_answer") == {"a": 42.0}, "the first target")
        prometheus.set_targets(cluster, first | second)
        cluster.wait_for(lambda: query(process.port, "lab_answer") == {"a": 42.0, "b": 43.0}, "the second")
        assert query(process.port, "up") == {"a": 1.0, "b": 1.0}
    finally:
        cluster.stop(prometheus.PROMETHEUS)
        for server, thread in servers:
            server.shutdown()
            server.server_close()
            thread.join()


def test_kubectl_top_says_what_the_source_does(cluster: Lab, usage: Usage) -> None:
    def top(*what: str) -> dict[str, list[str]]:
        try:
            lines = cluster.kubectl("top", *what, "--no-headers").splitlines()
        except LabError:  # metrics not available yet
            return {}
        return {line.split()[0]: line.split()[1:] for line in lines}

    # Exact to half a millicore, which a scrape may miss that busy cores delayed.
    cluster.wait_for(lambda: top("pods").get("steady") == ["124m", "96Mi"], "figures of pods", 60)
    cluster.wait_for(lambda: top("nodes").get("node-1", [""])[0] == "124m", "the node's, by its address", 60)


def test_the_hpa_goes_where_its_formula_says_and_back(cluster: Lab, usage: Usage) -> None:
    behavior = default_behavior(cluster.time_factor)
    # 5 minutes of nominal time by default, 75 s here. Not needed: at 4 replicas the figures of before, when
    # there were 5, still say 4.
    behavior["scaleDown"]["stabilizationWindowSeconds"] = 0
    target = {"type": "Utilization", "averageUtilization": 60}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        "behavior": behavior,
    }
    cluster.kube.create(HPAS, {"metadata": {"name": "web"}, "spec": spec})

    def settled(count: int) -> Callable[[], bool]:
        """There, and measured there: the HPA's own view of usage is within its tolerance of the target."""

        def look() -> bool:
            status = cluster.kube.get(f"{HPAS}/web").get("status", {})
            # While figures are missing the HPA shows an entry without `resource`.
            current = [
                m["resource"]["current"] for m in status.get("currentMetrics") or [] if "resource" in m
            ]
            near = [c for c in current if 54 <= c.get("averageUtilization", 0) <= 66]
            return bool(near) and replicas(cluster) == status["currentReplicas"] == count

        return look

    usage.set_cores(0.57)  # ceil(0.57 / (0.6 * 0.2)) = 5
    cluster.wait_for(settled(5), "5 replicas", 90)
    usage.set_cores(0.46)  # ceil(0.46 / (0.6 * 0.2)) = 4
    cluster.wait_for(settled(4), "4 replicas", 90)
