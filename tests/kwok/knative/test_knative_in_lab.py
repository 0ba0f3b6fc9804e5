"""Stock Knative with live requests: one lab for all, whose pods are created by the node model."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwok import knative
from kwok.binaries import CORE, Binaries
from kwok.knative import PodView, Serving
from kwok.lab import Lab
from kwok.network.namespaces import inside
from kwok.ports import get_text
from kwok.scenario import Scenario
from surgekit.kube.client import ApiError, Kube

pytestmark = [pytest.mark.lab, pytest.mark.long]

Json = dict[str, Any]
CREATION_S = 1.0
PODS_S = 180.0  # machines with labs are busy
# Knative's least windows: pods come and go within seconds.
AUTOSCALER = {"stable-window": "6s", "scale-to-zero-grace-period": "6s", "allow-zero-initial-scale": "true"}
SHORT = {"SERVICE_TIME_MS": "50"}


@pytest.fixture(scope="module")
def serving(built: Callable[..., Binaries]) -> Iterator[Serving]:
    if reason := knative.why_no_knative():
        pytest.skip(reason)
    built(*CORE, *knative.BINARIES)
    with Lab.temporary("knative", own_network=True, time_factor=4) as lab:  # of the HPA
        port = lab.free_port()
        nodes = lab.add_nodes(3, kubelet_port=port)
        lab.start_scheduler()
        lab.start_node_model(Scenario.equal(nodes, tau_create_s=CREATION_S))
        yield knative.start(lab, port, {"config-autoscaler": AUTOSCALER})


def ask(serving: Serving, host: str, path: str = "/") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", serving.ingress_port, timeout=PODS_S)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def pods_of(serving: Serving, name: str) -> list[PodView]:
    return [pod for pod in serving.pods() if pod.name.startswith(f"{name}-0") and not pod.ending]


def replicas(serving: Serving, name: str) -> int:
    path = f"/apis/apps/v1/namespaces/default/deployments/{name}-00001-deployment"
    found: int = serving.lab.kube.get(path)["spec"]["replicas"]
    return found


def until(serving: Serving, condition: Callable[[], object], what: str) -> None:
    serving.lab.wait_for(condition, what, PODS_S)


def test_a_request_waits_in_the_activator_for_the_first_pod(serving: Serving) -> None:
    host = serving.deploy("zero", env=SHORT, annotations={"autoscaling.knative.dev/initial-scale": "0"})
    assert pods_of(serving, "zero") == []
    status, name = ask(serving, host)
    (pod,) = pods_of(serving, "zero")
    assert (status, name) == (200, pod.name)
    found = serving.lab.kube.get(f"/api/v1/namespaces/default/pods/{name}")
    assert found["metadata"]["annotations"]["lab.surgekit.dev/created"]  # by the node model
    until(serving, lambda: replicas(serving, "zero") == 0, "zero is scaled to zero again")


def test_it_scales_with_concurrency_and_loses_no_request_on_the_way_down(serving: Serving) -> None:
    host = serving.deploy("busy", concurrency=2, env=SHORT)
    traffic = serving.traffic
    traffic.clients(host, 16)
    until(serving, lambda: len(pods_of(serving, "busy")) >= 6, "six pods")  # 16 / (2 * 0.7) is 11.4
    traffic.clients(host, 2)  # two go on while pods are removed
    until(serving, lambda: replicas(serving, "busy") <= 3, "most pods are removed")
    assert any(pod.ending for pod in serving.pods())
    before = traffic.sample()[host].answered
    until(serving, lambda: traffic.sample()[host].answered > before + 50, "further answers")
    traffic.clients(host, 0)
    until(serving, lambda: traffic.sample()[host].in_flight == 0, "the last answers")
    seen = traffic.sample()[host]
    assert seen.errors == {}
    assert seen.answered > before
    assert max(pod.most_at_once for pod in serving.pods() if pod.name.startswith("busy-")) == 2
    until(serving, lambda: replicas(serving, "busy") == 0, "busy is scaled to zero")


def test_a_pod_ends_its_requests_before_it_is_gone(serving: Serving) -> None:
    host = serving.deploy("slow", annotations={"autoscaling.knative.dev/min-scale": "1"})
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, serving, host, "/sleep/8")
        until(serving, lambda: pods_of(serving, "slow")[0].in_flight, "the request is in the pod")
        (pod,) = pods_of(serving, "slow")
        serving.lab.kube.delete(f"/api/v1/namespaces/default/pods/{pod.name}")
        assert answer.result(PODS_S) == (200, pod.name)


def test_a_request_ends_at_the_revision_s_timeout(serving: Serving) -> None:
    host = serving.deploy("late", timeout_s=1)
    assert ask(serving, host, "/sleep/60")[0] == 504


def test_requests_are_split_by_the_route(serving: Serving) -> None:
    host = serving.deploy("split", env=SHORT)
    path = "/apis/serving.knative.dev/v1/namespaces/default/services/split"
    template = {"spec": {"containers": [{**_container(serving.lab.kube, path), "env": []}]}}
    traffic = [{"revisionName": "split-00001", "percent": 50}, {"latestRevision": True, "percent": 50}]
    serving.lab.kube.patch(path, {"spec": {"template": template, "traffic": traffic}})
    serving.wait_until_ready("split", timeout_s=PODS_S)
    # 1 of 2^39 times 40 draws are all alike.
    revisions = {ask(serving, host)[1].partition("-deployment")[0] for _ in range(40)}
    assert revisions == {"split-00001", "split-00002"}


def test_the_hpa_class_scales_by_cpu(serving: Serving) -> None:
    """Knative makes a stock HPA, and metrics-server has what the pods use."""
    annotations = {
        "autoscaling.knative.dev/class": "hpa.autoscaling.knative.dev",
        "autoscaling.knative.dev/metric": "cpu",
        "autoscaling.knative.dev/target": "50",
        "autoscaling.knative.dev/max-scale": "3",
    }
    environment = {"SERVICE_TIME_MS": "50", "CPU_TIME_MS": "50"}
    resources = {"requests": {"cpu": "200m"}, "limits": {"cpu": "400m"}}
    host = serving.deploy("cpu", env=environment, annotations=annotations, resources=resources)
    serving.traffic.clients(host, 4)
    until(serving, lambda: replicas(serving, "cpu") == 3, "three replicas")
    serving.traffic.clients(host, 0)


def test_a_class_of_others_is_left_to_them(serving: Serving) -> None:
    annotations = {"autoscaling.knative.dev/class": "class.example.com"}
    serving.deploy("theirs", annotations=annotations, wait_s=0)
    path = "/apis/autoscaling.internal.knative.dev/v1alpha1/namespaces/default/podautoscalers/theirs-00001"
    until(serving, lambda: serving.lab.kube.get(path)["metadata"]["uid"], "its PodAutoscaler")
    assert "conditions" not in serving.lab.kube.get(path).get("status", {})


def test_the_webhook_refuses_what_is_not_valid(serving: Serving) -> None:
    with pytest.raises(ApiError, match=r"admission webhook.*denied.*min-scale"):
        serving.deploy("bad", annotations={"autoscaling.knative.dev/min-scale": "-1"}, wait_s=0)


def test_each_process_acts_under_its_own_account(serving: Serving) -> None:
    accounts = {
        process: yaml.safe_load((serving.lab.directory / "accounts" / process).read_text())["users"][0][
            "name"
        ]
        for process in ("knative-controller", "knative-autoscaler", "knative-activator", "knative-webhook")
    }
    assert accounts == dict.fromkeys(accounts, "controller") | {"knative-activator": "activator"}
    revisions = "/apis/serving.knative.dev/v1/revisions"
    assert status(serving, "knative-activator", revisions) == 200
    assert status(serving, "knative-activator", "/api/v1/pods") == 403
    assert status(serving, "knative-controller", "/api/v1/pods") == 200
    assert status(serving, "knative-controller", "/api/v1/nodes") == 403


def status(serving: Serving, process: str, path: str) -> int:
    """The API server's answer to a process of Knative's, where that runs."""
    kubeconfig = serving.lab.directory / "accounts" / process
    found = serving.lab.processes.find(process)
    assert found
    assert str(kubeconfig).encode() in Path(f"/proc/{found.pid}/cmdline").read_bytes()
    try:
        inside(Path(f"/proc/{found.pid}/ns/net"), lambda: Kube.connect(kubeconfig).get(path))
    except ApiError as error:
        return error.code
    return 200


def test_prometheus_has_the_pods_metrics(serving: Serving) -> None:
    host = serving.deploy("seen", annotations={"autoscaling.knative.dev/min-scale": "1"})
    assert ask(serving, host)[0] == 200
    requests = "http_server_request_duration_seconds_count"
    query = f'{requests}*on(instance)group_left()target_info{{kn_service_name="seen"}}'
    until(
        serving,
        lambda: '"value"' in get_text(serving.prometheus_port, f"/api/v1/query?query={query}"),
        "the pod's requests",
    )


def _container(kube: Kube, path: str) -> Json:
    found: Json = kube.get(path)["spec"]["template"]["spec"]["containers"][0]
    return found
