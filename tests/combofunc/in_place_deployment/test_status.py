"""What an InPlaceDeployment's status says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from combofunc.in_place_deployment.spec import InPlaceDeployment, SpecError, read
from combofunc.in_place_deployment.status import REASONS, Counts, Progress, invalid_status, status_of
from tests.combofunc.in_place_deployment.test_spec import deployment
from tests.paths import ROOT

CRD = ROOT / "manifests" / "combofunc" / "inplacedeployment.yaml"
WEB = read(deployment(replicas=4))
PAUSED = replace(WEB, paused=True)


def test_a_status_and_that_it_stays() -> None:
    first = status_of(WEB, {}, Progress(Counts(4, 3, 2, 1)), 1000.0)
    assert {k: v for k, v in first.items() if k != "conditions"} == {
        "observedGeneration": 2,
        "selector": "surgekit.dev/inplacedeployment=web",
        "replicas": 4,
        "readyReplicas": 3,
        "updatedReplicas": 2,
        "resizingReplicas": 1,
    }
    assert status_of(WEB, first, Progress(Counts(4, 3, 2, 1)), 2000.0) == first
    assert status_of(WEB, first, Progress(Counts(4, 4, 4)), 2000.0) != first


CASES = [
    (WEB, Counts(4, 4, 4), "", ("True", "Ready"), ("True", "Resized")),
    (WEB, Counts(4, 4, 3), "", ("True", "Rolling"), ("True", "Resized")),
    (WEB, Counts(5, 5, 4), "", ("True", "Rolling"), ("True", "Resized")),
    (WEB, Counts(4, 3, 4), "", ("False", "Progressing"), ("True", "Resized")),
    (WEB, Counts(4, 4, 2, 2), "", ("True", "Rolling"), ("False", "Resizing")),
    (WEB, Counts(4, 4, 2, 2, 1), "", ("True", "Rolling"), ("False", "Deferred")),
    (WEB, Counts(4, 4, 2, 2, 1, 1), "", ("True", "Rolling"), ("False", "Replacing")),
    (WEB, Counts(4, 4, 2, 2, 2, 0, 1), "", ("True", "Rolling"), ("False", "Replacing")),
    (WEB, Counts(4, 4, 3, keeping=1), "", ("True", "Ready"), ("False", "MemoryInUse")),
    (WEB, Counts(4, 4, 2, 1, keeping=1), "", ("True", "Rolling"), ("False", "MemoryInUse")),
    (WEB, Counts(0, 0, 0), "pods is forbidden", ("False", "Failing"), ("True", "Resized")),
    (PAUSED, Counts(3, 3, 3), "", ("False", "Paused"), ("True", "Resized")),
]


@pytest.mark.parametrize(("one", "pods", "failure", "ready", "resized"), CASES)
def test_what_is_said(
    one: InPlaceDeployment, pods: Counts, failure: str, ready: tuple[str, str], resized: tuple[str, str]
) -> None:
    status = status_of(one, {}, Progress(pods, "1 to go", failure), 1000.0)
    said = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
    assert said == {"Valid": ("True", "Valid"), "Ready": ready, "Resized": resized}
    (why,) = [c["message"] for c in status["conditions"] if c["type"] == "Ready"]
    assert (failure or "1 to go") in why or one.paused


def test_what_becomes_of_each_resize_is_said() -> None:
    counts = Counts(4, 4, 0, resizing=4, deferred=2, infeasible=1, overdue=1)
    status = status_of(WEB, {}, Progress(counts), 1000.0)
    (resized,) = [c for c in status["conditions"] if c["type"] == "Resized"]
    assert resized["message"] == (
        "1 can never have the new size on their node and are replaced, "
        "1 waited too long for room on its node and is replaced, "
        "1 wait for room on their node, which the kubelet tries again, 1 are being resized"
    )


def test_a_spec_that_cannot_be_read_leaves_the_rest_of_the_status() -> None:
    patch = invalid_status(deployment(), SpecError(("spec.replicas: must be",)), 1000.0)
    assert set(patch) == {"observedGeneration", "conditions"}
    assert {(c["status"], c["reason"]) for c in patch["conditions"]} == {("False", "InvalidSpec")}
    assert [c["type"] for c in patch["conditions"]] == list(REASONS)


def test_every_reason_is_said_and_explained_to_users() -> None:
    said = {("Ready", ready[1]) for *_, ready, _ in CASES} | {
        ("Resized", resized[1]) for *_, resized in CASES
    }
    said |= {(type_, "InvalidSpec") for type_ in REASONS} | {("Valid", "Valid")}
    assert said == {(type_, reason) for type_, reasons in REASONS.items() for reason in reasons}
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    condition = schema["properties"]["status"]["properties"]["conditions"]["items"]["properties"]
    for type_, reasons in REASONS.items():
        assert type_ in condition["type"]["description"]
        for reason in reasons:
            assert reason in condition["reason"]["description"]
