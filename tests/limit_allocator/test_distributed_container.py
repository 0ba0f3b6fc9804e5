"""A DistributedContainer object as values: defaults, wrong fields named, and a CRD that says the same."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from limit_allocator.allocation.model import _BOUNDS, Parameters, Variant
from limit_allocator.distributed_container import PARAMETERS, SpecError, read
from surgekit.process.modes import Mode
from tests.limit_allocator.objects import Json, application, distributed_container
from tests.paths import MANIFESTS
from tests.readers.hostile_objects import spoilt


def test_what_is_not_said_is_as_the_crd_has_it() -> None:
    obj = distributed_container()
    del obj["spec"]["mode"], obj["spec"]["parameters"]
    spec = read(obj)
    assert (spec.mode, spec.parameters) == (Mode.SHADOW, Parameters())


def test_everything_said_is_read() -> None:
    spec = application(
        cpu="1500m", memory=1 << 29, mode="off",
        selector={"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]},
        parameters={"variant": "paper", "windowPeriods": 5, "reclaimSeconds": 2, "floorMicroseconds": 2000},
    )  # fmt: skip
    assert (spec.key, spec.generation, spec.cpu_us, spec.memory_bytes) == ("shop/web", 3, 150_000, 1 << 29)
    assert spec.mode is Mode.OFF
    assert spec.selector.matches({"a": "c"})
    assert not spec.selector.matches({"a": "b"})
    assert spec.parameters == Parameters(
        variant=Variant.PAPER, window_periods=5, reclaim_every_s=2.0, floor_us=2000
    )


def test_an_empty_selector_selects_every_pod_and_a_missing_one_is_an_error() -> None:
    assert application(selector={}).selector.matches({})
    with pytest.raises(SpecError, match=r"spec\.selector: must be an object"):
        application(selector=None)


def test_a_limit_is_rounded_down() -> None:
    assert application(cpu="0.0333333").cpu_us == 3333


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"cpu": "much"}, "spec.cpu: not a quantity: 'much'"),
        ({"cpu": "-1"}, "spec.cpu: "),
        ({"cpu": "1m"}, "spec.cpu: '1m' is outside 0.01.."),
        ({"cpu": "1e9"}, "spec.cpu: '1e9' is outside"),
        ({"cpu": True}, "spec.cpu: not a quantity"),
        ({"memory": "0"}, "spec.memory: '0' is outside 1.."),
        ({"memory": ["1Gi"]}, "spec.memory: not a quantity"),
        ({"mode": "on"}, "spec.mode: must be one of off, shadow, enforce, is 'on'"),
        ({"mode": {}}, "spec.mode: must be one of"),
        ({"selector": {"matchLabels": ["a"]}}, "spec.selector.matchLabels: must be an object, is ['a']"),
        (
            {"selector": {"matchLabels": {"a b": "x"}}},
            "spec.selector.matchLabels: 'a b' is not a label's key",
        ),
        ({"selector": {"matchLabels": {"a": 1}}}, "spec.selector.matchLabels.a: of type int is not"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            "matchExpressions[0].operator",
        ),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "matchExpressions[0].values"),
        ({"selector": {"matchExpressions": ["a"]}}, "spec.selector.matchExpressions[0]: must be an object"),
        ({"parameters": 5}, "spec.parameters: must be an object, is of type int"),
        ({"parameters": {"kapa": 1}}, "spec.parameters: 'kapa' is unknown; known: variant, windowPeriods"),
        (
            {"parameters": {"variant": "worst"}},
            "spec.parameters.variant: must be one of paper, published, best",
        ),
        ({"parameters": {"kappa": 1.5}}, "spec.parameters: kappa: 1.5 is outside 0.0..1.0"),
        ({"parameters": {"windowPeriods": 2.5}}, "spec.parameters.windowPeriods: must be a whole number"),
        ({"parameters": {"sliceMicroseconds": 5}}, "spec.parameters: sliceMicroseconds: 5 is outside"),
        ({"parameters": {"deltaBytes": 10**5000}}, "spec.parameters.deltaBytes: is out of range"),
        (
            {"parameters": {"deltaBytes": 1}},
            "spec.parameters: tightDeltaBytes: 20480000 is above deltaBytes (1)",
        ),
    ],
)
def test_an_error_names_the_field_and_its_value(spec: Json, why: str) -> None:
    with pytest.raises(SpecError) as error:
        application(**spec)
    assert why in str(error.value)


@given(st.data())
def test_whatever_it_holds_it_is_read_or_refused(data: st.DataObject) -> None:
    obj = data.draw(spoilt(distributed_container()))
    refused = ""
    try:
        spec = read(obj)
    except SpecError as error:
        refused = str(error)
        spec = application()
    assert len(refused) < 1000
    assert spec.cpu_us >= 1_000
    assert spec.memory_bytes >= 1


def parameters_of_the_crd() -> dict[str, Any]:
    crd = yaml.safe_load((MANIFESTS / "limit-allocator/distributedcontainer.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: dict[str, Any] = schema["properties"]["spec"]["properties"]["parameters"]["properties"]
    return found


def test_the_crd_has_the_codes_keys_defaults_and_bounds() -> None:
    properties, defaults = parameters_of_the_crd(), Parameters()
    assert set(properties) == set(PARAMETERS)
    for key, name in PARAMETERS.items():
        schema, default = properties[key], getattr(defaults, name)
        assert schema["default"] == default, key
        if name == "variant":
            assert schema["enum"] == list(Variant)
        else:
            assert schema["type"] == ("integer" if isinstance(default, int) else "number"), key
            assert (schema["minimum"], schema["maximum"]) == _BOUNDS[name], key
