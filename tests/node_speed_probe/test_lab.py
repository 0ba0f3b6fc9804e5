"""The probe as a process under its own service account, against a real API server and the node model."""

from __future__ import annotations

import itertools
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwok import parts
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.physics import MEASURED, NodeSpeed
from kwok.pods import pod
from kwok.scenario import Image, Scenario
from node_speed_probe.controller import LEASE_NAME
from node_speed_probe.publication import PATH
from surgekit.kube.client import ApiError, Kube

pytestmark = pytest.mark.lab

IMAGE = "registry.example/app:1"
TRUTH_S = {"node-0": 0.25, "node-1": 0.5, "node-2": 0.75}
UNSEEN = "node-3"
NUMBERS = itertools.count()
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{parts.NAMESPACE}/leases/{LEASE_NAME}"


@pytest.fixture(scope="module")
def installed(lab: Lab) -> Lab:
    parts.install(lab)
    return lab


@pytest.fixture
def model(node_model: Callable[[Scenario], object], installed: Lab) -> None:
    speeds = {name: NodeSpeed(tau_s, 0.2) for name, tau_s in TRUTH_S.items()}
    images = {IMAGE: Image(1.0, 123_456)}
    node_model(Scenario(0, speeds, NodeSpeed(0.5, 0.2), images=images, physics=replace(MEASURED, spread=0.0)))


@pytest.fixture
def probe(installed: Lab, model: None) -> Iterator[None]:
    start(installed, "probe")
    yield
    installed.stop("probe")
    for obj in installed.kube.list_all(PATH)[0]:
        installed.kube.delete(f"{PATH}/{obj['metadata']['name']}")


def start(lab: Lab, name: str, **settings: Any) -> int:
    """Start a replica as the Deployment would, with the account of the manifests; its port."""
    port = lab.free_port()
    given = {"publish_interval_s": 0.5, "hung_after_s": 5.0, "health_bind": f"127.0.0.1:{port}", **settings}
    file = lab.directory / f"{name}.settings.yaml"
    file.write_text(yaml.safe_dump(given))
    account = lab.account_kubeconfig(parts.NAMESPACE, "surgekit-probe")
    argv: list[str | Path] = [sys.executable, "-m", "surgekit", "serve", "probe"]
    argv += ["--settings", file, "--kubeconfig", account]
    lab.start(name, argv, ready=lambda: get(port, "/readyz") == "ok", port=port)
    return port


def get(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return str(error.read().decode())
    except OSError as error:
        return str(error)


def create(lab: Lab, namespace: str, node: str, count: int, fate: str = "", containers: int = 1) -> list[str]:
    """Pods bound from the start: the probe cannot tell, and no scheduler has a say."""
    names = [f"{node}-{next(NUMBERS)}" for _ in range(count)]
    labels = {"lab.surgekit.dev/fate": fate} if fate else {}
    for name in names:
        body = pod(name, "10m", "16Mi", IMAGE, labels, nodeName=node)
        body["spec"]["containers"] = [
            body["spec"]["containers"][0] | {"name": f"app-{i}"} for i in range(containers)
        ]
        lab.kube.create(f"/api/v1/namespaces/{namespace}/pods", body)
    return names


def await_running(lab: Lab, namespace: str, names: list[str]) -> None:
    def running() -> bool:
        pods, _ = lab.kube.list_all(f"/api/v1/namespaces/{namespace}/pods")
        return set(names) <= {p["metadata"]["name"] for p in pods if p["status"].get("phase") == "Running"}

    lab.wait_for(running, f"{len(names)} pods to run", 60.0)


def bursts(lab: Lab, namespace: str, rounds: int, fates: tuple[str, ...] = ()) -> None:
    """Five pods at once on every node, again and again; with bad ones among them."""
    for number in range(rounds):
        good = [n for node in TRUTH_S for n in create(lab, namespace, node, 4)]
        good += [n for node in TRUTH_S for n in create(lab, namespace, node, 1, containers=2)]
        if fates:
            for node in TRUTH_S:
                create(lab, namespace, node, 1, fates[number % len(fates)])
        await_running(lab, namespace, good)


def speeds(lab: Lab) -> dict[str, dict[str, Any]]:
    return {o["metadata"]["name"]: o.get("status", {}) for o in lab.kube.list_all(PATH)[0]}


def errors(lab: Lab) -> dict[str, float]:
    found = speeds(lab)
    return {
        node: found.get(node, {}).get("tauCreateSeconds", 99.0) / tau_s - 1.0
        for node, tau_s in TRUTH_S.items()
    }


def settled(lab: Lab) -> dict[str, float]:
    """Measured speeds, once none has changed for 3 s: all samples are in, however busy the cores are."""
    since_s, last = time.monotonic(), dict[str, float]()

    def unchanged() -> bool:
        nonlocal since_s, last
        found = {n: s["tauCreateSeconds"] for n, s in speeds(lab).items() if s.get("source") == "measured"}
        now = {node: found[node] for node in TRUTH_S}  # KeyError: not yet
        if now != last:
            since_s, last = time.monotonic(), now
        return time.monotonic() - since_s >= 3.0

    lab.wait_for(unchanged, "speeds that do not change", 60.0)
    return last


def learn(lab: Lab, namespace: str, rounds: int, within: float, fates: tuple[str, ...] = ()) -> None:
    """Bursts until the published speeds are the true ones: a few more where busy cores disturbed some."""
    bursts(lab, namespace, rounds, fates)
    time.sleep(1.5)  # a round of the probe, and its writes: what is published is of now
    for _ in range(6):
        try:
            lab.wait_for(lambda: all(abs(e) < within for e in errors(lab).values()), "true speeds", 5.0)
        except LabError:
            bursts(lab, namespace, 1, fates)
        else:
            return
    raise AssertionError(errors(lab))


def test_published_speeds_are_the_nodes_true_ones_whatever_else_happens(
    installed: Lab, probe: None, namespace: str
) -> None:
    lab = installed
    learn(lab, namespace, 3, 0.15)
    found = speeds(lab)
    for node in TRUTH_S:
        assert found[node]["source"] == "measured"
        assert found[node]["conditions"][0]["status"] == "True"
        assert found[node]["imagePulls"][0] == {"image": IMAGE, "seconds": 1.0, "sizeBytes": 123_456}
    assert found[UNSEEN]["source"] == "prior"
    assert found[UNSEEN]["conditions"][0]["reason"] == "PriorOfPeers"
    assert found[UNSEEN]["tauCreateSeconds"] == pytest.approx(0.5, rel=0.25)
    assert found[UNSEEN]["tauCreateRelativeError"] > found["node-1"]["tauCreateRelativeError"]
    assert "TAU" in lab.kubectl("get", "nsp")

    learn(lab, namespace, 4, 0.25, ("fail", "hang", "restart", "pull-error"))


def test_a_resize_is_timed(installed: Lab, probe: None, namespace: str) -> None:
    lab = installed
    [name] = create(lab, namespace, "node-0", 1)
    await_running(lab, namespace, [name])
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/resize"

    def published_s() -> float:
        found: float = speeds(lab).get("node-0", {}).get("tauResizeSeconds", 99.0)
        return found

    for cpu in ("20m", "30m", "40m", "50m", "60m"):  # more than one where busy cores disturb the first
        resources = {"requests": {"cpu": cpu, "memory": "16Mi"}}
        patch = {"spec": {"containers": [{"name": "app-0", "resources": resources}]}}
        lab.kube.patch(path, patch, content_type="application/strategic-merge-patch+json")
        try:
            lab.wait_for(lambda: abs(published_s() - 0.2) <= 0.15, "tau_u", 5.0)
        except LabError:
            continue
        return
    raise AssertionError(published_s())


def test_the_object_goes_with_its_node(installed: Lab, probe: None) -> None:
    lab = installed
    [node] = lab.add_nodes(1, prefix="passing")
    lab.wait_for(lambda: node in speeds(lab), "its NodeSpeed", 60.0)
    lab.kube.delete(f"/api/v1/nodes/{node}")
    lab.wait_for(lambda: node not in speeds(lab), "the garbage collector", 60.0)


def test_a_second_replica_takes_over_and_a_restart_remembers(
    installed: Lab, probe: None, namespace: str
) -> None:
    lab = installed
    bursts(lab, namespace, 2)
    learnt = settled(lab)
    first = lab.kube.get(LEASE)["spec"]["holderIdentity"]
    start(lab, "probe-2")
    try:
        assert lab.kube.get(LEASE)["spec"]["holderIdentity"] == first
        lab.stop("probe")
        lab.wait_for(
            lambda: lab.kube.get(LEASE)["spec"]["holderIdentity"] not in ("", first), "the lease", 14.0
        )
        time.sleep(2.0)  # a few rounds of the new leader
        assert settled(lab) == pytest.approx(learnt, rel=0.1), "without a new sample"
    finally:
        lab.stop("probe-2")


def test_shadow_measures_and_writes_nothing(installed: Lab, model: None, namespace: str) -> None:
    lab = installed
    port = start(lab, "shadow", mode="shadow")
    try:
        bursts(lab, namespace, 1)
        measured = 'surgekit_probe_tau_create_relative_error{node="node-1"} 0.'  # 1.0: a guess
        lab.wait_for(lambda: measured in get(port, "/metrics"), measured)
        assert "surgekit_probe_leader" not in get(port, "/metrics"), "nobody leads"
        assert speeds(lab) == {}
    finally:
        lab.stop("shadow")


def test_the_account_can_do_no_more_than_it_needs(installed: Lab) -> None:
    kube = Kube.connect(installed.account_kubeconfig(parts.NAMESPACE, "surgekit-probe"))
    with pytest.raises(ApiError, match="403"):
        kube.delete(f"{PATH}/node-0")
    with pytest.raises(ApiError, match="403"):
        kube.list_all("/api/v1/secrets")
