"""A ComboFunc as values: what is read, what is refused and how it is said, and what the hash tells apart."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import combofunc.in_place_deployment.spec as deployment_spec
from combofunc.labels import MAX_CONCURRENCY, PLACEMENT_GATE
from combofunc.planner.model import Size
from combofunc.pods.pod_template import MAX_CONTAINERS
from combofunc.reconcile.spec import (
    MAX_SIZES,
    MAX_TARGET,
    Collector,
    SpecError,
    TargetFrom,
    read,
)
from surgekit.process.modes import Mode
from tests.paths import ROOT

CRD = ROOT / "manifests" / "combofunc" / "combofunc.yaml"
SMALL = {"name": "small", "cpu": "500m", "memory": "128Mi", "concurrency": 1}
LARGE = {"name": "large", "cpu": 2, "memory": "1.5Gi", "concurrency": 8}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "f"}},
    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
}
SPEC: dict[str, Any] = {"template": TEMPLATE, "sizes": [SMALL, LARGE], "targetConcurrency": 20}


def combofunc(**spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": "f", "uid": "u-1", "generation": 3}
    return {"metadata": metadata, "spec": copy.deepcopy(SPEC | spec)}


def sizes(index: int, **changed: Any) -> dict[str, Any]:
    return {"sizes": [s | changed if i == index else s for i, s in enumerate((SMALL, LARGE))]}


def pod(**changed: Any) -> dict[str, Any]:
    return {"template": {"spec": TEMPLATE["spec"] | changed}}


BY_HAND: dict[str, Any] = {
    "sizes": [SMALL | {"replicas": 3}, LARGE | {"replicas": 0}],
    "targetConcurrency": None,
}


def test_what_is_read() -> None:
    function = read(combofunc())
    assert (function.key, function.uid, function.generation) == ("shop/f", "u-1", 3)
    assert function.status_path == "/apis/surgekit.dev/v1alpha1/namespaces/shop/combofuncs/f/status"
    assert function.selector == "surgekit.dev/combofunc=f"
    assert function.sizes == (Size("small", 500, 128 * 2**20, 1), Size("large", 2000, 3 * 2**29, 8))
    assert (function.target, function.replicas, function.container) == (20, None, "c")
    assert (function.target_from, function.collector) == (TargetFrom.SPEC, Collector())
    assert (function.mode, function.paused, function.in_place) == (Mode.ENFORCE, False, True)
    assert (function.drain_s, function.keep_warm_s, function.price_weight) == (30.0, 300.0, None)


def test_the_rest_can_be_said() -> None:
    collector = {"query": "q", "window": "1m30s", "headroom": 1.5}
    function = read(
        combofunc(
            template={"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}},
            container="b", targetFrom="Collector", collector=collector, inPlace=False, priceWeight=2,
            drain="0s", keepWarm="1m30s", mode="shadow", paused=True,
        )
    )  # fmt: skip
    assert (function.container, function.target_from) == ("b", TargetFrom.COLLECTOR)
    assert (function.target, function.ignored_target) == (None, 20)
    assert function.collector == Collector("q", 90.0, 1.5)
    assert (function.in_place, function.price_weight, function.drain_s) == (False, 2.0, 0.0)
    assert (function.mode, function.paused, function.keep_warm_s) == (Mode.SHADOW, True, 90.0)


def test_replicas_by_hand() -> None:
    function = read(combofunc(**BY_HAND))
    assert (function.replicas, function.target) == ({"small": 3, "large": 0}, None)


# Each with the field that must be named. tests/manifests/test_combofuncs.py sends the same to an API server.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"sizes": []}, "spec.sizes"),
    ({"sizes": None}, "spec.sizes"),
    ({"sizes": [SMALL | {"name": f"s{i}"} for i in range(MAX_SIZES + 1)]}, "spec.sizes"),
    *((sizes(0, concurrency=c), "spec.sizes[0].concurrency") for c in (0, -1, 10001, 1.5, "1", None)),
    *(
        (sizes(1, cpu=cpu), "spec.sizes[1].cpu")
        for cpu in ("much", "0", 0, -1, "-1", "0.5m", 1.5, "1.0001", "1025", "1e3", "", None, "9" * 33, True)
    ),
    *(
        (sizes(1, memory=memory), "spec.sizes[1].memory")
        for memory in ("much", "0", "-1Gi", "128", 128, "128m", "65Ti", "1e9", "1 Gi", "1GB", None, True)
    ),
    (sizes(1, name="small"), "spec.sizes[1]"),
    (sizes(1, name=None), "spec.sizes[1].name"),
    *((sizes(1, name=name), "spec.sizes[1].name") for name in ("", "Large", "a b", "-a", "a" * 64)),
    (sizes(0, replicas=1) | {"targetConcurrency": None}, "spec.sizes"),
    ({"sizes": [SMALL | {"replicas": -1}], "targetConcurrency": None}, "spec.sizes[0].replicas"),
    ({"sizes": [LARGE | {"replicas": 20000}], "targetConcurrency": None}, "spec.sizes"),
    (BY_HAND | {"targetConcurrency": 5}, "spec.targetConcurrency"),
    (BY_HAND | {"targetFrom": "Collector"}, "spec.targetFrom"),
    *(({"targetConcurrency": t}, "spec.targetConcurrency") for t in (None, -1, 1_000_000, "20", 1.5)),
    ({"targetFrom": "HPA"}, "spec.targetFrom"),
    ({"template": None}, "spec.template"),
    ({"template": {}}, "spec.template.spec"),
    ({"template": {"spec": {}}}, "spec.template.spec.containers"),
    (pod(containers=[]), "spec.template.spec.containers"),
    (pod(containers=[{"name": "c"}]), "spec.template.spec.containers[0].image"),
    (pod(containers=[{"image": "i"}]), "spec.template.spec.containers[0].name"),
    (pod(containers=[{"name": "c", "image": "i"}] * 2), "spec.template.spec.containers[1]"),
    (pod(nodeName="node-1"), "spec.template.spec.nodeName"),
    (pod(restartPolicy="Never"), "spec.template.spec.restartPolicy"),
    *(
        ({"template": TEMPLATE | {"metadata": {"labels": {label: "x"}}}}, "spec.template.metadata.labels")
        for label in (
            "surgekit.dev/combofunc",
            "surgekit.dev/size",
            "surgekit.dev/serving",
            "surgekit.dev/template",
        )
    ),
    *(
        (
            {"template": TEMPLATE | {"metadata": {"annotations": {annotation: "x"}}}},
            "spec.template.metadata.annotations",
        )
        for annotation in (
            "surgekit.dev/planned-node",
            "surgekit.dev/draining-since",
            "surgekit.dev/size-offer",
        )
    ),
    (pod(schedulingGates=[{"name": PLACEMENT_GATE}]), "spec.template.spec.schedulingGates"),
    ({"container": "other"}, "spec.container"),
    ({"container": ""}, "spec.container"),
    *(
        ({"collector": {"window": w}}, "spec.collector.window")
        for w in ("0s", "999ms", "2h", "soon", "60", 60, "-60s", "9" * 33 + "s", "99999999999999h")
    ),
    *(({"collector": {"headroom": h}}, "spec.collector.headroom") for h in (0.5, 11, "2")),
    ({"collector": {"query": ""}}, "spec.collector.query"),
    ({"keepWarm": "61m"}, "spec.keepWarm"),
    *(({"drain": d}, "spec.drain") for d in ("-1s", "61m", "30", 30, "", "99999999999999h")),
    *(({"mode": m}, "spec.mode") for m in ("off", "on", "")),
    *(({"priceWeight": w}, "spec.priceWeight") for w in (-1, 1001, "1")),
    ({"inPlace": "yes"}, "spec.inPlace"),
    ({"paused": 1}, "spec.paused"),
]


@pytest.mark.parametrize(("spec", "where"), WRONG, ids=str)
def test_nonsense_is_refused_and_the_field_named(spec: dict[str, Any], where: str) -> None:
    with pytest.raises(SpecError) as error:
        read(combofunc(**spec))
    assert any(problem.startswith(where) for problem in error.value.problems)


def test_all_that_is_wrong_is_said_together() -> None:
    with pytest.raises(SpecError) as error:
        read(combofunc(**sizes(0, cpu="much", concurrency=0), drain="-1s", container="other"))
    assert error.value.problems == (
        "spec.container: must be one of the template's containers (c), is 'other'",
        "spec.sizes[0].concurrency: must be a whole number from 1 to 10000, is 0",
        "spec.sizes[0].cpu: must be millicores such as 500m or cores such as 1.5, from 1m to 1024, is 'much'",
        "spec.drain: must be a duration such as 30s or 1m30s, from 0s to 3600s, is '-1s'",
    )
    assert str(error.value) == "; ".join(error.value.problems)


ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    10**9,
    1.5,
    "",
    "x",
    [],
    [None],
    [[]],
    ["x"],
    {},
    {"name": 1},
    [{"name": {}}],
]


@given(st.data())
def test_whatever_is_written_it_is_read_or_refused(data: st.DataObject) -> None:
    template = TEMPLATE | pod(containers=[{"name": "c", "image": "i", **resources("1")}])["template"]
    obj = combofunc(template=template, collector={"window": "60s"}, drain="30s", container="c")
    part: Any = obj
    key: Any = "spec"
    while isinstance(part[key], dict | list) and part[key] and data.draw(st.integers(0, 4)):
        part = part[key]
        key = data.draw(st.sampled_from(sorted(part) if isinstance(part, dict) else range(len(part))))
    part[key] = data.draw(st.sampled_from(ODD))
    try:
        function = read(obj)
    except SpecError:
        return
    assert function.sizes
    assert function.template_hash
    assert deployment_spec.read(obj | {"spec": {"template": obj["spec"]["template"]}}).template_hash


@pytest.mark.parametrize("amount", ["much", "-1", [], None, True])
def test_a_template_that_no_schema_looks_into(amount: object) -> None:
    template = pod(containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": amount}}}])
    with pytest.raises(
        SpecError, match=r"^spec\.template\.spec\.containers\[0\]\.resources\.limits\.cpu: must"
    ):
        read(combofunc(**template))


def container(**changed: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "image": "i:1"} | changed, {"name": "side", "image": "s"}])


def resources(cpu: str | None = None, **more: str) -> dict[str, Any]:
    listed = ({"cpu": cpu} if cpu else {}) | more
    return {"resources": {"requests": listed, "limits": listed}}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (container(), container(**resources("1")), True),
        (container(**resources("1")), container(**resources("2", memory="1Gi")), True),
        (container(**resources("1")), container(**resources("1", **{"example.dev/gpu": "1"})), False),
        (container(), container(image="i:2"), False),
        (container(), container(env=[]), True),
        (container(), container(env=[{"name": "A"}]), False),
        (
            container(),
            {"template": container()["template"] | {"metadata": {"creationTimestamp": None}}},
            True,
        ),
        (container(), {"template": container()["template"] | {"metadata": {"labels": {"a": "b"}}}}, False),
        (container(), container() | sizes(0, cpu="3") | {"targetConcurrency": 7}, True),
        (container(), container() | {"container": "c"}, True),
        (container(), container() | {"container": "side"}, False),
        (
            container(**resources("1")) | {"container": "side"},
            container(**resources("2")) | {"container": "side"},
            False,
        ),
    ],
)
def test_the_hash_tells_what_only_new_pods_can_have(
    one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    first, second = read(combofunc(**one)).template_hash, read(combofunc(**other)).template_hash
    assert (first == second) is same
    assert len(first) == 10


def test_the_hash_stays_from_release_to_release() -> None:
    """Another one would roll every pod in the cluster."""
    assert read(combofunc()).template_hash == "5988009804"


def test_the_bounds_are_the_schemas() -> None:
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]["properties"]
    size = spec["sizes"]["items"]["properties"]
    assert spec["sizes"]["maxItems"] == MAX_SIZES
    assert size["concurrency"]["maximum"] == MAX_CONCURRENCY
    assert spec["targetConcurrency"]["maximum"] == size["replicas"]["maximum"] == MAX_TARGET
    containers = spec["template"]["properties"]["spec"]["properties"]["containers"]
    assert containers["maxItems"] == MAX_CONTAINERS
