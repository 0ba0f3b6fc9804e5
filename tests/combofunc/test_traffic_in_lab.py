"""Everything together: requests through the load balancer to the pods of ComboFuncs, Prometheus that scrapes
the balancer, and who owns the target: our collector, or a KneePolicy. Each part under its own account."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from combofunc.labels import SERVING_LABEL, SIZE_LABEL
from function_gateway.endpoints import COMBOFUNC
from kwok import parts, prometheus
from kwok.binaries import CORE, PROMETHEUS, Binaries
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.network.namespaces import why_no_namespace
from kwok.traffic.balanced import pods, start_balanced_traffic
from kwok.traffic.function import Function
from kwok.traffic.function_process import FUNCTION, POD_PORT
from kwok.traffic.haproxy import find_haproxy
from kwok.traffic.live import Seen, Traffic
from tests.combofunc import lab_with_controller
from tests.combofunc.lab_with_controller import GROUP, Json, Running

pytestmark = [pytest.mark.lab, pytest.mark.long]

MODEL = Function("web", 0.0, 0.2, 1, 0.2, cpu_cores=1.0, memory_bytes=1 << 20, demand_cv=0.2)
SIZES = [
    {"name": "small", "cpu": "250m", "memory": "128Mi", "concurrency": 4},
    {"name": "large", "cpu": "1", "memory": "384Mi", "concurrency": 20},
]
FINE = [
    {"name": "small", "cpu": "250m", "memory": "128Mi", "concurrency": 1},
    {"name": "large", "cpu": "1", "memory": "320Mi", "concurrency": 4},
]
# Few short samples of ten clients on a busy machine.
NEAR_THE_KNEE = range(7, 18)
SCRAPE_S = 0.5


def metrics(traffic: Traffic) -> str:
    """The load balancer's."""
    connection = http.client.HTTPConnection("127.0.0.1", traffic.gateway_metrics_port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@dataclass(frozen=True)
class Served:
    """A ComboFunc behind the load balancer."""

    running: Running
    traffic: Traffic
    namespace: str

    @classmethod
    def create(cls, running: Running, traffic: Traffic, **spec: object) -> Served:
        """As the shipped examples have it: the Service's own label, and pods that are not drained."""
        namespace = running.namespace()
        service = {
            "metadata": {"name": "web", "labels": {COMBOFUNC: "web"}},
            "spec": {
                "selector": {COMBOFUNC: "web", SERVING_LABEL: "true"},
                "ports": [{"name": "http", "port": 80, "targetPort": POD_PORT}],
            },
        }
        running.kube.create(f"/api/v1/namespaces/{namespace}/services", service)
        series = f'surgekit_function_pods{{function="web",namespace="{namespace}"}}'
        running.lab.wait_for(lambda: series in metrics(traffic), "the balancer knows it", 60)
        containers = [{"name": "function", "image": "registry.example/web:1"}]
        template = {"metadata": {"labels": {FUNCTION: "web"}}, "spec": {"containers": containers}}
        body = {"template": template, "sizes": SIZES, "drain": "3s", "keepWarm": "0s"} | spec
        running.create(namespace, "ComboFunc", "web", body)
        return cls(running, traffic, namespace)

    @property
    def status(self) -> Json:
        return self.running.status(self.namespace, "web")

    @property
    def seen(self) -> Seen:
        return self.traffic.sample()[f"web.{self.namespace}"]

    def clients(self, count: int) -> None:
        self.traffic.clients(f"web.{self.namespace}", count)

    def pods(self) -> dict[str, Json]:
        """By uid."""
        return {pod["metadata"]["uid"]: pod for pod in self.running.pods(self.namespace)}

    def wait_ready(self, least: int, most: int) -> None:
        """Until so much is wanted, and as much is ready."""

        def there() -> bool:
            status = self.status
            target, ready = status.get("targetConcurrency", 0), status.get("readyConcurrency", 0)
            return bool(least <= target <= ready <= most)

        try:
            self.running.lab.wait_for(there, f"{least} to {most} ready", 60)
        except LabError as error:
            raise AssertionError(f"{error}: {self.status}") from error


@pytest.fixture(scope="module")
def world(built: Callable[..., Binaries]) -> Iterator[tuple[Running, Traffic]]:
    if reason := why_no_namespace():
        pytest.skip(reason)
    try:
        find_haproxy()
    except LabError as error:
        pytest.skip(str(error))
    built(*CORE, PROMETHEUS)
    found: list[Traffic] = []

    def before(lab: Lab) -> Json:
        # Nobody is refused while the first pods come, however busy the machine is.
        traffic = start_balanced_traffic(lab, {"web": MODEL}, {"gateway_timeout_s": 60.0})
        found.append(traffic)
        scraped = {"balancer": [f"127.0.0.1:{traffic.gateway_metrics_port}"]}
        port = prometheus.start(lab, scraped, SCRAPE_S).port
        settings = {"prometheus_url": f"http://127.0.0.1:{port}", "scrape_interval_s": SCRAPE_S}
        parts.install_kneescale(lab)
        parts.start_kneescale(lab, settings)
        return settings | {"collect_every_s": SCRAPE_S}

    with lab_with_controller.running("traffic", before) as running:
        yield running, found[0]


def test_requests_in_flight_become_containers_and_none_fails(world: tuple[Running, Traffic]) -> None:
    """No pod, then one, then more of them and larger; and back. Closed loops: what is in flight is known."""
    collector = {"window": "4s", "headroom": 1.2}
    served = Served.create(*world, targetFrom="Collector", collector=collector, keepWarm="2s")
    lab = served.running.lab
    lab.wait_for(lambda: served.status.get("targetConcurrency") == 0, "a measured 0", 60)
    assert served.pods() == {}

    served.clients(3)
    served.wait_ready(3, 4)
    (first,) = served.pods().values()
    assert first["metadata"]["labels"][SIZE_LABEL] == "small"

    served.clients(40)
    served.wait_ready(40, 80)
    grown = served.pods()
    assert grown[first["metadata"]["uid"]]["metadata"]["labels"][SIZE_LABEL] == "large"
    assert len(grown) > 1

    def all_answer() -> bool:
        found = pods(served.traffic)
        names = [pod["metadata"]["name"] for pod in served.pods().values()]
        return all(name in found and found[name]["answered"] > 0 for name in names)

    lab.wait_for(all_answer, "answers of every pod", 60)
    assert all(pod["most_at_once"] <= 20 for pod in pods(served.traffic).values())

    served.clients(3)
    served.wait_ready(3, 20)
    served.clients(0)
    lab.wait_for(lambda: served.status["targetConcurrency"] == 0 and not served.pods(), "no pods", 60)
    assert served.seen.errors == {}
    assert served.seen.in_flight == 0


def test_a_knee_policy_scales_a_combofunc(world: tuple[Running, Traffic]) -> None:
    """With a queue at the balancer the score of ten clients grows up to ten places and no further."""
    served = Served.create(*world, targetConcurrency=1, sizes=FINE)
    served.clients(10)
    reference = {"apiVersion": "surgekit.dev/v1alpha1", "kind": "ComboFunc", "name": "web"}
    policy = {
        "scaleTargetRef": reference, "mode": "enforce", "maxReplicas": 40, "samplingInterval": "4s",
        "metrics": {"preset": "surgekit"},
    }  # fmt: skip
    body = {"apiVersion": reference["apiVersion"], "kind": "KneePolicy", "metadata": {"name": "web"}}
    served.running.kube.create(f"{GROUP}/namespaces/{served.namespace}/kneepolicies", body | {"spec": policy})

    def at_knee() -> bool:
        return (
            served.running.condition(served.namespace, "web", "Deciding", "kneepolicies").get("reason")
            == "AtKnee"
        )

    served.running.lab.wait_for(at_knee, "the knee", 90)
    found = served.running.status(served.namespace, "web", "kneepolicies")
    measured = [knee["replicas"] for knee in found["knownKnees"] if not knee["inferred"]]
    assert measured[-1] in NEAR_THE_KNEE, found
    served.wait_ready(min(NEAR_THE_KNEE), max(NEAR_THE_KNEE) + 3)
    assert served.seen.errors == {}
