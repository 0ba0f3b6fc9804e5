"""A KneePolicy object as values: defaults, and every wrong field named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement.decision.policy import AtEnd, Budget, Policy, PolicyError, Search, Thresholds
from hpa_replacement.kneepolicy import Via, read
from hpa_replacement.search import Variant
from surgekit.process.modes import Mode
from tests.hpa_replacement.builders import kneepolicy


def with_field(path: str, value: Any) -> dict[str, Any]:
    obj = kneepolicy()
    *parts, last = path.split(".")
    at = obj
    for part in parts:
        at = at.setdefault(part, {})
    at[last] = value
    return obj


def test_what_is_not_said_is_as_the_crd_has_it() -> None:
    obj = kneepolicy()
    obj["spec"] = {key: obj["spec"][key] for key in ("scaleTargetRef", "maxReplicas")}
    policy = read(obj)
    assert (policy.mode, policy.paused, policy.via) == (Mode.SHADOW, False, Via.SCALE)
    assert (policy.preset, policy.function, policy.queries) == ("http", "web", {})
    assert policy.policy == Policy(max_replicas=40)
    assert (policy.key, policy.generation) == ("shop/web", 1)


def test_everything_said_is_read() -> None:
    obj = kneepolicy(
        mode="shadow", paused=True, via="metrics", minReplicas=2, samplingInterval="1m30s",
        budget={"replicaIntervals": 1000, "window": "15m", "atEnd": "stop"},
        metrics={"preset": "openfaas", "function": "resize", "queries": {"cpu": "sum(x)", "latency": ""}},
        thresholds={"throughputPerSecond": 3, "errorsPerSecond": 0.5, "cpuDrop": 0.1, "latencySeconds": 2},
        search={"variant": "paper", "explorationCap": 30},
    )  # fmt: skip
    policy = read(obj)
    assert (policy.mode, policy.paused, policy.via) == (Mode.SHADOW, True, Via.METRICS)
    assert (policy.preset, policy.function, policy.queries) == ("openfaas", "resize", {"cpu": "sum(x)"})
    assert policy.policy == Policy(
        40, 2, 90.0, Thresholds(3.0, 0.5, 0.1, 2.0), Search(Variant.PAPER, 30),
        Budget(1000.0, 900.0, AtEnd.STOP),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.scaleTargetRef", "web"),
        ("spec.scaleTargetRef.apiVersion", None),
        ("spec.scaleTargetRef.kind", ""),
        ("spec.scaleTargetRef.name", 7),
        ("spec.scaleTargetRef.apiVersion", "apps/v1/../../v1"),
        ("spec.scaleTargetRef.kind", "Deployment/x"),
        ("spec.scaleTargetRef.name", "../../victim/deployments/web"),
        ("spec.metrics.function", 'x"} or {a="b'),
        ("spec.mode", "on"),
        ("spec.paused", "yes"),
        ("spec.via", "hpa"),
        ("spec.maxReplicas", None),
        ("spec.maxReplicas", 0),
        ("spec.maxReplicas", "40"),
        ("spec.minReplicas", 0),
        ("spec.minReplicas", 1.5),
        ("spec.samplingInterval", 30),
        ("spec.metrics", ["http"]),
        ("spec.metrics.preset", "istio"),
        ("spec.metrics.queries.errors", 5),
        ("spec.thresholds.throughputPerSecond", 0),
        ("spec.thresholds.errorsPerSecond", "1"),
        ("spec.thresholds.cpuDrop", 1),
        ("spec.thresholds.latencySeconds", -1),
        ("spec.thresholds.latencySeconds", None),
        ("spec.search.variant", "binary"),
        ("spec.search.explorationCap", 0),
        ("spec.search.explorationCap", True),
        ("spec.budget", "1000"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(path: str, value: Any) -> None:
    with pytest.raises(PolicyError) as error:
        read(with_field(path, value))
    assert str(error.value).startswith(f"{path}: must be ")
    assert str(error.value).endswith((f"is {value}", f"is {value!r}", f"is {value}.0"))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"minReplicas": 41}, "spec.maxReplicas: must be at least spec.minReplicas (41), is 40"),
        ({"samplingInterval": "0s"}, "spec.samplingInterval: must be a number of seconds > 0"),
        ({"minReplicas": 5, "search": {"explorationCap": 4}}, "spec.search.explorationCap"),
        ({"budget": {"replicaIntervals": 10, "window": "20s"}}, "spec.budget.window"),
        ({"budget": {"replicaIntervals": 10}}, "spec.budget.window"),
        ({"budget": {"window": "15m"}}, "spec.budget.replicaIntervals"),
        ({"budget": {"replicaIntervals": 1, "window": "15m", "atEnd": "die"}}, "spec.budget.atEnd"),
        ({"search": {"variant": "random"}}, "spec.search.variant: must be one of best, paper"),
    ],
)
def test_values_that_make_no_sense(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(PolicyError) as error:
        read(kneepolicy(**changed))
    assert str(error.value).startswith(field)


def test_what_is_no_duration() -> None:
    with pytest.raises(PolicyError, match=r"^spec\.samplingInterval: must be a duration"):
        read(kneepolicy(samplingInterval="30"))


json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "scaleTargetRef", "mode", "paused", "via", "maxReplicas", "minReplicas", "samplingInterval", "metrics",
    "thresholds", "search", "budget",
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(FIELDS), json, max_size=4))
def test_rubbish_is_a_policy_error_and_nothing_else(spec: dict[str, Any]) -> None:
    try:
        read(kneepolicy(**spec))
    except PolicyError as error:
        assert str(error).startswith("spec.")  # noqa: PT017  # most rubbish is refused, some is not
