"""Beside stock Knative: its own controllers, autoscaler, activator and queue-proxy code. Our processes are in
front of its ingress, with real containers as emergency instances."""

from __future__ import annotations

import http.client
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from kwok import knative
from kwok.binaries import Binaries
from kwok.burst import plane
from kwok.burst.images import PYTHON
from kwok.burst.plane import Plane
from kwok.knative import Serving
from kwok.lab import Lab
from kwok.parts import HAPROXY
from kwok.pods import wait_for_account

pytestmark = [pytest.mark.lab, pytest.mark.real_node, pytest.mark.long]

Json = dict[str, Any]
NAME, HOST = "hello", "hello.default.example.com"
SERVICE = "/apis/serving.knative.dev/v1/namespaces/default/services/hello"
BURST = "/apis/surgekit.dev/v1alpha1/namespaces/default/burstfunctions"
EMERGENCY = '"slept"'  # what a real container answers
QUICK = {"config-autoscaler": {"stable-window": "10s", "scale-to-zero-grace-period": "6s"}}


def service() -> Json:
    """One request at once in a pod, and as many pods as requests: full pods by themselves ask for no more."""
    annotations = {
        "autoscaling.knative.dev/target-utilization-percentage": "100",
        "autoscaling.knative.dev/max-scale": "6",
        "autoscaling.knative.dev/scale-to-zero-pod-retention-period": "0s",
    }
    container = {
        "image": PYTHON,
        "securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": False},
        "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
    }
    spec = {"containerConcurrency": 1, "automountServiceAccountToken": False, "containers": [container]}
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}},
    }


def burst_function() -> Json:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "BurstFunction",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {
            "targetRef": {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": NAME},
            "mode": "enforce",
        },
    }


@dataclass
class Before:
    """Our plane in front of Knative."""

    lab: Lab
    serving: Serving
    plane: Plane

    def until(self, condition: Callable[[], object], what: str) -> None:
        self.lab.wait_for(lambda: bool(condition()), what, 180)

    def ask(
        self, count: int = 1, path: str = "/sleep/1", port: int = 0, host: str = HOST
    ) -> list[tuple[int, str]]:
        """So many requests at once, through our load balancer, or straight to the ingress's port."""

        def one(_: int) -> tuple[int, str]:
            connection = http.client.HTTPConnection(
                "127.0.0.1", port or self.plane.traffic.gateway_port, timeout=120
            )
            try:
                connection.request("GET", path, headers={"Host": host})
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            finally:
                connection.close()

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))

    def status(self) -> Json:
        found: Json = self.lab.kube.get(f"{BURST}/{NAME}").get("status") or {}
        return found

    def tune(self, **spec: Any) -> None:
        self.lab.kube.patch(f"{BURST}/{NAME}", {"spec": spec})

    def pods(self) -> int:
        return sum(not pod.ending for pod in self.serving.pods())

    def at_zero(self) -> bool:
        return not self.pods()


@pytest.fixture(scope="module")
def before(binaries: Binaries) -> Iterator[Before]:
    if reason := plane.why_no_plane() or knative.why_no_knative():
        pytest.skip(reason)
    with Lab.temporary("kb", own_network=True, instant_pods=True) as lab:
        lab.add_nodes(2, cpu="64", memory="64Gi")
        lab.start_scheduler()
        serving = knative.start(lab, config=QUICK)
        wait_for_account(lab.kube, "default")
        started = plane.start_before_knative(
            lab, knative.AUTOSCALER, f"127.0.0.1:{serving.ingress_port}", controller={"status_every_s": 1.0}
        )
        binding = {
            "metadata": {"name": "burst"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "surgekit-burst-templates",
            },
            "subjects": [
                {
                    "kind": "ServiceAccount", "name": "surgekit-burst-controller",
                    "namespace": "surgekit-system",
                }
            ],
        }  # fmt: skip
        lab.kube.create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
        lab.kube.create("/apis/serving.knative.dev/v1/namespaces/default/services", service())
        lab.kube.create(BURST, burst_function())
        serving.wait_until_ready(NAME)
        yield Before(lab, serving, started)


def overflows(before: Before) -> bool:
    said = {c["type"]: c["reason"] for c in before.status().get("conditions") or ()}
    return said.get("Overflow") == "Enforcing" and said.get("Ready") == "Prepared"


def test_excess_goes_to_instances_and_knative_raises_its_pods_for_it(before: Before) -> None:
    before.until(lambda: overflows(before), "the emergency track to be ready")
    before.until(
        lambda: EMERGENCY in [body for _, body in before.ask(3, "/sleep/0.2")], "an instance's answer"
    )
    assert before.status()["regular"]["revision"] == "hello-00001"
    before.until(lambda: before.pods() == 1, "one pod")
    answers: Counter[bool] = Counter()

    def overload() -> int:
        for code, body in before.ask(5):
            assert code == 200, body
            answers[body == EMERGENCY] += 1
        return before.pods()

    # Pods that are full for less than all the time ask for no more pods by themselves.
    before.tune(scaling={"via": "none"})
    before.until(
        lambda: "told nothing" in before.status()["regular"]["reason"], "the autoscaler to be left alone"
    )
    assert [overload() for _ in range(12)] == [1] * 12
    before.tune(scaling={"via": "knative"})
    before.until(lambda: overload() >= 4, "Knative's autoscaler to raise the pods")
    assert answers[True], "no emergency instance answered"
    assert answers[False], "no regular pod answered"


def test_from_zero_a_request_that_waits_wakes_the_revision(before: Before) -> None:
    """In shadow no instance is started, so that what waits is all there is."""
    before.until(before.at_zero, "Knative to scale to zero")
    before.tune(mode="shadow")
    before.until(lambda: before.status().get("mode") == "shadow", "shadow")
    ((code, body),) = before.ask()
    assert (code, body != EMERGENCY) == (200, True)
    assert before.pods()


def test_off_gives_requests_back_to_knative(before: Before) -> None:
    before.tune(mode="off")
    before.until(lambda: "revision" not in before.status()["regular"], "the requests to be given back")
    before.until(before.at_zero, "Knative to scale to zero")
    assert before.ask()[0][0] == 200, "through our load balancer, Knative's ingress and its activator"


def test_a_request_that_waits_for_a_controller_that_is_gone_is_given_to_knative(before: Before) -> None:
    before.tune(mode="shadow")
    before.until(lambda: "revision" in before.status()["regular"], "the balancer to have it again")
    before.until(before.at_zero, "Knative to scale to zero")
    before.lab.kill("burst-controller")
    assert before.ask()[0][0] == 200


def test_without_our_processes_knative_serves_as_stock(before: Before) -> None:
    for name in ("burst-placement", plane.BALANCER, HAPROXY):
        before.lab.stop(name)
    before.until(before.at_zero, "Knative to scale to zero")
    answers = before.ask(3, port=before.serving.ingress_port)
    assert [code for code, _ in answers] == [200] * 3
