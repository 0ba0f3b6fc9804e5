"""The extender with the real scheduler and API server: its own service account, mutual TLS, faults."""

from __future__ import annotations

import http.client
import os
import re
import signal
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from experiments.arrivals import Arrivals, is_bound
from kwok import parts
from kwok.lab import Lab
from kwok.pods import create_pods, delete_pods, pod, wait_for_account
from kwok.processes import Process
from surgekit.kube.client import ApiError, KubeUnreachable

pytestmark = pytest.mark.lab
NODES = [f"node-{i}" for i in range(16)]
PLACEMENT, SCORED = "surgekit.dev/placement", "surgekit.dev/scored"
SPEEDS = "/apis/surgekit.dev/v1alpha1/nodespeeds"
SPEED = {
    "tauCreateRelativeError": 0.1,
    "samples": 9,
    "source": "measured",
    "observedTime": "2026-01-01T00:00:00Z",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Lab]:
    """A lab of its own: the opt-in policy is cluster-wide, and the API server is restarted in it.

    No node model runs, so bound pods stay in creation: k_n is what was placed.
    """
    with Lab.temporary("extender") as lab:
        parts.install(lab)
        assert lab.add_nodes(16) == NODES
        yield lab


def entry(extender: parts.ExtenderPart) -> dict[str, Any]:
    """With time to answer on busy cores: only the test of a hanging extender is about its timeout."""
    return extender.scheduler_entry(weight=10) | {"httpTimeout": "30s"}


@pytest.fixture(scope="module")
def extender(cluster: Lab) -> parts.ExtenderPart:
    return parts.start_extender(cluster)


@pytest.fixture(scope="module")
def scheduler(cluster: Lab, extender: parts.ExtenderPart) -> None:
    cluster.start_scheduler({"extenders": [entry(extender)]})


@pytest.fixture
def namespace(cluster: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.replace("_", "-").partition("[")[0][:50]
    labels = {PLACEMENT: "enforce"}
    cluster.kube.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    wait_for_account(cluster.kube, name)
    yield name
    delete_pods(cluster.kube, name)


def publish_speed(lab: Lab, node: str, tau_s: float) -> None:
    """What the probe would publish."""
    try:
        lab.kube.create(
            SPEEDS, {"apiVersion": "surgekit.dev/v1alpha1", "kind": "NodeSpeed", "metadata": {"name": node}}
        )
    except ApiError as error:
        if error.code != 409:
            raise
    lab.kube.patch(f"{SPEEDS}/{node}/status", {"status": SPEED | {"tauCreateSeconds": tau_s}})


def ask(extender: parts.ExtenderPart, namespace: str, nodes: list[str]) -> dict[str, Any]:
    """What the extender says of a pod that nobody creates."""
    asked = pod("asked", "50m", "64Mi") | {
        "metadata": {
            "name": "asked",
            "namespace": namespace,
            "uid": "asked",
            "labels": {PLACEMENT: "shadow"},
        }
    }
    status, body = extender.request("POST", "/prioritize", orjson.dumps({"Pod": asked, "NodeNames": nodes}))
    assert status == 200, body
    return decisions(extender, namespace, "asked")


def best_tau_s(extender: parts.ExtenderPart, namespace: str) -> set[float]:
    return {c["tau_create_s"] for c in ask(extender, namespace, NODES)["candidates"][:8]}


def decisions(extender: parts.ExtenderPart, namespace: str, name: str) -> dict[str, Any]:
    status, body = extender.request("GET", f"/explain?pod={namespace}/{name}")
    assert status == 200, body
    return orjson.loads(body)  # type: ignore[no-any-return]


def test_the_stock_scheduler_follows_measured_speed(
    cluster: Lab, extender: parts.ExtenderPart, scheduler: None, namespace: str
) -> None:
    """Slow and fast nodes: a burst goes where D_np says, though LeastAllocated would spread it evenly."""
    for i in range(16):
        publish_speed(cluster, f"node-{i}", 0.5 if i < 8 else 1.5)
    cluster.wait_for(lambda: best_tau_s(extender, namespace) == {0.5}, "the speeds")
    arrivals = Arrivals(cluster.kube, namespace, bound=is_bound)
    # One before the burst: only of the first pod on empty nodes is it certain that a fast node is best.
    create_pods(cluster.kube, namespace, 1, "50m", "64Mi", prefix="first")
    arrivals.wait("bound", 1, 60)
    create_pods(cluster.kube, namespace, 63, "50m", "64Mi")
    arrivals.wait("bound", 64, 60)
    arrivals.close()
    fast = sum(
        count
        for node, count in Counter(arrivals.node.values()).items()
        if int(node.removeprefix("node-")) < 8
    )
    # tau * k balanced: 3 of 4 go to the fast half (48), give or take what the scheduler's scores move.
    assert 40 <= fast <= 56, Counter(arrivals.node.values())
    first = arrivals.node["first-00000"]
    cluster.wait_for(
        lambda: decisions(extender, namespace, "first-00000")["bound_to"] == first, "the extender's own watch"
    )
    said = decisions(extender, namespace, "first-00000")
    assert said["candidates"][0]["node"] == said["bound_to"], "the scheduler took our best node"
    assert said["candidates"][0]["tau_create_s"] == 0.5


def test_fifty_pods_at_once_do_not_herd(
    cluster: Lab, extender: parts.ExtenderPart, scheduler: None, namespace: str
) -> None:
    for i in range(16):
        publish_speed(cluster, f"node-{i}", 1.0)
    cluster.wait_for(lambda: best_tau_s(extender, namespace) == {1.0}, "the speeds")
    arrivals = Arrivals(cluster.kube, namespace, bound=is_bound)
    create_pods(cluster.kube, namespace, 50, "50m", "64Mi")
    arrivals.wait("bound", 50, 60)
    arrivals.close()
    per_node = Counter(arrivals.node.values())
    assert len(per_node) == 16
    assert max(per_node.values()) <= 5, per_node  # one by one it would be 4


def test_pods_outside_cause_no_call(
    cluster: Lab, extender: parts.ExtenderPart, scheduler: None, namespace: str
) -> None:
    cluster.kube.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {PLACEMENT: None}}})
    path, body = f"/api/v1/namespaces/{namespace}/pods", pod("any", "50m", "64Mi")
    # The policy sees the namespace through a watch of its own.
    cluster.wait_for(
        lambda: SCORED not in str(cluster.kube.create(path, body, dryRun="All")["spec"]), "no longer in"
    )
    before = answered(extender)
    arrivals = Arrivals(cluster.kube, namespace, bound=is_bound)
    create_pods(cluster.kube, namespace, 5, "50m", "64Mi")
    arrivals.wait("bound", 5, 30)
    arrivals.close()
    assert answered(extender) == before
    assert b'outcome="outside"' not in health(extender, "/metrics")[1]


def answered(extender: parts.ExtenderPart) -> bytes:
    """The number of /prioritize requests answered so far, as /metrics writes it."""
    found = re.search(
        rb"^surgekit_extender_prioritize_seconds_count (\S+)$", health(extender, "/metrics")[1], re.M
    )
    assert found
    return found[1]


def test_killing_the_extender_in_the_middle_of_a_scale_out_stops_nothing(
    cluster: Lab, extender: parts.ExtenderPart, namespace: str
) -> None:
    victim = parts.start_extender(cluster, "victim")
    cluster.stop_scheduler()
    cluster.start_scheduler({"extenders": [entry(victim)]})
    arrivals = Arrivals(cluster.kube, namespace, bound=is_bound)
    create_pods(cluster.kube, namespace, 40, "50m", "64Mi", prefix="before")
    arrivals.wait("bound", 20, 60)
    cluster.kill("victim")
    create_pods(cluster.kube, namespace, 40, "50m", "64Mi", prefix="after")
    arrivals.wait("bound", 80, 60)
    arrivals.close()
    back_to_normal(cluster, extender)


def test_a_hanging_extender_delays_each_pod_by_its_timeout_at_most(
    cluster: Lab, extender: parts.ExtenderPart, namespace: str
) -> None:
    hanging = parts.start_extender(cluster, "hanging")
    cluster.stop_scheduler()
    scheduler = cluster.start_scheduler({"extenders": [hanging.scheduler_entry(weight=10)]})
    process = next(p for p in cluster.processes.all() if p.name == "hanging")
    group = os.getpgid(process.pid)
    os.killpg(group, signal.SIGSTOP)
    try:
        arrivals = Arrivals(cluster.kube, namespace, bound=is_bound)
        create_pods(cluster.kube, namespace, 4, "50m", "64Mi")
        arrivals.wait("bound", 4, 60)
        arrivals.close()
        # Counted after the bind call has returned.
        cluster.wait_for(lambda: sum(attempts(scheduler).values()) >= 4, "four attempts")
        assert attempts(scheduler) == {"scheduled": 4}, "its timeout, and neither failure nor back-off"
    finally:
        os.killpg(group, signal.SIGCONT)
        cluster.stop("hanging")
        back_to_normal(cluster, extender)


def attempts(scheduler: Process) -> dict[str, int]:
    """How often this scheduler tried to place a pod, by result."""
    context = ssl._create_unverified_context()  # noqa: S323  # its own throw-away certificate
    connection = http.client.HTTPSConnection("127.0.0.1", scheduler.port, timeout=10, context=context)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    found = re.findall(r'^scheduler_schedule_attempts_total\{.*result="(\w+)".*\} (\d+)$', text, re.MULTILINE)
    return {result: int(count) for result, count in found if count != "0"}


def back_to_normal(cluster: Lab, extender: parts.ExtenderPart) -> None:
    cluster.stop_scheduler()
    cluster.start_scheduler({"extenders": [entry(extender)]})


def test_two_replicas_agree_and_neither_herds(
    cluster: Lab, extender: parts.ExtenderPart, namespace: str
) -> None:
    """Calls alternating between replicas that see each other's placements only through the watch."""
    second = parts.start_extender(cluster, "second")
    try:
        placed: Counter[str] = Counter()
        path = f"/api/v1/namespaces/{namespace}/pods"
        for i in range(48):
            made = cluster.kube.create(path, pod(f"pod-{i}", "50m", "64Mi", schedulerName="nobody"))
            replica = (extender, second)[i % 2]
            body = orjson.dumps({"Pod": made, "NodeNames": NODES})
            status, answer = replica.request("POST", "/prioritize", body)
            assert status == 200
            best = orjson.loads(answer)[0]["Host"]
            placed[best] += 1
            target = {"apiVersion": "v1", "kind": "Node", "name": best}
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": made["metadata"]["name"]},
                "target": target,
            }
            cluster.kube.create(f"{path}/{made['metadata']['name']}/binding", binding)
        assert max(placed.values()) <= 3 + 2, placed  # a fair share of 3, and one a replica
    finally:
        cluster.stop("second")


def restart_api_server(cluster: Lab) -> None:
    """Kill it and start the same command line again, three seconds later."""
    (pid_file,) = cluster.directory.glob("kwok/clusters/*/pids/kube-apiserver.pid")
    pid = int(pid_file.read_text())
    argv = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode().split("\0")
    os.kill(pid, signal.SIGKILL)
    time.sleep(3)

    def answers() -> bool:
        try:
            return bool(cluster.kube.get("/version"))
        except (ApiError, KubeUnreachable):
            return False

    cluster.start("kube-apiserver-again", argv, ready=answers, timeout_s=60)


def test_the_cache_survives_a_restart_of_the_api_server(
    cluster: Lab, extender: parts.ExtenderPart, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    cluster.kube.create(path, pod("before", "50m", "64Mi", nodeName="node-0"))
    restart_api_server(cluster)
    cluster.wait_for(extender.ready, "the extender to be ready again", 60)
    cluster.kube.create(path, pod("after", "4000m", "64Mi", nodeName="node-1"))

    def priced_in() -> bool:
        said = ask(extender, namespace, ["node-1"])
        assert said["valid"], said
        return bool(said["candidates"][0]["cpu_price"] < 1.05)

    cluster.wait_for(priced_in, "the pod bound after the restart to be priced in", 60)


def health(extender: parts.ExtenderPart, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", extender.health_port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_without_a_client_certificate_only_health_is_served(extender: parts.ExtenderPart) -> None:
    context = ssl.create_default_context(cafile=str(extender.certificates / "ca.crt"))

    def status(method: str, path: str) -> int:
        connection = http.client.HTTPSConnection("127.0.0.1", extender.port, timeout=5, context=context)
        try:
            connection.request(method, path, b"{}")
            return connection.getresponse().status
        finally:
            connection.close()

    assert [health(extender, path)[0] for path in ("/livez", "/readyz", "/metrics")] == [200, 200, 200]
    for method, path in (("POST", "/prioritize"), ("GET", "/livez"), ("GET", "/explain")):
        assert status(method, path) == 403, path
