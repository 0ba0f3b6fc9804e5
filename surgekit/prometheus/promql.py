"""A tenant's own PromQL, confined to the series of one namespace.

Prometheus knows no tenants: a query reads whatever the controller may read. So every selector gets the
matcher `namespace="..."`. What is sent is printed from the parsed query, never the tenant's text, and is
parsed and checked once more: the text that is checked is the text that is sent.
"""

from __future__ import annotations

import re
from functools import lru_cache

import promql_parser
from promql_parser import Expr, MatchOp, VectorSelector

from surgekit.kube.api_path import is_namespace

__all__ = ["LONGEST", "PromqlError", "confined"]

LABEL = "namespace"
LONGEST = 4096  # characters; the CRDs' limit
# The parser copies subtrees while it walks, so its time grows with the third power of the size: 64 operators
# took 0.1 s at worst. The first limit is on the text as it came, where strings hold such characters too.
_MOST_CHARACTERS, _MOST_OPERATORS = 256, 64
_OPERATORS = re.compile(r"[-+*/%^=<>!(\[]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)
_TEXTS = re.compile(r'"(?:\\.|[^"\\])*"')  # as the parser prints them
# Regular expressions that are compiled slowly, while no other thread runs: `\\pL{1000}` eight times took 1 s.
# Escapes by number would hide them.
_SLOW = re.compile(r"\{\s*[0-9,]|\\[pPxuU0-7]")
_CLASSES, _MOST_CLASSES = re.compile(r"\\[wWdDsSbB]"), 16
# As the parser prints a selector: a name that needs no quotes, then matchers if there are any.
_SELECTOR = re.compile(r"(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)?(?P<brace>\{)?")
# It reads series that no selector names.
_REFUSED_FUNCTIONS = ("info",)


class PromqlError(ValueError):
    """The query cannot be read, or asks for more than its namespace."""


def confined(query: str, namespace: str) -> str:
    """The query with `namespace="..."` in every selector. PromqlError says what is refused."""
    answer = _remembered(query, namespace)
    if isinstance(answer, PromqlError):
        raise answer
    return answer


@lru_cache(maxsize=1024)
def _remembered(query: str, namespace: str) -> str | PromqlError:
    try:
        return _confined(query, namespace)
    except PromqlError as error:
        return error.with_traceback(None)


def _confined(query: str, namespace: str) -> str:
    if not is_namespace(namespace):
        raise PromqlError(f"{namespace[:100]!r} is no namespace")
    if len(query) > LONGEST:
        raise PromqlError(f"is longer than {LONGEST} characters")
    _limit(query, _MOST_CHARACTERS)
    if found := _SLOW.search(query):
        raise PromqlError(f"{found[0]!r} is not allowed: no counted repetitions, \\p, or escapes by number")
    if len(_CLASSES.findall(query)) > _MOST_CLASSES:
        raise PromqlError(f"has more than {_MOST_CLASSES} character classes such as \\w")
    parsed = _parsed(query)
    _limit(_TEXTS.sub('""', _printed(parsed)), _MOST_OPERATORS)

    def with_namespace(node: Expr) -> Expr | None:
        if isinstance(node, promql_parser.Call) and node.func.name in _REFUSED_FUNCTIONS:
            raise PromqlError(f"{node.func.name}() is not allowed: it reads series that no selector names")
        return _selector(node, namespace) if isinstance(node, VectorSelector) else None

    text = _printed(promql_parser.transform(parsed, post_visit=with_namespace))
    _verify(text, namespace)
    return text


def _limit(text: str, most: int) -> None:
    if len(_OPERATORS.findall(text)) > most:
        raise PromqlError(f"has more than {most} operators, calls and matchers")


def _parsed(text: str) -> Expr:
    try:
        parsed: Expr = promql_parser.parse(text)
    except ValueError as error:
        raise PromqlError(f"is no PromQL: {str(error)[:200]}") from error
    return parsed


def _printed(expression: Expr) -> str:
    return " ".join(line.strip() for line in expression.prettify().split("\n"))


def _selector(node: VectorSelector, namespace: str) -> Expr | None:
    """The selector with the matcher; None if it has it."""
    if node.matchers.or_matchers:
        raise PromqlError("'or' between matchers is not allowed")
    own = [matcher for matcher in node.matchers.matchers if matcher.name == LABEL]
    for matcher in own:
        if matcher.op != MatchOp.Equal or matcher.value != namespace:
            raise PromqlError(
                f'a matcher on {LABEL} must be {LABEL}="{namespace}", or be left out: it is set for you'
            )
    if len(own) == 1:
        return None
    if own:
        raise PromqlError(f"two matchers on {LABEL}")
    text = node.prettify()
    found = _SELECTOR.match(text)
    end = found.end() if found else 0
    added = f'{LABEL}="{namespace}"'
    braced = f"{added}," if found and found["brace"] else f"{{{added}}}"
    return _parsed(f"{text[:end]}{braced}{text[end:]}")


def _verify(text: str, namespace: str) -> None:
    """That every selector of the text carries the namespace, once."""

    def look(node: Expr) -> None:
        if isinstance(node, VectorSelector):
            own = [(m.op == MatchOp.Equal, m.value) for m in node.matchers.matchers if m.name == LABEL]
            if own != [(True, namespace)] or node.matchers.or_matchers:
                raise PromqlError("cannot be confined to its namespace")

    promql_parser.walk(_parsed(text), pre_visit=look)
