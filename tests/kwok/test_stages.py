"""Every KWOK stage against a real KWOK: an object goes in, its status comes out as in the golden file.

Inputs and golden files are in tests/kwok/stages; `pytest --update-golden` renews the latter.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwok.cluster import stage_files
from kwok.lab import Lab
from kwok.node_model_process import CREATED, FATE
from surgekit.kube.client import ApiError
from surgekit.kube.watch import Watch

pytestmark = pytest.mark.lab

Json = dict[str, Any]
FILES = Path(__file__).parent / "stages"
RUN_FOR, BACK_OFF = "lab.surgekit.dev/run-for", "lab.surgekit.dev/back-off"


def first_state(pod: Json) -> Json:
    statuses = pod["status"].get("containerStatuses") or [{"state": {}}]
    state: Json = statuses[0]["state"]
    return state


def waits(reason: str) -> Callable[[Json], bool]:
    return lambda pod: first_state(pod).get("waiting", {}).get("reason") == reason


def is_ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


def in_phase(phase: str) -> Callable[[Json], bool]:
    return lambda pod: bool(pod["status"]["phase"] == phase)


def has_restarted(pod: Json) -> bool:
    return is_ready(pod) and bool(pod["status"]["containerStatuses"][0]["restartCount"] == 1)


@dataclass(frozen=True)
class Case:
    """`until` says when the stage has been played."""

    stage: str
    file: str
    until: Callable[[Json], bool]
    created: bool = False  # whether the node model would have said so
    labels: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=dict)
    instant: bool = False

    def __str__(self) -> str:
        return f"{self.stage}.{self.file}"


CASES = [
    Case("pod-create", "plain", waits("ContainerCreating")),
    Case("pod-create", "sidecar", waits("PodInitializing")),
    Case("pod-ready", "plain", is_ready, created=True),
    Case("pod-ready", "sidecar", is_ready, created=True),
    Case("pod-complete", "job", in_phase("Succeeded"), created=True),
    Case("pod-fate-fail", "plain", in_phase("Failed"), created=True, labels={FATE: "fail"}),
    Case("pod-fate-pull-error", "plain", waits("ErrImagePull"), labels={FATE: "pull-error"}),
    Case("pod-fate-pull-back-off", "plain", waits("ImagePullBackOff"), labels={FATE: "pull-error"}),
    Case(
        "pod-fate-restart", "plain", waits("CrashLoopBackOff"), created=True,
        labels={FATE: "restart"}, annotations={RUN_FOR: "200ms", BACK_OFF: "1h"},
    ),
    Case(
        "pod-fate-restarted", "plain", has_restarted, created=True,
        labels={FATE: "restart"}, annotations={RUN_FOR: "2s", BACK_OFF: "200ms"},
    ),
    Case("pod-ready-instant", "plain", is_ready, instant=True),
    Case("pod-ready-instant", "sidecar", is_ready, instant=True),
]  # fmt: skip
# Stages with a test of their own below, since more happens than one pod coming in.
OTHERS = {
    "node-initialize", "node-heartbeat-with-lease", "pod-delete", "pod-delete-drained", "pod-resize-instant",
}  # fmt: skip


class States:
    """Every state pods were in, also one that is over before somebody who asks again and again sees it."""

    def __init__(self) -> None:
        self.seen: list[Json] = []

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        self.seen += objects

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        self.seen.append(obj)


@contextmanager
def watching(lab: Lab, namespace: str) -> Iterator[States]:
    states = States()
    watch = Watch(lab.kube, f"/api/v1/namespaces/{namespace}/pods", states).start()
    try:
        lab.wait_for(watch.synced.is_set, "the watch of the pods")
        yield states
    finally:
        watch.stop()


def test_every_stage_has_a_test() -> None:
    stages = {file.stem for instant in (True, False) for file in stage_files(instant)}
    assert {case.stage for case in CASES} | OTHERS == stages


@pytest.fixture(scope="module")
def instant_lab(lab: Lab) -> Iterator[Lab]:
    """A second lab beside the session's, whose pods are Ready at once."""
    with Lab.temporary("test", instant_pods=True) as instant:
        instant.add_nodes(2)
        instant.wait_for(
            lambda: bool(instant.kube.list_all("/api/v1/namespaces/default/serviceaccounts")[0]),
            "service account",
        )
        yield instant


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, Json], None]:
    """Compares a status with the golden file of that name, or renews the file."""

    def compare(name: str, status: Json) -> None:
        text = yaml.safe_dump(_without_times_and_addresses(status), sort_keys=True)
        file = FILES / f"{name}.golden.yaml"
        if request.config.getoption("--update-golden"):
            file.write_text(text)
        assert text == file.read_text(), f"{file.name} differs; --update-golden renews it"

    return compare


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pod_stage(
    case: Case, lab: Lab, namespace: str, request: pytest.FixtureRequest, golden: Callable[[str, Json], None]
) -> None:
    if case.instant:
        lab, namespace = request.getfixturevalue("instant_lab"), "default"
    with watching(lab, namespace) as states:
        path = create(lab, namespace, case.file, case.labels, case.annotations)
        if case.created:
            annotate(lab, path, CREATED)
        name = path.rpartition("/")[2]

        def played() -> Json | None:
            return next((p for p in states.seen if p["metadata"]["name"] == name and case.until(p)), None)

        lab.wait_for(lambda: played() is not None, path)
    pod = played()
    assert pod
    golden(str(case), pod["status"])


def test_a_pod_told_to_hang_is_never_created(lab: Lab, namespace: str) -> None:
    path = create(lab, namespace, "plain", {FATE: "hang"})
    annotate(lab, path, CREATED)
    wait_until(lab, path, waits("ContainerCreating"))
    time.sleep(1)
    assert waits("ContainerCreating")(lab.kube.get(path))


def test_pod_delete(lab: Lab, namespace: str) -> None:
    """With the ordinary grace period: the node acknowledges, as a kubelet does."""
    path = create(lab, namespace, "plain")
    wait_until(lab, path, waits("ContainerCreating"))
    lab.kube.delete(path)
    lab.wait_for(lambda: is_gone(lab, path), "the pod's end")


def test_a_pod_of_knative_stays_until_it_has_drained(lab: Lab, namespace: str) -> None:
    drains = create(lab, namespace, "plain", {"serving.knative.dev/revisionUID": "1"})
    other = create(lab, namespace, "plain", name="other")
    for path in (drains, other):
        wait_until(lab, path, waits("ContainerCreating"))
        lab.kube.delete(path)
    lab.wait_for(lambda: is_gone(lab, other), "the other pod's end")
    assert "deletionTimestamp" in lab.kube.get(drains)["metadata"]
    annotate(lab, drains, "lab.surgekit.dev/drained")
    lab.wait_for(lambda: is_gone(lab, drains), "the pod's end")


def test_pod_resize_instant(instant_lab: Lab, golden: Callable[[str, Json], None]) -> None:
    path = create(instant_lab, "default", "plain", name="resized")
    wait_until(instant_lab, path, is_ready)
    resize(instant_lab, path)
    pod = wait_until(instant_lab, path, lambda pod: allocated_cpu(pod) == "750m")
    golden("pod-resize-instant.plain", pod["status"])


def test_node_stages(lab: Lab, golden: Callable[[str, Json], None]) -> None:
    node = lab.kube.create("/api/v1/nodes", yaml.safe_load((FILES / "node.yaml").read_text()))
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    try:
        first = wait_until(lab, path, is_ready)
        golden("node-initialize.node", first["status"])
        later = wait_until(lab, path, lambda node: heartbeat(node) > heartbeat(first))
        golden("node-heartbeat-with-lease.node", later["status"])
        changed = [c["lastTransitionTime"] for c in later["status"]["conditions"]]
        assert changed == [c["lastTransitionTime"] for c in first["status"]["conditions"]]
    finally:
        lab.kube.delete(path)


def create(
    lab: Lab, namespace: str, file: str, labels: Json | None = None, annotations: Json | None = None,
    name: str | None = None,
) -> str:  # fmt: skip
    """The pod of an input file; the path it is found at."""
    body = yaml.safe_load((FILES / f"{file}.yaml").read_text())
    if body["kind"] == "Job":
        lab.kube.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", body)
        path = f"/api/v1/namespaces/{namespace}/pods"
        lab.wait_for(lambda: bool(lab.kube.list_all(path)[0]), "the job's pod")
        return f"{path}/{lab.kube.list_all(path)[0][0]['metadata']['name']}"
    body["metadata"] |= {"labels": labels or {}, "annotations": annotations or {}}
    body["metadata"]["name"] = name or body["metadata"]["name"]
    lab.kube.create(f"/api/v1/namespaces/{namespace}/pods", body)
    return f"/api/v1/namespaces/{namespace}/pods/{body['metadata']['name']}"


def annotate(lab: Lab, path: str, key: str, value: str = "0.000") -> None:
    lab.kube.patch(path, {"metadata": {"annotations": {key: value}}})


def resize(lab: Lab, path: str) -> Json:
    containers = [{"name": "function", "resources": {"requests": {"cpu": "750m"}}}]
    return lab.kube.patch(
        f"{path}/resize", {"spec": {"containers": containers}}, "application/strategic-merge-patch+json"
    )


def wait_until(lab: Lab, path: str, condition: Callable[[Json], bool]) -> Json:
    found: Json = {}

    def look() -> bool:
        found.update(lab.kube.get(path))
        return condition(found)

    lab.wait_for(look, path)
    return found


def is_gone(lab: Lab, path: str) -> bool:
    try:
        lab.kube.get(path)
    except ApiError as error:
        return error.code == 404
    return False


def allocated_cpu(pod: Json) -> str:
    text: str = pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"]
    return text


def heartbeat(node: Json) -> str:
    text: str = node["status"]["conditions"][0]["lastHeartbeatTime"]
    return text


def _without_times_and_addresses(value: Any) -> Any:
    """What differs from run to run, by its form."""
    if isinstance(value, dict):
        return {key: _without_times_and_addresses(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_times_and_addresses(item) for item in value]
    if isinstance(value, str):
        value = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>", value)
        value = re.sub(r"\b(10|172)(\.\d+){3}\b", "<address>", value)
        return re.sub(r"kwok://[0-9a-f]{64}", "<container>", value)
    return value
