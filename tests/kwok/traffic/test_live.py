"""Traffic through the whole path: load generator, HAProxy, the pods' server in the lab's namespace."""

from __future__ import annotations

import http.client
import secrets
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from experiments.kneescale.traffic_simulation import Clients, Settings, simulate
from kwok.binaries import Binaries
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.metrics_server import kubelet_certificates
from kwok.network.namespaces import why_no_namespace
from kwok.network_namespace import EMULATED_PODS, namespace_path
from kwok.processes import take_down
from kwok.traffic import haproxy
from kwok.traffic.function import Function
from kwok.traffic.live import Seen, Traffic, start_traffic
from kwok.traffic.network import make_traffic_namespace
from kwok.waiting import wait_for
from surgekit.kube.client import ApiError

pytestmark = pytest.mark.lab

TIMEOUT_S = 15.0  # a busy machine may stop everything for some seconds
NAMESPACES = ("one", "two", "three")


def function(name: str, service_s: float) -> Function:
    return Function(
        name, service_s * 0.2, 0.0, 1, cold_start_s=0.0, cpu_cores=0.2, memory_bytes=1 << 20, demand_cv=0.2
    )


QUICK, PLAIN, STUCK = function("quick", 0.02), function("plain", 0.1), function("stuck", 60.0)


@pytest.fixture(autouse=True, scope="module")
def _able() -> None:
    if reason := why_no_namespace():
        pytest.skip(reason)
    try:
        haproxy.find_haproxy()
    except LabError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def traffic(binaries: Binaries, _able: None) -> Iterator[Traffic]:
    with Lab.temporary("traffic", instant_pods=True) as lab:
        port = lab.free_port()
        lab.add_nodes(4, cpu="64", memory="64Gi", kubelet_port=port)
        lab.start_scheduler()
        functions = {f.name: f for f in (QUICK, PLAIN, STUCK)}
        yield start_traffic(
            lab,
            functions,
            namespaces=NAMESPACES,
            gateway_timeout_s=TIMEOUT_S,
            slots=40,
            kubelet_port=port,
        )


@pytest.fixture(autouse=True)
def _clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """No load and no function is left for the next test."""
    yield
    if "traffic" not in request.fixturenames:
        return
    traffic: Traffic = request.getfixturevalue("traffic")
    for target in traffic.sample():
        traffic.clients(target, 0)
    kube = traffic.lab.kube
    for namespace in NAMESPACES:
        for name in traffic.functions:
            for path in ("apis/apps/v1/namespaces/{}/deployments/{}", "api/v1/namespaces/{}/services/{}"):
                try:
                    kube.delete("/" + path.format(namespace, name), propagationPolicy="Background")
                except ApiError as error:
                    if error.code != 404:
                        raise
    lab = traffic.lab
    lab.wait_for(lambda: not any(traffic.replicas().values()), "no pods", 60)
    lab.wait_for(lambda: not any(s.in_flight for s in traffic.sample().values()), "no requests", 60)
    lab.wait_for(lambda: not kube.list_all("/api/v1/pods")[0], "no pods", 60)


def ask(traffic: Traffic, target: str) -> tuple[int, str]:
    """One request through the gateway: its status and what was said."""
    connection = http.client.HTTPConnection("127.0.0.1", traffic.gateway_port, timeout=60)
    try:
        connection.request("GET", "/", headers={"Host": target})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def metrics(port: int) -> dict[str, float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def wait_for_metric(traffic: Traffic, port: int, name: str, value: float) -> None:
    """A gateway counts what it reads in HAProxy's log, a pod what it hears of: a moment after the client."""
    traffic.lab.wait_for(lambda: metrics(port).get(name, 0) == value, f"{name} to be {value:g}")


def pod_names(traffic: Traffic, namespace: str) -> set[str]:
    pods, _ = traffic.lab.kube.list_all(f"/api/v1/namespaces/{namespace}/pods")
    return {pod["metadata"]["name"] for pod in pods}


def seen(traffic: Traffic, target: str) -> Seen:
    return traffic.sample()[target]


def wait_for_answers(traffic: Traffic, target: str, more: int) -> None:
    wanted = seen(traffic, target).answered + more
    traffic.lab.wait_for(lambda: seen(traffic, target).answered >= wanted, f"{more} answers", 60)


def test_every_pod_answers_from_inside_the_namespace(traffic: Traffic) -> None:
    """All of them: a server line outside would dial whoever has that address on the host's network."""
    target = traffic.deploy("quick", "one", 12)
    said = {ask(traffic, target) for _ in range(200)}  # a pod is missed once in 3e7 runs
    assert said == {(200, name) for name in pod_names(traffic, "one")}


def test_a_host_nobody_knows_is_refused(traffic: Traffic) -> None:
    assert ask(traffic, "nobody.nowhere")[0] == 503


def test_throughput_and_latency_are_those_of_the_model(traffic: Traffic) -> None:
    """Closed loops with few pods, as many as clients, and more; simulated with other random numbers.

    By the simulation, throughputs over 30 s have a standard deviation of 2.2 % at most.
    """
    loops = {"one": (20, 5), "two": (12, 12), "three": (6, 24)}  # clients, replicas
    for namespace, (clients, replicas) in loops.items():
        traffic.clients(traffic.deploy("plain", namespace, replicas), clients)
    time.sleep(3)  # past the first requests, which come all at once
    modelled = {}
    for namespace, (clients, replicas) in loops.items():
        settings = Settings(interval_s=10.0, gateway_timeout_s=TIMEOUT_S)
        samples = simulate(PLAIN, Clients.constant(clients), replicas, 200.0, seed=7, settings=settings)[1:]
        throughput_per_s = sum(s.throughput_per_s for s in samples) / len(samples)
        latency_s = clients / throughput_per_s  # Little
        modelled[namespace] = pytest.approx((throughput_per_s, latency_s), rel=0.1)
    windows: list[dict[str, tuple[float, float]]] = []
    while not windows or windows[-1] != modelled:
        assert len(windows) < 3, (windows, modelled)  # busy cores may slow the whole path down in one
        windows.append(window(traffic, loops))


def window(traffic: Traffic, namespaces: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Throughput and latency over 30 s; 0 where something failed."""
    begin = traffic.sample()
    time.sleep(30)
    end, found = traffic.sample(), {}
    for namespace in namespaces:
        first, last = begin[f"plain.{namespace}"], end[f"plain.{namespace}"]
        answered = last.answered - first.answered
        latency_s = (last.latency_sum_s - first.latency_sum_s) / answered
        undisturbed = last.errors == first.errors
        found[namespace] = (answered / (last.at_s - first.at_s), latency_s) if undisturbed else (0.0, 0.0)
    return found


def test_what_waits_longer_than_the_gateway_does_fails_and_counts(traffic: Traffic) -> None:
    target = traffic.deploy("stuck", "one", 1)
    traffic.clients(target, 3)
    traffic.lab.wait_for(lambda: seen(traffic, target).errors.get(504, 0) >= 3, "timeouts", 60)
    traffic.clients(target, 0)
    traffic.lab.wait_for(lambda: seen(traffic, target).in_flight == 0, "the last requests")
    failed = seen(traffic, target).errors
    assert set(failed) == {504}
    labels = f'{{code="504",function_name="{target}"}}'
    wait_for_metric(
        traffic, traffic.gateway_metrics_port, f"gateway_function_invocation_total{labels}", failed[504]
    )
    found = metrics(traffic.gateway_metrics_port)
    assert found[f"gateway_functions_seconds_count{labels}"] == failed[504]
    assert found[f"gateway_functions_seconds_sum{labels}"] >= failed[504] * TIMEOUT_S
    # The pod stopped working on them.
    given_up = 'lab_function_requests_total{function="stuck",namespace="one",outcome="given_up"}'
    wait_for_metric(traffic, traffic.function_metrics_port, given_up, failed[504])
    pods = metrics(traffic.function_metrics_port)
    assert pods['lab_function_in_flight{function="stuck",namespace="one"}'] == 0


def test_requests_are_counted_once_each(traffic: Traffic) -> None:
    target = traffic.deploy("quick", "two", 4)
    before = seen(traffic, target).answered if target in traffic.sample() else 0
    traffic.clients(target, 8)
    wait_for_answers(traffic, target, 300)
    in_flight = f'gateway_function_invocation_inflight{{function_name="{target}"}}'
    wait_for_metric(traffic, traffic.gateway_metrics_port, in_flight, 8)
    traffic.clients(target, 0)
    traffic.lab.wait_for(lambda: seen(traffic, target).in_flight == 0, "the last requests")
    last = seen(traffic, target)
    counted = f'gateway_function_invocation_total{{code="200",function_name="{target}"}}'
    wait_for_metric(traffic, traffic.gateway_metrics_port, counted, last.answered)
    found = metrics(traffic.gateway_metrics_port)
    assert found["lab_gateway_lost_log_lines"] == found["lab_gateway_bad_log_lines_total"] == 0
    records = traffic.records()
    assert (records["target"] == last.number).sum() == last.answered + sum(last.errors.values())
    assert last.answered - before >= 300


def test_a_busy_pod_uses_its_limit_and_its_kubelet_says_so(traffic: Traffic) -> None:
    target = traffic.deploy("plain", "one", 1)
    traffic.clients(target, 4)
    wait_for_answers(traffic, target, 2)
    (pod,), _ = traffic.lab.kube.list_all("/api/v1/namespaces/one/pods")
    cores: list[float] = []
    # One that computes all the time; what lies between two requests is HAProxy and the load generator, but
    # four clients keep its queue filled. On busy cores that takes longer: then in one of a few windows.
    while not cores or cores[-1] != pytest.approx(PLAIN.cpu_cores, rel=0.02):
        assert len(cores) < 8, cores
        first_s, at_first_s = cpu_used(traffic, pod["metadata"]["name"], pod["spec"]["nodeName"])
        wait_for_answers(traffic, target, 15)
        last_s, at_last_s = cpu_used(traffic, pod["metadata"]["name"], pod["spec"]["nodeName"])
        cores.append((last_s - first_s) / (at_last_s - at_first_s))
    assert max(cores) <= PLAIN.cpu_cores * 1.02


def cpu_used(traffic: Traffic, pod: str, node: str) -> tuple[float, float]:
    """Cpu-seconds of a pod by its kubelet, and the time they are of."""
    status = traffic.lab.kube.get(f"/api/v1/nodes/{node}")["status"]
    address = next(a["address"] for a in status["addresses"] if a["type"] == "InternalIP")
    port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    context = ssl.create_default_context(cafile=kubelet_certificates(traffic.lab) / "ca.crt")
    connection = http.client.HTTPSConnection(address, port, timeout=30, context=context)
    try:
        connection.request("GET", "/metrics/resource")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    (line,) = (row for row in lines if row.startswith("container_cpu") and f'pod="{pod}"' in row)
    _, value, at_ms = line.rsplit(" ", 2)
    return float(value), float(at_ms) / 1000


def test_a_request_waits_for_a_pod(traffic: Traffic) -> None:
    target = traffic.deploy("quick", "three", 0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, traffic, target)
        in_flight = f'gateway_function_invocation_inflight{{function_name="{target}"}}'
        traffic.lab.wait_for(lambda: metrics(traffic.gateway_metrics_port)[in_flight] == 1, "it waits")
        traffic.scale("quick", "three", 1)
        assert waiting.result()[0] == 200
    traffic.scale("quick", "three", 0)
    traffic.wait_for_replicas("quick", "three", 0)
    assert ask(traffic, target)[0] == 503  # at the gateway's timeout


def test_a_pod_that_dies_takes_its_requests_along_and_no_others(traffic: Traffic) -> None:
    dying, other = traffic.deploy("plain", "one", 4), traffic.deploy("plain", "two", 4)
    for target in (dying, other):
        traffic.clients(target, 12)
    wait_for_answers(traffic, dying, 20)
    before = {target: sum(seen(traffic, target).errors.values()) for target in (dying, other)}
    victim = min(pod_names(traffic, "one"))
    traffic.lab.kube.delete(f"/api/v1/namespaces/one/pods/{victim}", gracePeriodSeconds=0)
    wait_for_answers(traffic, dying, 100)
    after = {target: sum(seen(traffic, target).errors.values()) for target in (dying, other)}
    assert after[other] == before[other]
    assert after[dying] - before[dying] <= 12  # those it served; the clients that lost them went on
    assert set(seen(traffic, dying).errors) <= {502}
    counted = f'gateway_function_invocation_total{{code="502",function_name="{dying}"}}'
    wait_for_metric(traffic, traffic.gateway_metrics_port, counted, after[dying])
    traffic.wait_for_replicas("plain", "one", 4)


def test_scaling_up_and_down_under_load_fails_no_request(traffic: Traffic) -> None:
    """On the way down pods finish what they have: requests stop coming before a pod ends."""
    target = traffic.deploy("plain", "three", 5)
    traffic.clients(target, 20)
    wait_for_answers(traffic, target, 40)
    errors = seen(traffic, target).errors
    for replicas in (20, 5):
        traffic.scale("plain", "three", replicas)
        traffic.wait_for_replicas("plain", "three", replicas)
        wait_for_answers(traffic, target, 100)
        assert seen(traffic, target).errors == errors


def test_an_open_loop_through_the_gateway(traffic: Traffic) -> None:
    target = traffic.deploy("quick", "one", 10)
    traffic.replay(target, [i * 0.01 for i in range(300)])
    traffic.lab.wait_for(lambda: seen(traffic, target).still_due == 0, "all sent")
    traffic.lab.wait_for(lambda: seen(traffic, target).in_flight == 0, "all answered")
    records = traffic.records()
    mine = records[records["target"] == seen(traffic, target).number][-300:]
    assert set(mine["status"]) == {200}
    assert max(mine["sent_s"]) - min(mine["sent_s"]) == pytest.approx(2.99, abs=0.001)
    assert min(mine["latency_s"]) > 0.005  # a service time of 0.02 s, give or take


def test_bad_orders_are_refused(traffic: Traffic) -> None:
    with pytest.raises(LabError, match="clients: -1"):
        traffic.clients("quick.one", -1)
    with pytest.raises(LabError, match="clients: 'many'"):
        traffic.clients("quick.one", "many")  # type: ignore[arg-type]


def test_a_new_haproxy_is_told_of_the_pods(traffic: Traffic) -> None:
    target = traffic.deploy("quick", "two", 3)
    process = traffic.lab.processes.find("haproxy")
    assert process is not None
    argv = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[:-1]
    traffic.lab.kill("haproxy")
    traffic.lab.start("haproxy", argv)
    traffic.lab.wait_for(lambda: _answers(traffic, target), "an answer through the new one", 30)


def _answers(traffic: Traffic, target: str) -> bool:
    try:
        return ask(traffic, target)[0] == 200
    except OSError:
        return False


def test_the_namespace_goes_with_the_lab(binaries: Binaries) -> None:
    with Lab.temporary("gone", instant_pods=True) as lab:
        path = make_traffic_namespace(lab.directory)
        assert path.exists()
    assert not path.exists()


def test_the_namespace_goes_with_a_creator_that_is_killed(binaries: Binaries) -> None:
    """Once while the lab's processes run in it."""
    program = (
        "import sys, time; from kwok.lab import Lab; from kwok.traffic.live import start_traffic\n"
        "from kwok.traffic.functions import FUNCTIONS\n"
        "with Lab.temporary(sys.argv[1], instant_pods=True) as lab:\n"
        "    start_traffic(lab, FUNCTIONS); print(lab.directory, flush=True); time.sleep(600)\n"
    )
    prefix = f"killed-{secrets.token_hex(2)}"
    child = subprocess.Popen([sys.executable, "-c", program, prefix], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    directory = Path(child.stdout.readline().strip())
    path = namespace_path(directory, EMULATED_PODS)
    assert path.exists()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    wait_for(lambda: not path.exists() and not directory.exists(), "nothing is left of the lab")


def test_half_a_namespace_is_cleared_away() -> None:
    """As left by a creator that was killed between the file and the mount."""
    directory = Lab.directory_of(f"half-{secrets.token_hex(3)}")
    path = namespace_path(directory, EMULATED_PODS)
    path.parent.mkdir(exist_ok=True)
    path.touch()
    take_down(directory)
    assert not path.exists()
