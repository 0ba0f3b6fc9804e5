"""The load balancer as a process, under its own account: pods and Services of a real API server, HAProxy, and
the lab's pods' server, which says what reached each pod."""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from combofunc.collector import Asked, Target, targets
from function_gateway.endpoints import COMBOFUNC, CONCURRENCY
from kwok import parts, prometheus
from kwok.binaries import PROMETHEUS, Binaries
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.network.namespaces import why_no_namespace
from kwok.pods import wait_for_account
from kwok.traffic.balanced import pods, start_balanced_traffic
from kwok.traffic.function import Function
from kwok.traffic.function_process import FUNCTION, POD_PORT
from kwok.traffic.haproxy import find_haproxy
from kwok.traffic.live import Seen, Traffic
from surgekit.kube.client import ApiError
from surgekit.prometheus.client import Prometheus, QueryBatch

pytestmark = pytest.mark.lab

NAMESPACE, WEB = "shop", "web.shop"
MODEL = Function("web", 0.0, 0.05, 1, 0.0, cpu_cores=1.0, memory_bytes=1 << 20, demand_cv=0.2)
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture(scope="module")
def traffic(binaries: Binaries) -> Iterator[Traffic]:
    if reason := why_no_namespace():
        pytest.skip(reason)
    try:
        find_haproxy()
    except LabError as error:
        pytest.skip(str(error))
    with Lab.temporary("lb", instant_pods=True) as lab:
        lab.add_nodes(2, cpu="64", memory="64Gi")
        parts.install(lab)
        lab.kube.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        wait_for_account(lab.kube, NAMESPACE)
        service = {
            "metadata": {"name": "web", "labels": {COMBOFUNC: "web"}},
            "spec": {
                "selector": {COMBOFUNC: "web"},
                "ports": [{"name": "http", "port": 80, "targetPort": POD_PORT}],
            },
        }
        lab.kube.create(f"/api/v1/namespaces/{NAMESPACE}/services", service)
        yield start_balanced_traffic(
            lab, {"web": MODEL}, {"gateway_timeout_s": 10.0, "connections_per_namespace": 200}
        )


@pytest.fixture(autouse=True)
def _clean(traffic: Traffic) -> Iterator[None]:
    """No load and no pod is left for the next test."""
    yield
    idle(traffic)
    traffic.lab.kube.delete(PODS, gracePeriodSeconds=0)
    traffic.lab.wait_for(lambda: metric(traffic, "surgekit_function_pods") == 0, "no pods", 60)


def idle(traffic: Traffic) -> None:
    if WEB in traffic.sample():
        traffic.clients(WEB, 0)
        traffic.lab.wait_for(lambda: seen(traffic).in_flight == 0, "the last requests", 60)


def deploy(traffic: Traffic, sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        body = {
            "metadata": {
                "name": name,
                "labels": {COMBOFUNC: "web", FUNCTION: "web"},
                "annotations": {CONCURRENCY: str(size)},
            },
            "spec": {
                "nodeName": "node-0",
                "automountServiceAccountToken": False,
                "containers": [{"name": "function", "image": "functions.example/web:1"}],
            },
        }
        traffic.lab.kube.create(PODS, body)
    wait_for_capacity(traffic, sum(sizes.values()))


def resize(traffic: Traffic, sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        traffic.lab.kube.patch(f"{PODS}/{name}", {"metadata": {"annotations": {CONCURRENCY: str(size)}}})


def wait_for_capacity(traffic: Traffic, capacity: int) -> None:
    """Until HAProxy was told of pods that take so many at once."""
    traffic.lab.wait_for(
        lambda: metric(traffic, "surgekit_function_capacity") == capacity, f"a capacity of {capacity}", 60
    )


def metric(traffic: Traffic, name: str) -> float | None:
    connection = http.client.HTTPConnection("127.0.0.1", traffic.gateway_metrics_port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    wanted = f'{name}{{function="web",namespace="{NAMESPACE}"}} '
    return next((float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted)), None)


def seen(traffic: Traffic) -> Seen:
    return traffic.sample()[WEB]


def wait_for_answers(traffic: Traffic, more: int) -> None:
    wanted = seen(traffic).answered + more
    traffic.lab.wait_for(lambda: seen(traffic).answered >= wanted, f"{more} answers", 60)


def errors(traffic: Traffic) -> int:
    return sum(seen(traffic).errors.values()) if WEB in traffic.sample() else 0


def test_pods_of_several_sizes_share_by_capacity(traffic: Traffic) -> None:
    sizes = {"small": 2, "medium": 4, "large": 8}
    deploy(traffic, sizes)
    before = errors(traffic)
    traffic.clients(WEB, 30)
    wait_for_answers(traffic, 1500)
    idle(traffic)
    assert errors(traffic) == before
    found = pods(traffic)
    assert {name: found[name]["most_at_once"] for name in sizes} == sizes
    total = sum(found[name]["answered"] for name in sizes)
    for name, size in sizes.items():
        assert found[name]["answered"] / total == pytest.approx(size / 14, rel=0.15)


def test_resizes_and_removals_under_load_fail_no_request(traffic: Traffic) -> None:
    draw, sizes = random.Random(1), {"a": 2, "b": 4, "c": 8}
    most = dict(sizes)
    deploy(traffic, sizes)
    before = errors(traffic)
    traffic.clients(WEB, 30)
    for _ in range(10):
        sizes = {name: draw.choice([1, 2, 4, 8]) for name in sizes}
        most = {name: max(most[name], size) for name, size in sizes.items()}
        resize(traffic, sizes)
        wait_for_capacity(traffic, sum(sizes.values()))
        wait_for_answers(traffic, 60)
        assert all(pod["most_at_once"] <= most[name] for name, pod in pods(traffic).items())
        traffic.lab.wait_for(
            lambda sizes=sizes: {name: pod["concurrency"] for name, pod in pods(traffic).items()} == sizes,  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
            "the lab's server to follow",
        )
    traffic.lab.kube.delete(f"{PODS}/b", gracePeriodSeconds=30)
    wait_for_capacity(traffic, sizes["a"] + sizes["c"])
    wait_for_answers(traffic, 60)
    idle(traffic)
    assert errors(traffic) == before
    assert all(found["most_at_once"] <= most[name] for name, found in pods(traffic).items())


def test_a_new_haproxy_is_told_of_the_pods(traffic: Traffic) -> None:
    """What was on its way is lost; no request after that."""
    deploy(traffic, {"a": 4, "b": 4})
    before = errors(traffic)
    traffic.clients(WEB, 12)
    wait_for_answers(traffic, 100)
    traffic.lab.kill(parts.HAPROXY)
    idle(traffic)
    lost = errors(traffic) - before
    parts.start_haproxy(traffic.lab, find_haproxy(), traffic.lab.directory / "lb")
    traffic.clients(WEB, 12)
    wait_for_answers(traffic, 200)
    idle(traffic)
    assert errors(traffic) - before == lost
    assert all(found["most_at_once"] == 4 for found in pods(traffic).values())


def test_haproxy_goes_on_without_the_balancer(traffic: Traffic) -> None:
    """Whose successor takes over what it finds, and tells what has changed."""
    deploy(traffic, {"a": 4, "b": 4})
    before = errors(traffic)
    traffic.clients(WEB, 12)
    wait_for_answers(traffic, 100)
    lab = traffic.lab
    (process,) = (p for p in lab.processes.all() if p.name == "balancer")
    argv = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[:-1]
    lab.kill("balancer")
    wait_for_answers(traffic, 100)
    resize(traffic, {"a": 2})
    lab.start("balancer", argv, port=traffic.gateway_metrics_port)
    lab.wait_for(lambda: _capacity(traffic) == 6, "a capacity of 6", 60)
    wait_for_answers(traffic, 100)
    idle(traffic)
    assert errors(traffic) == before
    assert {name: found["most_at_once"] for name, found in pods(traffic).items()} == {"a": 4, "b": 4}


def _capacity(traffic: Traffic) -> float | None:
    try:
        return metric(traffic, "surgekit_function_capacity")
    except OSError:  # it is still starting
        return None


def test_a_pod_that_says_nothing_of_its_concurrency_gets_nothing(traffic: Traffic) -> None:
    deploy(traffic, {"a": 2, "b": 2})
    traffic.lab.kube.delete(PODS + "/b", gracePeriodSeconds=0)
    wait_for_capacity(traffic, 2)
    body = {
        "metadata": {"name": "silent", "labels": {COMBOFUNC: "web", FUNCTION: "web"}},
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "function", "image": "functions.example/web:1"}],
        },
    }
    traffic.lab.kube.create(PODS, body)
    name = "surgekit_balancer_pods_without_concurrency"
    traffic.lab.wait_for(lambda: metric(traffic, name) == 1, "it is counted", 60)
    assert metric(traffic, "surgekit_function_capacity") == 2


def test_the_collector_finds_the_concurrency_that_was_asked_for(
    built: Callable[..., Binaries], traffic: Traffic
) -> None:
    """Twelve clients on six places: six requests in flight, six queued."""
    built(PROMETHEUS)
    deploy(traffic, {"a": 2, "b": 4})
    traffic.clients(WEB, 12)
    wait_for_answers(traffic, 20)
    server = prometheus.start(traffic.lab, {"balancer": [f"127.0.0.1:{traffic.gateway_metrics_port}"]}, 0.5)
    asking = Prometheus(f"http://127.0.0.1:{server.port}", 5.0)
    asked = [Asked("shop/web", "shop", "web", 5.0), Asked("shop/other", "shop", "other", 5.0)]
    found: dict[str, Target | str] = {}

    def covered() -> bool:
        found.update(targets(QueryBatch(asking, time.time()), asked, 0.5))
        target = found["shop/web"]
        # Between an answer and its client's next request there are a few milliseconds of fifty; more in a
        # window in which the cores were busy.
        return isinstance(target, Target) and 10 <= target.concurrency <= 12

    try:
        traffic.lab.wait_for(covered, f"a window of scrapes with all clients: {found}", 60)
    finally:
        traffic.lab.stop(prometheus.PROMETHEUS)
    assert found["shop/other"] == "no concurrency measured for other in shop in the last 5 s"


def test_the_api_server_takes_the_manifests_and_warns_of_nothing(traffic: Traffic) -> None:
    directory = parts.MANIFESTS / "load-balancer"
    arguments = ("apply", "--server-side", "--force-conflicts", "-k", directory, "--dry-run=server")
    said = traffic.lab.kubectl(*arguments, "--warnings-as-errors")
    assert "deployment.apps/surgekit-balancer" in said


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete"])
def test_its_account_may_write_nothing(traffic: Traffic, verb: str) -> None:
    review = {
        "spec": {
            "user": "system:serviceaccount:surgekit-system:surgekit-balancer",
            "resourceAttributes": {"verb": verb, "resource": "pods", "namespace": NAMESPACE},
        }
    }
    answer = traffic.lab.kube.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer["status"]["allowed"] is False


def events(traffic: Traffic, namespace: str, reason: str) -> list[dict[str, Any]]:
    found, _ = traffic.lab.kube.list_all(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return [event for event in found if event["reason"] == reason]


def test_whoever_has_more_functions_than_its_share_is_told(traffic: Traffic) -> None:
    """Ten functions more than the eight backends: all of one namespace, and the other's is served."""
    lab = traffic.lab
    lab.kube.create("/api/v1/namespaces", {"metadata": {"name": "greedy"}})
    for number in range(10):
        service = {
            "metadata": {"name": f"f{number}", "labels": {COMBOFUNC: f"f{number}"}},
            "spec": {"selector": {"app": "nothing"}, "ports": [{"port": 80}]},
        }
        lab.kube.create("/api/v1/namespaces/greedy/services", service)
    try:
        lab.wait_for(lambda: len(events(traffic, "greedy", "NoBackend")) >= 3, "three are told", 90)
        told = events(traffic, "greedy", "NoBackend")
        assert {event["regarding"]["kind"] for event in told} == {"Service"}
        assert "functions; all 8 (functions) are in use, of which its share is 7" in told[-1]["note"]
        deploy(traffic, {"a": 2})
        traffic.clients(WEB, 2)
        wait_for_answers(traffic, 20)
        assert not events(traffic, NAMESPACE, "NoBackend")
    finally:
        idle(traffic)
        for number in range(10):
            lab.kube.delete(f"/api/v1/namespaces/greedy/services/f{number}")


def test_whoever_has_more_requests_than_its_quota_is_told(traffic: Traffic) -> None:
    traffic.clients(WEB, 300)  # no pod: all of them wait
    traffic.lab.wait_for(lambda: events(traffic, NAMESPACE, "RequestsRefused"), "it is told", 90)
    (event, *_) = events(traffic, NAMESPACE, "RequestsRefused")
    assert event["regarding"]["name"] == "web"
    assert "(connections_per_namespace) is 200 requests under way" in event["note"]


def test_a_function_is_gone_with_its_service(traffic: Traffic) -> None:
    """And there again with it: last, since the others use it."""
    kube, path = traffic.lab.kube, f"/api/v1/namespaces/{NAMESPACE}/services/web"
    service = kube.get(path)
    kube.delete(path)
    try:
        traffic.lab.wait_for(lambda: metric(traffic, "surgekit_function_pods") is None, "it is gone", 60)
    finally:
        body = {
            "metadata": {"name": "web", "labels": service["metadata"]["labels"]},
            "spec": {k: service["spec"][k] for k in ("selector", "ports")},
        }
        try:
            kube.create(path.rpartition("/")[0], body)
        except ApiError as error:
            if error.code != 409:
                raise
