"""Which target is served, and why not: everything in doubt is NotFound, and nothing is ever 0."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement.adapter.model import NotFound, TargetValue
from hpa_replacement.adapter.selectors import parse
from hpa_replacement.adapter.values import custom_list, external_list, named, selected, withheld
from surgekit.process.modes import Mode
from tests.hpa_replacement.adapter.builders import LIMITS, NOW_S, facts, picture

ALL = parse("")
VALUE = TargetValue("shop", "checkout", 21, NOW_S - 10)


def test_the_selected_policy_answers() -> None:
    known = picture(facts(), facts("cart", target_replicas=3), facts("checkout", "other", target_replicas=9))
    assert selected(known, "shop", "knee-replicas", parse("policy=checkout")) == VALUE
    assert selected(known, "shop", "knee-replicas", parse("policy in (checkout)")) == VALUE
    assert selected(known, "other", "knee-replicas", ALL) == TargetValue("other", "checkout", 9, NOW_S - 10)


def test_the_named_policy_answers() -> None:
    known = picture(facts(), facts("cart"))
    assert named(known, "shop", "checkout", "knee-replicas", ALL) == VALUE
    assert named(known, "shop", "checkout", "knee-replicas", parse("policy=checkout")) == VALUE
    other = named(known, "shop", "checkout", "knee-replicas", parse("policy=cart"))
    assert isinstance(other, NotFound)
    assert "no labels that match" in other.reason


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"mode": Mode.SHADOW}, "its mode is shadow"),
        ({"mode": Mode.OFF}, "its mode is off"),
        ({"paused": True}, "paused"),
        ({"via_metrics": False}, "spec.via"),
        ({"target_replicas": None}, "nothing has been decided yet"),
        ({"decided_at_s": None}, "nothing has been decided yet"),
        ({"decided_at_s": NOW_S - 151}, "decided 151 s ago, more than 150 s"),
        ({"decided_at_s": NOW_S + 151}, "decided 151 s in the future: clocks differ"),
        ({"sampling_interval_s": 1.0}, "decided 10 s ago, more than 5 s"),
        ({"generation": 4, "observed_generation": 3}, "status is of generation 3, its spec of 4"),
        ({"fault": "spec.mode: 'on' is not one of off, shadow, enforce"}, "spec.mode: 'on'"),
    ],
)
def test_a_policy_that_is_not_for_the_hpa_says_why(changed: dict[str, Any], reason: str) -> None:
    known = picture(facts(**changed))
    for found in (
        selected(known, "shop", "knee-replicas", ALL),
        named(known, "shop", "checkout", "knee-replicas", ALL),
    ):
        assert isinstance(found, NotFound)
        assert found.reason.startswith("KneePolicy shop/checkout: ")
        assert reason in found.reason


@pytest.mark.parametrize(
    "changed",
    [
        {"decided_at_s": NOW_S - 150},
        {"decided_at_s": NOW_S + 5},  # clocks of two machines
        {"generation": 4, "observed_generation": 4},
        {"generation": 4, "observed_generation": None},
        {"sampling_interval_s": 2.0},
    ],
)
def test_within_the_limits_it_is_served(changed: dict[str, Any]) -> None:
    assert not withheld(facts(**changed), NOW_S, LIMITS)


@pytest.mark.parametrize(
    ("namespace", "metric", "selector", "input_age_s", "reason"),
    [
        ("shop", "requests", "policy=checkout", 1.0, "metric 'requests' is not served here"),
        ("shop", "knee-replicas", "policy=never", 1.0, "no KneePolicy in namespace 'shop' matches"),
        ("nowhere", "knee-replicas", "policy=checkout", 1.0, "no KneePolicy in namespace 'nowhere'"),
        ("shop", "knee-replicas", "team=a", 1.0, "no KneePolicy"),
        ("shop", "knee-replicas", "", 1.0, "2 KneePolicies match (checkout, cart); select exactly one"),
        ("shop", "knee-replicas", "policy in (cart,checkout)", 1.0, "2 KneePolicies match (cart, checkout)"),
        ("shop", "knee-replicas", "policy=checkout", 61.0, "KneePolicies from the API server for 61 s"),
        ("shop", "knee-replicas", "policy=checkout", float("inf"), "from the API server yet"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_not_found(
    namespace: str, metric: str, selector: str, input_age_s: float, reason: str
) -> None:
    known = picture(facts(), facts("cart"), input_age_s=input_age_s)
    found = selected(known, namespace, metric, parse(selector))
    assert isinstance(found, NotFound)
    assert reason in found.reason


def test_a_long_list_of_matches_is_cut() -> None:
    found = selected(picture(*(facts(f"p{i}") for i in range(9))), "shop", "knee-replicas", ALL)
    assert isinstance(found, NotFound)
    assert "9 KneePolicies match (p0, p1, p2, p3, p4 and 4 more)" in found.reason


def test_an_unknown_name_is_not_found() -> None:
    found = named(picture(facts()), "shop", "*", "knee-replicas", ALL)
    assert found == NotFound("there is no KneePolicy shop/*")


def test_the_lists_are_as_the_apis_have_them() -> None:
    """Field for field k8s.io/metrics/pkg/apis/{external_metrics/v1beta1,custom_metrics/v1beta2}."""
    when = "2027-01-15T07:59:50Z"
    assert external_list(VALUE) == {
        "kind": "ExternalMetricValueList",
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metricName": "knee-replicas",
                "metricLabels": {"policy": "checkout"},
                "timestamp": when,
                "value": "21",
            }
        ],
    }
    assert custom_list(VALUE) == {
        "kind": "MetricValueList",
        "apiVersion": "custom.metrics.k8s.io/v1beta2",
        "metadata": {},
        "items": [
            {
                "describedObject": {
                    "kind": "KneePolicy",
                    "namespace": "shop",
                    "name": "checkout",
                    "apiVersion": "surgekit.dev/v1alpha1",
                },
                "metric": {"name": "knee-replicas", "selector": {"matchLabels": {"policy": "checkout"}}},
                "timestamp": when,
                "value": "21",
            }
        ],
    }


policies = st.builds(
    facts,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["shop", "other"]),
    mode=st.sampled_from(list(Mode)),
    paused=st.booleans(),
    via_metrics=st.booleans(),
    target_replicas=st.none() | st.integers(1, 1000),
    decided_at_s=st.none() | st.floats(NOW_S - 400, NOW_S + 400),
    fault=st.sampled_from(["", "spec.mode: 'x'"]),
)
selectors = st.sampled_from(["", "policy", "policy=a", "policy!=a", "policy in (a,b)", "team=x"])


@given(st.lists(policies, max_size=6), selectors, st.sampled_from([0.0, 60.0, 61.0]))
def test_served_is_exactly_the_one_policy_that_matches_and_is_meant_for_the_hpa(
    known: list[Any], selector: str, input_age_s: float
) -> None:
    """Against a search that looks at every policy."""
    now = picture(*known, input_age_s=input_age_s)
    found = selected(now, "shop", "knee-replicas", parse(selector))
    matching = [p for p in now.table.get("shop", {}).values() if parse(selector).matches({"policy": p.name})]
    meant = [
        p
        for p in matching
        if p.mode is Mode.ENFORCE and not p.paused and p.via_metrics and not p.fault
        and p.target_replicas is not None and p.decided_at_s is not None
        and abs(NOW_S - p.decided_at_s) <= 150
    ]  # fmt: skip
    if len(matching) == 1 and meant and input_age_s <= 60:
        assert isinstance(found, TargetValue)
        assert (found.policy, found.replicas) == (meant[0].name, meant[0].target_replicas)
    else:
        assert isinstance(found, NotFound)
        assert found.reason
