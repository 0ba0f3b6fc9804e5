"""KneeScale beside an unmodified Knative Serving, with live requests: its own class, and the HPA class."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kwok import knative
from kwok.binaries import CORE, Binaries
from kwok.errors import LabError
from kwok.knative import Serving
from kwok.lab import Lab
from kwok.parts import MANIFESTS, apply_manifests, install_kneescale, start_kneescale
from surgekit.kube.client import ApiError
from tests.hpa_replacement.adapter import in_lab
from tests.hpa_replacement.knative.builders import GROUP, condition

pytestmark = [pytest.mark.lab, pytest.mark.long]
Json = dict[str, Any]
PODS_S = 240.0  # machines with labs are busy
AUTOSCALER = {"stable-window": "6s", "scale-to-zero-grace-period": "6s"}
SHORT = {"SERVICE_TIME_MS": "50"}
KNEE = {f"{GROUP}/class": "knee.surgekit.dev", f"{GROUP}/max-scale": "8"}
BY_HPA = {
    f"{GROUP}/class": "hpa.autoscaling.knative.dev",
    f"{GROUP}/metric": "knee-replicas",
    f"{GROUP}/target": "1",
    f"{GROUP}/window": "6s",
    f"{GROUP}/max-scale": "8",
}


@pytest.fixture(scope="module")
def serving(built: Callable[..., Binaries]) -> Iterator[Serving]:
    if reason := knative.why_no_knative():
        pytest.skip(reason)
    built(*CORE, *knative.BINARIES[:-1])
    with Lab.temporary("kneelive", own_network=True, instant_pods=True, time_factor=4.0) as lab:
        lab.add_nodes(3)
        lab.start_scheduler()
        started = knative.start(lab, None, {"config-autoscaler": AUTOSCALER})
        install_kneescale(lab)
        apply_manifests(lab, MANIFESTS / "kneescale" / "knative", MANIFESTS / "adapter" / "knative")
        start_kneescale(
            lab, {"knative": True, "prometheus_url": started.prometheus_url, "scrape_interval_s": 1.0}
        )
        in_lab.install_beside_kneescale(lab)
        port = lab.free_port()
        in_lab.start(lab, port, knative=True)
        in_lab.register_both(lab, port)
        yield started


class Revision:
    """The first revision of a Knative Service."""

    def __init__(self, serving: Serving, service: str) -> None:
        self._lab, self._name = serving.lab, f"{service}-00001"

    def get(self, api: str, kind: str, suffix: str = "") -> Json:
        """Empty when there is none."""
        try:
            return self._lab.kube.get(f"/apis/{api}/namespaces/default/{kind}/{self._name}{suffix}")
        except ApiError as error:
            if error.code != 404:
                raise
            return {}

    @property
    def policy(self) -> Json:
        return self.get("surgekit.dev/v1alpha1", "kneepolicies")

    @property
    def replicas(self) -> int:
        found: int = self.get("apps/v1", "deployments", "-deployment")["spec"]["replicas"]
        return found

    @property
    def mode(self) -> str:
        sks = self.get("networking.internal.knative.dev/v1alpha1", "serverlessservices")
        return str(sks["spec"]["mode"])

    def condition(self, kind: str) -> Json:
        return condition(self.get("autoscaling.internal.knative.dev/v1alpha1", "podautoscalers"), kind)

    def until(self, found: Callable[[], object], what: str) -> None:
        try:
            self._lab.wait_for(lambda: bool(found()), what, PODS_S)
        except LabError as error:
            raise AssertionError(f"{self.policy.get('status')}, {self.condition('Active')}") from error

    def decide_often(self) -> None:
        self.until(lambda: self.policy, "its KneePolicy")
        path = f"/apis/surgekit.dev/v1alpha1/namespaces/default/kneepolicies/{self._name}"
        self._lab.kube.patch(path, {"spec": {"samplingInterval": "5s"}})


def ask(serving: Serving, host: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", serving.ingress_port, timeout=PODS_S)
    try:
        connection.request("GET", "/", headers={"Host": host})
        return connection.getresponse().status
    finally:
        connection.close()


def test_our_class_follows_the_load_to_zero_and_back(serving: Serving) -> None:
    # A queue-proxy lets ten times the concurrency wait and refuses the rest: two, so that one pod takes all.
    host = serving.deploy("knee", concurrency=2, env=SHORT, annotations=KNEE)
    revision, traffic = Revision(serving, "knee"), serving.traffic
    revision.decide_often()
    revision.until(lambda: revision.mode == "Serve", "Serve with a Ready pod")

    revision.until(lambda: revision.replicas == 0, "zero: it has never been asked for")
    revision.until(lambda: not serving.pods(), "the end of its pods, which still answer")
    assert revision.mode == "Proxy"
    assert revision.condition("Active")["reason"] == "NoTraffic"
    serving.wait_until_ready("knee")  # the Service is Ready all the same

    assert ask(serving, host) == 200
    revision.until(lambda: revision.condition("Active")["status"] == "True", "Active again")

    traffic.clients(host, 12)
    revision.until(lambda: revision.replicas >= 3, "replicas for 12 clients")
    revision.until(lambda: revision.policy["status"].get("knownKnees"), "a knee")
    traffic.clients(host, 0)
    revision.until(lambda: revision.replicas == 0, "zero after the load")
    seen = traffic.sample()[host]
    assert seen.errors == {}
    assert ask(serving, host) == 200


def test_knatives_hpa_class_lands_on_our_target(serving: Serving) -> None:
    host = serving.deploy("byhpa", concurrency=1, env=SHORT, annotations=BY_HPA)
    revision = Revision(serving, "byhpa")
    revision.decide_often()
    serving.traffic.clients(host, 12)

    def landed() -> bool:
        target = revision.policy.get("status", {}).get("targetReplicas") or 0
        return target >= 2 and revision.replicas == target

    revision.until(landed, "the HPA to have the replicas that KneeScale wants")
    hpa = revision.get("autoscaling/v2", "horizontalpodautoscalers")
    (metric,) = hpa["spec"]["metrics"]
    assert (metric["type"], metric["pods"]["metric"]["name"]) == ("Pods", "knee-replicas")
    assert condition(hpa, "ScalingActive")["status"] == "True"
    assert revision.policy["spec"]["via"] == "metrics"
    serving.traffic.clients(host, 0)
