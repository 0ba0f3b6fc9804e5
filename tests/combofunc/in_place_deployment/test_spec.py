"""An InPlaceDeployment as values: what is read, what is refused, and what the hash tells apart."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from combofunc.in_place_deployment.spec import MAX_REPLICAS, SpecError, read
from tests.paths import ROOT

CRD = ROOT / "manifests" / "combofunc" / "inplacedeployment.yaml"
CONTAINER: dict[str, Any] = {
    "name": "c",
    "image": "i:1",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web", "tier": "front"}},
    "spec": {"containers": [CONTAINER]},
}


def deployment(**spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": "web", "uid": "u-1", "generation": 2}
    return {"metadata": metadata, "spec": copy.deepcopy({"template": TEMPLATE} | spec)}


def rolling(**changed: Any) -> dict[str, Any]:
    return {"strategy": {"rollingUpdate": changed}}


def pod(**changed: Any) -> dict[str, Any]:
    return {"template": TEMPLATE | {"spec": {"containers": [CONTAINER | changed]}}}


def test_what_is_read() -> None:
    """As fig. 10b has it: no selector, no strategy."""
    read_one = read(deployment(replicas=4))
    assert (read_one.key, read_one.uid, read_one.generation) == ("shop/web", "u-1", 2)
    assert read_one.status_path == "/apis/surgekit.dev/v1alpha1/namespaces/shop/inplacedeployments/web/status"
    assert read_one.selector == "surgekit.dev/inplacedeployment=web"
    assert (read_one.replicas, read_one.max_unavailable, read_one.max_surge) == (4, 1, 1)
    assert (read_one.drain_s, read_one.paused) == (30.0, False)
    selected = read(deployment(selector={"matchLabels": {"tier": "front", "app": "web"}}, drain="1m"))
    assert (selected.selector, selected.replicas, selected.drain_s) == ("app=web,tier=front", 1, 60.0)


@pytest.mark.parametrize(
    ("replicas", "max_unavailable", "max_surge", "pods"),
    [
        (10, "25%", "25%", (2, 3)),
        (1, "25%", "25%", (0, 1)),
        (0, "25%", "25%", (1, 0)),
        (3, "10%", "0%", (1, 0)),  # comes to nothing, and one may be missing
        (3, 0, 1, (0, 1)),
        (3, "0", "1", (0, 1)),
        (3, "0%", 2, (0, 2)),
        (3, 5, "100%", (5, 3)),
    ],
)
def test_shares_are_rounded_as_a_deployments_are(
    replicas: int, max_unavailable: object, max_surge: object, pods: tuple[int, int]
) -> None:
    spec = rolling(maxUnavailable=max_unavailable, maxSurge=max_surge)
    found = read(deployment(replicas=replicas, **spec))
    assert (found.max_unavailable, found.max_surge) == pods


OUR_GATE = {"name": "surgekit.dev/planned-placement"}

# Each with the field that must be named. tests/manifests/test_combofuncs.py sends the same to an API server.
WRONG: list[tuple[dict[str, Any], str]] = [
    *(({"replicas": r}, "spec.replicas") for r in (-1, 1_000_000, "1", 1.5)),
    ({"template": None}, "spec.template"),
    ({"template": {"spec": {"containers": []}}}, "spec.template.spec.containers"),
    (pod(image=None), "spec.template.spec.containers[0].image"),
    ({"template": {"spec": TEMPLATE["spec"] | {"nodeName": "n"}}}, "spec.template.spec.nodeName"),
    (
        {"template": {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}},
        "spec.template.spec.restartPolicy",
    ),
    *(
        ({"template": TEMPLATE | {"metadata": {"labels": {label: "x"}}}}, "spec.template.metadata.labels")
        for label in ("surgekit.dev/inplacedeployment", "surgekit.dev/serving", "surgekit.dev/template")
    ),
    *(
        (
            {"template": TEMPLATE | {"metadata": TEMPLATE["metadata"] | {"annotations": {annotation: "x"}}}},
            "spec.template.metadata.annotations",
        )
        for annotation in (
            "surgekit.dev/planned-node",
            "surgekit.dev/draining-since",
            "surgekit.dev/size-offer",
        )
    ),
    (
        {"template": TEMPLATE | {"spec": TEMPLATE["spec"] | {"schedulingGates": [OUR_GATE]}}},
        "spec.template.spec.schedulingGates",
    ),
    ({"selector": {}}, "spec.selector.matchLabels"),
    ({"selector": {"matchLabels": {}}}, "spec.selector.matchLabels"),
    ({"selector": {"matchLabels": {"app": "other"}}}, "spec.selector"),
    ({"selector": {"matchLabels": {"other": "web"}}}, "spec.selector"),
    *(
        (rolling(**{key: value}), f"spec.strategy.rollingUpdate.{key}")
        for key in ("maxUnavailable", "maxSurge")
        for value in (-1, "-1", "101%", "some", "", "1.5", True, 1.5)
    ),
    *(
        (rolling(maxUnavailable=u, maxSurge=s), "spec.strategy.rollingUpdate.maxUnavailable")
        for u, s in ((0, 0), ("0%", 0), ("0", "00%"))
    ),
    *(({"drain": d}, "spec.drain") for d in ("-1s", "61m", "30", 30)),
    ({"paused": "yes"}, "spec.paused"),
]


@pytest.mark.parametrize(("spec", "where"), WRONG, ids=str)
def test_nonsense_is_refused_and_the_field_named(spec: dict[str, Any], where: str) -> None:
    with pytest.raises(SpecError) as error:
        read(deployment(**spec))
    assert any(problem.startswith(where) for problem in error.value.problems)


BURSTABLE = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}
GUARANTEED = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}}


# As a real API server answers a resize; but that adding an amount is rolled, too.
@pytest.mark.parametrize(
    ("before", "after", "in_place"),
    [
        (BURSTABLE, {"requests": {"cpu": "1500m", "memory": "2Gi"}, "limits": {"cpu": "3"}}, True),
        (BURSTABLE, {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"cpu": "2"}}, True),
        (BURSTABLE, {"requests": {"cpu": "1", "memory": "1Gi"}}, False),  # limits cannot be removed
        (BURSTABLE, {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, False),  # nor requests
        (BURSTABLE, BURSTABLE | {"limits": {"cpu": "2", "memory": "2Gi"}}, False),
        (BURSTABLE, BURSTABLE | {"claims": [{"name": "gpu"}]}, False),
        ({}, BURSTABLE, False),  # the QoS class may not change
        (
            GUARANTEED,
            {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
            True,
        ),
        (
            GUARANTEED,
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
            False,
        ),
        (
            GUARANTEED,
            GUARANTEED | {"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}},
            False,
        ),
    ],
)
def test_what_can_be_done_in_place(before: dict[str, Any], after: dict[str, Any], in_place: bool) -> None:
    first, second = (read(deployment(**pod(resources=r))).template_hash for r in (before, after))
    assert (first == second) is in_place


@pytest.mark.parametrize(
    "changed",
    [
        {"image": "i:2"},
        {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
    ],
)
def test_all_else_is_rolled(changed: dict[str, Any]) -> None:
    assert read(deployment()).template_hash != read(deployment(**pod(**changed))).template_hash


def test_the_bounds_are_the_schemas() -> None:
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"]["replicas"]["maximum"] == MAX_REPLICAS
