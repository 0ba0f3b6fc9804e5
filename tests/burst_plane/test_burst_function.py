"""A BurstFunction object as values: defaults, wrong fields named, and a CRD that says the same."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from burst_plane.burst_function import BurstFunction, SpecError, Variant, Via, read
from burst_plane.model import Function
from surgekit.process.modes import Mode
from tests.burst_plane.objects import Json, burst_function, function
from tests.paths import MANIFESTS
from tests.readers.hostile_objects import spoilt


def schema() -> Json:
    crd = yaml.safe_load((MANIFESTS / "burst-plane/burstfunction.yaml").read_text())
    found: Json = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return found


def test_what_is_not_said_is_as_the_crd_has_it() -> None:
    said: dict[str, Any] = {name: of["default"] for name, of in schema().items() if "default" in of}
    scaling = schema()["scaling"]["properties"].items()  # `via` depends on the target
    said["scaling"] = {n: of["default"] for n, of in scaling if "default" in of}
    assert len(said) >= 9
    assert read(burst_function(**said)) == function(variant="best")
    assert function().mode is Mode.SHADOW


def test_everything_said_is_read() -> None:
    spec = function(
        mode="enforce", variant="paper", concurrency=4, idempotent=True, keepalive="2m",
        thresholdPercentile=75, mostInstances=3, longest="10s",
        scaling={"via": "metric", "minReplicas": 1, "maxReplicas": 9, "targetPercentage": 100},
    )  # fmt: skip
    assert (spec.key, spec.function.host) == ("shop/resize", "resize.shop")
    assert (spec.mode, spec.variant, spec.via) == (Mode.ENFORCE, Variant.PAPER, Via.METRIC)
    assert (spec.concurrency, spec.idempotent, spec.keepalive_s, spec.longest_s) == (4, True, 120.0, 10.0)
    assert (spec.threshold_percentile, spec.most_instances) == (75.0, 3)
    assert (spec.min_replicas, spec.max_replicas, spec.target_percentage) == (1, 9, 100.0)
    assert (spec.target.kind, spec.target.namespace, spec.target.name) == ("Deployment", "shop", "resize")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"mode": "on"}, "spec.mode: must be one of off, shadow, enforce, is 'on'"),
        ({"concurrency": 0}, "spec.concurrency: must be a whole number from 1 to 1000, is 0"),
        ({"concurrency": True}, "spec.concurrency: must be a whole number"),
        ({"keepalive": "1d"}, "spec.keepalive: must be a duration from 1s to 3600s"),
        ({"keepalive": "0s"}, "spec.keepalive: must be a duration"),
        ({"thresholdPercentile": 0}, "spec.thresholdPercentile: must be a number from 1 to 100"),
        ({"thresholdPercentile": float("nan")}, "spec.thresholdPercentile: must be a number"),
        ({"idempotent": "yes"}, "spec.idempotent: must be true or false"),
        ({"mostInstances": 10**30}, "spec.mostInstances: must be a whole number from 0 to 10000, is out of"),
        ({"scaling": {"via": "keda"}}, "spec.scaling.via: must be one of scale, metric, knative, none"),
        ({"scaling": {"minReplicas": 5, "maxReplicas": 4}}, "spec.scaling.minReplicas: 5 is more than"),
        ({"scaling": []}, "spec.scaling: must be an object"),
        (
            {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "../x"}},
            "spec.targetRef.name",
        ),
        ({"targetRef": None}, "spec.targetRef: must be an object"),
    ],
)
def test_a_wrong_field_is_named(spec: Json, why: str) -> None:
    with pytest.raises(SpecError) as caught:
        function(**spec)
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize("name", ["a.b", "A", "a_b", "-a", "x" * 64, ""])
def test_a_name_that_cannot_be_part_of_a_host_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match=r"metadata\.name"):
        function(name)


@settings(max_examples=40)
@given(spoilt(burst_function(mode="enforce", scaling={"via": "scale", "minReplicas": 1, "maxReplicas": 3})))
def test_whatever_is_written_is_read_or_refused(obj: Json) -> None:
    try:
        spec = read(obj)
    except SpecError:
        return
    assert isinstance(spec, BurstFunction)
    assert spec.min_replicas <= spec.max_replicas


@settings(max_examples=20)
@given(st.from_type(type(None)) | st.integers() | st.text() | st.lists(st.none()))
def test_an_object_that_is_none_is_refused(obj: object) -> None:
    with pytest.raises(SpecError):
        read(obj)  # type: ignore[arg-type]


def test_functions_sort_by_namespace() -> None:
    assert sorted([Function("b", "a"), Function("a", "b")]) == [Function("a", "b"), Function("b", "a")]


@pytest.mark.parametrize("field", ["concurrency", "mostInstances", "thresholdPercentile"])
def test_the_crd_has_the_readers_bounds(field: str) -> None:
    of = schema()[field]
    function(**{field: of["minimum"]}), function(**{field: of["maximum"]})
    for outside in (of["minimum"] - 1, of["maximum"] + 1):
        with pytest.raises(SpecError):
            function(**{field: outside})
