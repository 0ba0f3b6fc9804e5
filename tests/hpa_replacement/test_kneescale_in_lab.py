"""The controller under its own account: real API server, real Prometheus, live traffic at factor 4."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwok import parts, prometheus
from kwok.binaries import CORE, PROMETHEUS, Binaries
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.network.namespaces import why_no_namespace
from kwok.ports import answers_ready
from kwok.traffic import haproxy
from kwok.traffic.functions import CLUSTER, FUNCTIONS
from kwok.traffic.live import Traffic, add_function_nodes, start_traffic
from surgekit.kube.client import ApiError
from tests.hpa_replacement.adapter import in_lab as adapter

pytestmark = pytest.mark.lab

FUNCTION = FUNCTIONS["float-operation"]
CAPACITY = CLUSTER.capacity(FUNCTION.cpu_cores)
ENFORCED, SHADOWED, WITH_HPA, BY_HPA = "enforced", "shadowed", "with-hpa", "by-hpa"
EXAMPLE_HPA = parts.MANIFESTS / "adapter" / "examples" / "hpa.yaml"
CLIENTS, REPLICAS = 20, 3  # of those that must not change
INTERVAL = "5s"
TOLERANCE = 0.1  # relative changes up to this are not made (decision/load_following.py)


@pytest.fixture(scope="module")
def _able(built: Callable[..., Binaries]) -> None:
    if reason := why_no_namespace():
        pytest.skip(reason)
    try:
        haproxy.find_haproxy()
    except LabError as error:
        pytest.skip(str(error))
    built(*CORE, PROMETHEUS)


class Running:
    """The lab with everything in it."""

    def __init__(self, lab: Lab, traffic: Traffic) -> None:
        self.lab, self.traffic, self.kube = lab, traffic, lab.kube
        process = prometheus.start(lab, {"gateway": [f"127.0.0.1:{traffic.gateway_metrics_port}"]})
        assert process.port
        self.prometheus_port = process.port
        cmdline = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        self._prometheus_argv = [word.decode() for word in cmdline.split(b"\0") if word]
        self.start_controller()

    def start_controller(self) -> None:
        url = f"http://127.0.0.1:{self.prometheus_port}"
        settings = {"prometheus_url": url, "prometheus_timeout_s": 1.0, "scrape_interval_s": 1.0}
        parts.start_kneescale(self.lab, settings)

    def start_prometheus_again(self) -> None:
        port = self.prometheus_port
        self.lab.start(
            prometheus.PROMETHEUS,
            self._prometheus_argv,
            ready=lambda: answers_ready(port, "/-/ready"),
            port=port,
        )

    def create_policy(self, namespace: str, name: str, kind: str = "Deployment", **spec: Any) -> None:
        body = {
            "apiVersion": "surgekit.dev/v1alpha1",
            "kind": "KneePolicy",
            "metadata": {"name": name},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": FUNCTION.name},
                "mode": "enforce",
                "maxReplicas": CAPACITY,
                "samplingInterval": INTERVAL,
                "metrics": {"preset": "openfaas"},
            }
            | spec,
        }
        self.kube.create(f"/apis/surgekit.dev/v1alpha1/namespaces/{namespace}/kneepolicies", body)

    def create_example_hpa(self, namespace: str, policy: str) -> None:
        """The one that is shipped, with the names of here."""
        hpa = yaml.safe_load(EXAMPLE_HPA.read_text().replace("checkout", policy))
        hpa["spec"]["scaleTargetRef"]["name"] = FUNCTION.name
        hpa["spec"]["maxReplicas"] = CAPACITY
        self.kube.create(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers", hpa)

    def status(self, namespace: str, name: str = "float") -> dict[str, Any]:
        path = f"/apis/surgekit.dev/v1alpha1/namespaces/{namespace}/kneepolicies/{name}"
        found: dict[str, Any] = self.kube.get(path).get("status") or {}
        return found

    def condition(self, namespace: str, name: str = "float") -> tuple[str, str, str]:
        for condition in self.status(namespace, name).get("conditions") or ():
            return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    def replicas(self, namespace: str) -> int:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{FUNCTION.name}/scale"
        return int(self.kube.get(path)["spec"].get("replicas", 0))

    def follows_knee(self, namespace: str) -> bool:
        """Whether the status names a knee, and the target has that many replicas.

        How near it is to the true knee is for `surgekit bench kneescale` to measure: a few short samples at
        factor 4 on busy cores find it roughly.
        """
        _, reason, message = self.condition(namespace)
        named, replicas = re.search(r"knee at (\d+)", message), self.replicas(namespace)
        return (
            reason == "AtKnee"
            and named is not None
            and abs(int(named[1]) - replicas) <= TOLERANCE * replicas
            and replicas == self.status(namespace)["targetReplicas"]
        )

    def points(self) -> list[list[float]]:
        """Of the search under way."""
        found: list[list[float]] = (self.status(ENFORCED).get("search") or {}).get("points") or []
        return found


@pytest.fixture(scope="module")
def running(binaries: Binaries, _able: None) -> Iterator[Running]:
    with Lab.temporary("knee", instant_pods=True, time_factor=4) as lab:
        parts.install(lab)
        parts.install_kneescale(lab)
        selectors = {
            namespace: add_function_nodes(lab, f"nodes-of-{namespace}")
            for namespace in (ENFORCED, SHADOWED, WITH_HPA, BY_HPA)
        }
        lab.start_scheduler()
        traffic = start_traffic(lab, {FUNCTION.name: FUNCTION}, namespaces=list(selectors))
        for namespace, selector in selectors.items():
            count = 1 if namespace in (ENFORCED, BY_HPA) else REPLICAS
            traffic.clients(traffic.deploy(FUNCTION.name, namespace, count, selector), CLIENTS)
        running = Running(lab, traffic)
        lab.wait_for(lambda: _served(lab), "the CRD")
        lab.kube.create(
            f"/apis/autoscaling/v2/namespaces/{WITH_HPA}/horizontalpodautoscalers",
            {
                "metadata": {"name": "by-cpu"},
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": FUNCTION.name},
                    "minReplicas": 1,
                    "maxReplicas": 10,
                },
            },
        )
        running.create_policy(WITH_HPA, "float")
        running.create_policy(SHADOWED, "float", mode="shadow")
        targets = f"/api/v1/namespaces/{parts.NAMESPACE}/configmaps/surgekit-kneescale-targets"
        lab.kube.patch(targets, {"data": {"DaemonSet.apps": "daemonsets"}})
        lab.wait_for(lambda: _taken(running, SHADOWED, "no-scale", "DaemonSet"), "the kind is listed")
        adapter.install_beside_kneescale(lab)
        port = lab.free_port()
        adapter.start(lab, port)
        adapter.register_both(lab, port)
        running.create_policy(BY_HPA, "float", via="metrics")
        running.create_example_hpa(BY_HPA, "float")
        running.create_policy(ENFORCED, "float")  # last: the first test meets it while it searches
        yield running


def _taken(running: Running, namespace: str, name: str, kind: str) -> bool:
    try:
        running.create_policy(namespace, name, kind)
    except ApiError:
        return False
    return True


def _served(lab: Lab) -> bool:
    try:
        lab.kube.get("/apis/surgekit.dev/v1alpha1/kneepolicies")
    except ApiError:
        return False
    return True


def test_a_controller_killed_in_a_search_goes_on_and_finds_the_knee(running: Running) -> None:
    lab = running.lab
    lab.wait_for(lambda: len(running.points()) >= 2, "a search with two points", 60)
    lab.kill("kneescale")
    before = running.points()
    running.start_controller()
    went_on: list[list[float]] = []

    def next_point() -> bool:
        went_on[:] = running.points()
        return went_on != before

    lab.wait_for(next_point, "the next point", 60)
    if went_on:  # else it was the last one
        assert went_on[: len(before)] == before
    lab.wait_for(lambda: running.condition(ENFORCED)[1] == "AtKnee", "the knee", 90)
    status = running.status(ENFORCED)
    assert status["observedGeneration"] == 1
    assert {knee["inferred"] for knee in status["knownKnees"]} == {True, False}
    found = [k["replicas"] for k in status["knownKnees"] if not k["inferred"]][-1]
    assert 1 < found < CAPACITY, status
    assert status["lastSample"]["capacity"] == CAPACITY
    assert status["lastDecision"]["inputsAgeSeconds"].keys() >= {"kneepolicies", "nodes", "pods"}
    lab.wait_for(lambda: running.follows_knee(ENFORCED), "the target follows its knee", 60)
    # Nominal 1 s of service: at factor 4 a replica serves 4 requests a second. On busy cores not in every
    # sample.
    lab.wait_for(
        lambda: running.status(ENFORCED)["lastSample"]["throughputPerSecond"] > 4 * REPLICAS, "throughput", 60
    )


def test_events_tell_what_was_changed_and_why(running: Running) -> None:
    def told() -> bool:
        events, _ = running.kube.list_all(f"/apis/events.k8s.io/v1/namespaces/{ENFORCED}/events")
        rescaled = (e for e in events if e["regarding"]["kind"] == "KneePolicy" and e["reason"] == "Rescaled")
        return any(" so far " in e["note"] for e in rescaled)  # the search's reason

    running.lab.wait_for(told, "an Event of the search", 60)


def test_shadow_decides_and_changes_nothing(running: Running) -> None:
    def searches() -> bool:
        _, reason, message = running.condition(SHADOWED)
        return reason == "Searching" and "not carried out: shadow" in message

    running.lab.wait_for(searches, "a search", 60)
    running.lab.wait_for(lambda: running.status(SHADOWED)["targetReplicas"] != REPLICAS, "a target", 60)
    assert running.replicas(SHADOWED) == REPLICAS


def test_traffic_to_knee_to_metric_to_the_stock_hpa(running: Running) -> None:
    """Nobody writes `scale` but the HPA; each sample of the search needs replicas it has brought about."""
    lab = running.lab
    lab.wait_for(lambda: running.condition(BY_HPA)[1] == "AtKnee", "the knee", 180)
    lab.wait_for(lambda: running.follows_knee(BY_HPA), "the HPA's replicas follow the knee", 60)
    path = f"/apis/autoscaling/v2/namespaces/{BY_HPA}/horizontalpodautoscalers/float"
    assert running.kube.get(path)["status"]["currentMetrics"][0]["external"]["metric"]["name"] == (
        "knee-replicas"
    )


def test_a_target_that_an_hpa_scales_is_refused(running: Running) -> None:
    refused = ("False", "AnotherAutoscaler")
    running.lab.wait_for(lambda: running.condition(WITH_HPA)[:2] == refused, "a refusal", 60)
    message = running.condition(WITH_HPA)[2]
    assert message.startswith(f"HorizontalPodAutoscaler by-cpu scales Deployment {FUNCTION.name}")
    assert running.replicas(WITH_HPA) == REPLICAS


def test_a_target_without_scale_is_said(running: Running) -> None:
    refused = ("False", "TargetNotScalable")
    running.lab.wait_for(lambda: running.condition(SHADOWED, "no-scale")[:2] == refused, "a refusal", 60)
    message = running.condition(SHADOWED, "no-scale")[2]
    assert message == "scaleTargetRef.kind: DaemonSet has no scale subresource"


def test_without_prometheus_replicas_stay(running: Running) -> None:
    lab, before = running.lab, running.replicas(ENFORCED)
    lab.kill(prometheus.PROMETHEUS)

    def silent() -> bool:
        status, reason, message = running.condition(ENFORCED)
        return (status, reason) == ("False", "NoData") and "does not answer" in message

    lab.wait_for(silent, "NoData, because Prometheus does not answer", 60)
    decided = running.status(ENFORCED)["decidedAt"]
    lab.wait_for(lambda: running.status(ENFORCED)["decidedAt"] > decided, "decidedAt is renewed", 30)
    assert running.replicas(ENFORCED) == before
    known = running.status(ENFORCED)["knownKnees"]
    assert known
    running.start_prometheus_again()
    lab.wait_for(lambda: running.condition(ENFORCED)[0] == "True", "a decision", 60)
    assert running.status(ENFORCED)["knownKnees"] == known
    # A window of 5 s in which requests end that waited while the machine stood still shows up to twice the
    # load, which is then provided for until it is forgotten.
    lab.wait_for(lambda: running.follows_knee(ENFORCED), "the target follows its knee", 120)
