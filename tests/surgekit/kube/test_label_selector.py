"""Label selectors of specs mean what they mean in Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from surgekit.kube.label_selector import SelectorError, read


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ({}, {}, True),
        ({"matchLabels": None, "matchExpressions": None}, {"a": "b"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "c"}, False),
        ({"matchLabels": {"a": ""}}, {"a": ""}, True),
        ({"matchLabels": {"a": ""}}, {}, False),
        ({"matchLabels": {"a": "b", "c": "d"}}, {"a": "b"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}, {"a": "c"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {"a": "b"}, False),
        ({"matchExpressions": [{"key": "x.y/a", "operator": "Exists"}]}, {"x.y/a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
        (
            {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
            {"a": "b"},
            False,
        ),
    ],
)
def test_what_is_selected(selector: dict[str, Any], labels: dict[str, str], selected: bool) -> None:
    assert read("spec.selector", selector).matches(labels) is selected


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        (None, "s: must be an object"),
        ([], "s: must be an object"),
        ({"matchLabels": 5}, "s.matchLabels: must be an object, is of type int"),
        ({"matchLabels": {"-a": "b"}}, "s.matchLabels: '-a' is not a label's key"),
        ({"matchLabels": {"a/b/c": "b"}}, "s.matchLabels: 'a/b/c' is not a label's key"),
        ({"matchLabels": {"a" * 64: "b"}}, "is not a label's key"),
        ({"matchLabels": {"a": "b" * 64}}, "is not a label's value"),
        ({"matchLabels": {"a": None}}, "s.matchLabels.a: of type NoneType is not a label's value"),
        ({"matchExpressions": {}}, ""),  # empty: as if it were not there
        ({"matchExpressions": {"a": "b"}}, "s.matchExpressions: must be a list"),
        (
            {"matchExpressions": [{"key": "a", "operator": 5}]},
            "s.matchExpressions[0].operator: must be one of In",
        ),
        ({"matchExpressions": [{"operator": "Exists"}]}, "s.matchExpressions[0].key: of type NoneType"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": "b"}]}, "[0].values: must be a list"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}, "[0].values: of type int"),
    ],
)
def test_an_error_names_the_field(selector: Any, why: str) -> None:
    said = ""
    try:
        read("s", selector)
    except SelectorError as error:
        said = str(error)
    assert (why in said) if why else (said == "")
