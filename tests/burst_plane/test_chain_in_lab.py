"""The whole chain: a real control plane, the controller under its own account, HAProxy with balancer and
placement, and a node agent with real containers. Regular pods are KWOK's, behind the lab's traffic model."""

from __future__ import annotations

import copy
import http.client
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kwok.binaries import Binaries
from kwok.burst import plane
from kwok.burst.plane import Plane
from kwok.lab import Lab
from kwok.pods import wait_for_account
from kwok.traffic.live import Seen

pytestmark = [pytest.mark.lab, pytest.mark.real_node]

Json = dict[str, Any]
HELLO = "hello.default"
FUNCTION = "/apis/surgekit.dev/v1alpha1/namespaces/default/burstfunctions/hello"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/hello"
EMERGENCY = '"hello"'  # what a real container answers; a pod of the model answers with its name


@pytest.fixture(scope="module")
def chain(binaries: Binaries) -> Iterator[Plane]:
    if reason := plane.why_no_plane():
        pytest.skip(reason)
    with Lab.temporary("bc", instant_pods=True) as lab:
        lab.add_nodes(2, cpu="64", memory="64Gi")
        lab.start_scheduler()
        wait_for_account(lab.kube, "default")
        started = plane.start(lab, controller={"status_every_s": 1.0})
        lab.apply(plane.EXAMPLE)
        yield started


@pytest.fixture(autouse=True)
def _fresh(chain: Plane) -> None:
    """One regular instance, which is kept, and everything prepared."""
    chain.traffic.clients(HELLO, 0)
    spec = {"mode": "enforce", "variant": "best", "keepalive": "1h", "thresholdPercentile": 50}
    tune(chain, **spec, scaling={"via": "none"})
    chain.lab.kube.patch(f"{DEPLOYMENT}/scale", {"spec": {"replicas": 1}})
    until(chain, lambda: prepared(chain) and regular(chain) == 1, "one regular instance, and two prepared")
    until(chain, lambda: gateway_pods(chain) == 1, "the gateway to know the pod")
    until(chain, lambda: EMERGENCY in bodies(ask(chain, 4)), "the emergency track to answer")


def until(chain: Plane, condition: Callable[[], object], what: str) -> None:
    chain.lab.wait_for(lambda: bool(condition()), what, 120)


def tune(chain: Plane, **spec: Any) -> None:
    chain.lab.kube.patch(FUNCTION, {"spec": spec})


def status(chain: Plane) -> Json:
    found: Json = chain.lab.kube.get(FUNCTION).get("status") or {}
    return found


def condition(chain: Plane, type_: str) -> str:
    return next((c["reason"] for c in status(chain).get("conditions") or () if c["type"] == type_), "")


def prepared(chain: Plane) -> bool:
    return condition(chain, "Ready") == "Prepared" and status(chain)["emergency"]["prepared"] >= 2


def replicas(chain: Plane) -> int:
    return int(chain.lab.kube.get(DEPLOYMENT)["spec"]["replicas"])


def regular(chain: Plane) -> int:
    return int(chain.lab.kube.get(DEPLOYMENT).get("status", {}).get("readyReplicas", 0))


def gateway_pods(chain: Plane) -> int:
    """Pods that HAProxy may send to, as the balancer says."""
    connection = http.client.HTTPConnection("127.0.0.1", chain.traffic.gateway_metrics_port, timeout=10)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = [line for line in text.splitlines() if line.startswith("surgekit_function_pods{")]
    return int(float(found[0].rpartition(" ")[2])) if found else 0


def ask(chain: Plane, count: int = 1, host: str = HELLO) -> list[tuple[int, str]]:
    """So many requests at once."""

    def one(_: int) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", chain.traffic.gateway_port, timeout=90)
        try:
            connection.request("GET", "/", headers={"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def bodies(answers: list[tuple[int, str]]) -> list[str]:
    assert [code for code, _ in answers] == [200] * len(answers), answers
    return [body for _, body in answers]


def seen(chain: Plane) -> Seen:
    return chain.traffic.sample()[HELLO]


def idle(chain: Plane) -> Seen:
    """End the load; what it saw in all."""
    chain.traffic.clients(HELLO, 0)
    until(chain, lambda: seen(chain).in_flight == 0, "the last requests")
    return seen(chain)


def nothing_runs(chain: Plane) -> bool:
    """Every container that is left waits for a request."""
    return bool(len(chain.containers()) == status(chain)["emergency"]["prepared"])


def test_what_finds_no_slot_is_answered_by_instances_that_are_gone_afterwards(chain: Plane) -> None:
    started = status(chain)["emergency"]["started"]
    there = chain.containers()
    answers = bodies(ask(chain, 3))
    assert EMERGENCY in answers
    assert [body for body in answers if body != EMERGENCY], "the free pod took one"
    until(chain, lambda: status(chain)["emergency"]["started"] > started, "the status to count the starts")
    until(chain, lambda: prepared(chain) and nothing_runs(chain), "the instances to be gone")
    assert there - chain.containers(), "each was used once"


def test_one_request_at_a_time_needs_no_instance(chain: Plane) -> None:
    """The pool may change meanwhile; what answers tells."""
    assert EMERGENCY not in [bodies(ask(chain))[0] for _ in range(20)]


def test_the_scale_follows_and_from_zero_the_emergency_track_answers(chain: Plane) -> None:
    tune(chain, variant="paper", keepalive="6s", scaling={"via": "scale"})  # its numbers are as said
    chain.traffic.clients(HELLO, 4)
    until(chain, lambda: replicas(chain) == 6, "4 at once, 0.7 an instance")
    load = idle(chain)
    assert load.errors == {}
    until(chain, lambda: replicas(chain) == 0, "no regular instance after the keepalive")
    until(chain, lambda: gateway_pods(chain) == 0, "the gateway to forget the last pod")
    # Gaps of more than the keepalive: an instance would not be used again, so nothing counts.
    tune(chain, keepalive="1s", thresholdPercentile=100)
    until(chain, lambda: not status(chain)["interArrivals"]["counts"], "the filter to say no")
    for _ in range(3):
        assert bodies(ask(chain)) == [EMERGENCY]
    assert replicas(chain) == 0
    tune(chain, keepalive="30s", thresholdPercentile=1)
    until(chain, lambda: status(chain)["interArrivals"]["counts"], "the filter to say yes")
    until(chain, lambda: bodies(ask(chain, 2)) and replicas(chain) > 0, "excess traffic to count")


def test_off_ends_it_all(chain: Plane) -> None:
    tune(chain, keepalive="6s", scaling={"via": "scale"})
    until(chain, lambda: replicas(chain) == 0, "no regular instance")
    tune(chain, mode="off")
    until(chain, lambda: condition(chain, "Overflow") == "Off", "the status to say so")
    until(chain, lambda: chain.containers() == set(), "nothing is prepared")
    assert replicas(chain) == 1
    answers = bodies(ask(chain, 5))
    assert EMERGENCY not in answers


def test_shadow_starts_nothing(chain: Plane) -> None:
    tune(chain, mode="shadow")
    until(chain, lambda: condition(chain, "Overflow") == "Shadow", "the status to say so")
    until(chain, lambda: chain.containers() == set(), "nothing is prepared")
    assert EMERGENCY not in bodies(ask(chain, 5))
    until(chain, lambda: status(chain)["emergency"]["refused"] > 0, "what would have been placed is counted")


def test_a_cap_of_none_is_kept(chain: Plane) -> None:
    tune(chain, mostInstances=0)
    try:
        until(chain, lambda: EMERGENCY not in bodies(ask(chain, 4)), "the cap to hold")
        assert EMERGENCY not in bodies(ask(chain, 8))
    finally:
        tune(chain, mostInstances=10)


def test_an_annotation_and_a_label_are_enough(chain: Plane) -> None:
    """Another Deployment; its BurstFunction is the controller's, and goes with the annotation."""
    kube, deployments = chain.lab.kube, "/apis/apps/v1/namespaces/default/deployments"
    spec = copy.deepcopy(kube.get(DEPLOYMENT)["spec"])
    labels = {"app": "greet", "lab.surgekit.dev/function": "hello"}
    spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"] = {"app": "greet"}, labels
    metadata = {"name": "greet", "annotations": {"surgekit.dev/burst": "enforce"}}
    kube.create(deployments, {"metadata": metadata, "spec": spec})
    service = {
        "metadata": {"name": "greet", "labels": {"surgekit.dev/burst-function": "greet"}},
        "spec": {"selector": {"app": "greet"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    }
    kube.create("/api/v1/namespaces/default/services", service)
    functions = "/apis/surgekit.dev/v1alpha1/namespaces/default/burstfunctions"
    until(chain, lambda: len(kube.list_all(functions)[0]) == 2, "its BurstFunction")

    def answers() -> list[str]:
        return [body for _, body in ask(chain, 4, "greet.default")]

    until(chain, lambda: EMERGENCY in answers(), "the emergency track to answer")
    kube.patch(f"{deployments}/greet", {"metadata": {"annotations": None}})
    until(chain, lambda: len(kube.list_all(functions)[0]) == 1, "the BurstFunction to go")
    until(chain, lambda: EMERGENCY not in answers(), "the regular track alone to answer")
    kube.delete(f"{deployments}/greet")
    kube.delete("/api/v1/namespaces/default/services/greet")


def test_a_killed_agent_loses_no_request_that_came_after(chain: Plane) -> None:
    chain.traffic.clients(HELLO, 4)
    until(chain, lambda: seen(chain).answered > 20, "some answers")
    idle(chain)
    os.kill(pid := chain.agent_pid, signal.SIGKILL)
    assert len(bodies(ask(chain, 5))) == 5
    until(chain, lambda: chain.agent_pid != pid, "the agent to be started again")
    until(chain, lambda: prepared(chain) and nothing_runs(chain), "all to be prepared again, and no orphan")
    until(chain, lambda: EMERGENCY in bodies(ask(chain, 4)), "the emergency track to answer")


def test_a_killed_placement_loses_no_request(chain: Plane) -> None:
    before = seen(chain).errors if HELLO in chain.traffic.sample() else {}
    chain.traffic.clients(HELLO, 4)
    until(chain, lambda: seen(chain).answered > 20, "some answers")
    chain.lab.kill("burst-placement")
    answered = seen(chain).answered
    until(chain, lambda: seen(chain).answered > answered + 20, "answers by the regular track alone")
    chain.start_placement()
    load = idle(chain)
    assert load.errors == before
    until(chain, lambda: EMERGENCY in bodies(ask(chain, 4)), "the emergency track to answer")


def test_without_a_controller_requests_go_on_overflowing(chain: Plane) -> None:
    before = seen(chain).errors if HELLO in chain.traffic.sample() else {}
    chain.traffic.clients(HELLO, 3)
    chain.lab.kill("burst-controller")
    answered = seen(chain).answered
    until(chain, lambda: seen(chain).answered > answered + 20, "answers without a controller")
    load = idle(chain)
    assert load.errors == before
    assert EMERGENCY in bodies(ask(chain, 4))
    chain.start_controller({"status_every_s": 1.0})
    until(chain, lambda: prepared(chain) and nothing_runs(chain), "the next leader to take over")
