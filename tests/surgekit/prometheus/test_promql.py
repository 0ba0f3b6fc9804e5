"""A tenant's PromQL sees the series of its namespace, whatever the text."""

from __future__ import annotations

import contextlib
import time

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surgekit.prometheus.promql import LONGEST, PromqlError, confined


def selectors(text: str) -> list[promql_parser.VectorSelector]:
    found: list[promql_parser.VectorSelector] = []

    def look(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(text), pre_visit=look)
    return found


def namespaces(text: str) -> list[list[tuple[bool, str]]]:
    return [
        [(m.op == promql_parser.MatchOp.Equal, m.value) for m in s.matchers.matchers if m.name == "namespace"]
        for s in selectors(text)
    ]


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("up", 'up{namespace="shop"}'),
        ('rate(a{b="c"}[5m] offset 1m)', 'rate(a{b="c",namespace="shop"}[5m] offset 1m)'),
        ('{__name__=~".+"}', '{__name__=~".+",namespace="shop"}'),
        ('{"a.b"}', '{__name__="a.b",namespace="shop"}'),
        ('sum(a{namespace="shop"})', 'sum(a{namespace="shop"})'),
        (
            "sum by (x) (a) / on (x) group_left () b or 0 * c",
            'sum by (x) (a{namespace="shop"}) / on (x) group_left () b{namespace="shop"} '
            'or 0 * c{namespace="shop"}',
        ),
        (
            "max_over_time(rate(a[1m])[5m:30s] @ end())",
            'max_over_time(rate(a{namespace="shop"}[1m])[5m:30s] @ end())',
        ),
        ("vector(0)", "vector(0)"),
        ("up # all", 'up{namespace="shop"}'),
        (r'a{b="\"} or c{d=\""}', r'a{b="\"} or c{d=\"",namespace="shop"}'),
    ],
)
def test_what_is_sent(query: str, sent: str) -> None:
    assert " ".join(confined(query, "shop").split()) == sent


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ('a{namespace="bank"}', "a matcher on namespace must be"),
        ('a{namespace!="shop"}', "a matcher on namespace must be"),
        ('a{namespace=~"shop|bank"}', "a matcher on namespace must be"),
        ('sum(a) + rate(b{"namespace"="bank"}[5m])', "a matcher on namespace must be"),
        ('a{namespace="shop",namespace="shop"}', "two matchers"),
        ('a{b="1" or namespace="bank"}', "'or' between matchers"),
        ("info(a)", "info"),
        ("sum(", "is no PromQL"),
        ("", "is no PromQL"),
        ("a" * (LONGEST + 1), "is longer than"),
        ("(" * 300 + "a" + ")" * 300, "has more than"),
        ("a" + " + a" * 65, "has more than 64 operators"),
        (r'a{b=~"(\\pL{1000}){1000}"}', "is not allowed"),
        (r'a{b=~"x\x7b1000}"}', "is not allowed"),
        ('a{b=~"' + r"\\w" * 17 + '"}', "character classes"),
    ],
)
def test_what_is_refused(query: str, why: str) -> None:
    for _ in range(2):  # the second time from memory
        with pytest.raises(PromqlError, match=why):
            confined(query, "shop")


def test_a_namespace_that_is_none_is_refused() -> None:
    with pytest.raises(PromqlError, match="is no namespace"):
        confined("up", 'shop"} or up{a="')


@pytest.mark.parametrize(
    "query",
    [
        "-" * 60 + "a", "(" * 60 + "a" + ")" * 60, "a" + "+a" * 60, "abs(" * 60 + "a" + ")" * 60,
        "9" * LONGEST,
        'a{b=~"' + r"\\w" * 16 + '"}', 'a{b=~"' + "." * 4000 + '"}', "(" * LONGEST, "}" * LONGEST,
        "a{" + ",".join(r'b=~"\\pL{1000}\\pL{1000}"' for _ in range(60)) + "}",
    ],
)  # fmt: skip
def test_no_text_takes_long(query: str) -> None:
    """Without its limits the parser needs a minute for some of these."""
    began_s = time.process_time()
    with contextlib.suppress(PromqlError):
        confined(query, "bound")
    assert time.process_time() - began_s < 5.0


_NAMES = st.sampled_from(["a", "job:x:rate5m", "namespace", "by", "_", '{"a b"}', '{__name__=~".+"}'])
_VALUES = st.one_of(
    st.sampled_from(["shop", "bank", ".*", "", "} or b{", '"', "\\", "\n"]), st.text(max_size=5)
)
_LABELS = st.sampled_from(["namespace", '"namespace"', "job", '"x y"', "Namespace", "namespaces"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


_MATCHERS = st.builds(
    lambda label, op, value: f"{label}{op}{_quoted(value)}",
    _LABELS,
    st.sampled_from(["=", "!=", "=~", "!~"]),
    _VALUES,
)
_SELECTORS = st.builds(
    lambda name, matchers: name if name.startswith("{") else f"{name}{{{','.join(matchers)}}}",
    _NAMES,
    st.lists(_MATCHERS, max_size=2),
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({})".format, inner),
        st.builds("-{}".format, inner),
        st.builds("sum by (namespace) ({})".format, inner),
        st.builds("max_over_time({}[5m:1m] offset 1h)".format, inner),
        st.builds('label_replace({}, "namespace", "bank", "", "")'.format, inner),
        st.builds("{} {} {}".format, inner, st.sampled_from(["+", "or", "unless on (x)", "> bool"]), inner),
    )


_QUERIES = st.recursive(
    st.one_of(_SELECTORS, st.builds("rate({}[5m])".format, _SELECTORS), st.just("vector(1)")),
    _larger,
    max_leaves=6,
)


@given(st.one_of(_QUERIES, st.text(), st.text('ab{}=~"\\,()[5m:] or')))
def test_every_selector_of_what_is_sent_carries_exactly_the_namespace(query: str) -> None:
    try:
        sent = confined(query, "shop")
    except PromqlError:
        return
    found = namespaces(sent)
    assert found == [[(True, "shop")]] * len(found)
    assert len(found) == len(selectors(query)), "nothing is lost or added"
    assert not any(s.matchers.or_matchers for s in selectors(sent))
    assert confined(sent, "shop") == sent
