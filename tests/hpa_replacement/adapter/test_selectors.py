"""Label selectors mean what they mean to Kubernetes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement.adapter.selectors import SelectorError, parse
from surgekit.kube.label_selector import Operator, Requirement


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("policy=checkout", True),
        ("policy==checkout", True),
        ("policy = checkout", True),
        ("policy=cart", False),
        ("policy!=cart", True),
        ("policy!=checkout", False),
        ("policy in (checkout)", True),
        ("policy in (cart, checkout)", True),
        ("policy in(cart)", False),
        ("policy notin (cart)", True),
        ("policy notin (cart,checkout)", False),
        ("policy", True),
        ("!policy", False),
        ("team", False),
        ("!team", True),
        ("team!=x", True),  # an absent label is not x
        ("team notin (x)", True),
        ("team=", False),  # an absent label is not the empty one
        ("policy=checkout,policy in (checkout,cart),!team", True),
        ("policy=checkout,team=x", False),
        ("example.com/policy=checkout", False),
    ],
)
def test_what_matches(text: str, matches: bool) -> None:
    assert parse(text).matches({"policy": "checkout"}) is matches


@pytest.mark.parametrize(
    "text",
    [
        "policy=a=b",
        "policy in a",
        "policy in (a",
        "=a",
        ",",
        "policy=a,",
        "policy=a b",
        "a!b",
        "-a=b",
        "x" * 5000,
    ],
)
def test_what_is_no_selector_is_said(text: str) -> None:
    with pytest.raises(SelectorError, match="label selector"):
        parse(text)


names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)
operators = st.sampled_from(list(Operator))
requirements = st.builds(
    lambda key, operator, values: Requirement(
        key, operator, frozenset(values) if operator in (Operator.IN, Operator.NOT_IN) else frozenset()
    ),
    st.sampled_from(["policy", "team", "example.com/x"]),
    operators,
    st.sets(names, min_size=1, max_size=3),
)


def written(requirement: Requirement) -> str:
    """As k8s.io/apimachinery prints it."""
    values = ",".join(sorted(requirement.values))
    return {
        Operator.IN: f"{requirement.key} in ({values})",
        Operator.NOT_IN: f"{requirement.key} notin ({values})",
        Operator.EXISTS: requirement.key,
        Operator.ABSENT: f"!{requirement.key}",
    }[requirement.operator]


@given(st.lists(requirements, max_size=4))
def test_what_is_written_is_read_back(wanted: list[Requirement]) -> None:
    assert parse(",".join(map(written, wanted))).requirements == tuple(wanted)


@given(st.lists(requirements, max_size=4), names)
def test_only_named_values_can_match(wanted: list[Requirement], name: str) -> None:
    """What `values_of` leaves out is never matched, so looking only at these is looking at all."""
    selector = parse(",".join(map(written, wanted)))
    possible = selector.values_of("policy")
    if possible is not None and name not in possible:
        assert not selector.matches({"policy": name})


@given(st.text(max_size=60))
def test_any_text_is_a_selector_or_an_error(text: str) -> None:
    try:
        selector = parse(text)
    except SelectorError:
        return
    assert selector.matches({"policy": "a"}) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "a in (" + " , " * 18 + "!)",
        "a in (" + "a" * 60 + "!",
        "a in (" + "," * 4000,
        "(" * 4096,
        "," * 4096,
        "a" * 4096,
        "a." * 2048,
        " " * 4095 + "!",
        "a=b," * 1023 + "!",
        "a in (b)," * 400 + ",",
    ],
)
def test_the_time_to_refuse_goes_with_the_length(text: str) -> None:
    """The first of these took minutes when it was matched against a pattern; a second is generous."""
    begin_s = time.process_time()
    with pytest.raises(SelectorError) as error:
        parse(text)
    assert time.process_time() - begin_s < 1.0
    assert len(str(error.value)) < 500
