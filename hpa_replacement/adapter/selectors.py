"""Parses label selectors as the API server and the HPA write them: `a=b`, `a!=b`, `a in (b,c)`, `a`, `!a`.

The grammar is that of k8s.io/apimachinery/pkg/labels without `>` and `<`. Tokens are read one by one, so the
time is linear in the length of the text.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from functools import lru_cache

from surgekit.kube.label_selector import LabelSelector, Operator, Requirement

__all__ = ["SelectorError", "parse"]

_SYMBOLS, _SPACES = frozenset("=!(),<>"), frozenset(" \t\r\n")
_ALPHANUMERIC = frozenset(string.ascii_letters + string.digits)
_INNER = _ALPHANUMERIC | frozenset("-_.")
_DNS = frozenset(string.ascii_lowercase + string.digits + "-")
_LENGTH_MAX = 4096  # characters; a name has at most 253, and a selector names only a few
_NAME_MAX, _PREFIX_MAX = 63, 253
_END = ""  # the token after the last


class SelectorError(ValueError):
    """Not a label selector; the message shows the invalid part."""


@lru_cache(maxsize=4096)
def parse(text: str) -> LabelSelector:
    if len(text) > _LENGTH_MAX:
        raise SelectorError(f"label selector of {len(text)} characters; at most {_LENGTH_MAX} are read")
    return _Parser(text).selector()


class _Parser:
    """`_next` is the next token. `in` and `notin` are operators only where an operator is expected."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens = text, _tokens(text)
        self._next = next(self._tokens)

    def selector(self) -> LabelSelector:
        if self._next == _END:
            return LabelSelector()
        requirements = [self._requirement()]
        while self._next == ",":
            self._take()
            requirements.append(self._requirement())
        if self._next != _END:
            raise self._error("',' or the end")
        return LabelSelector(tuple(requirements))

    def _requirement(self) -> Requirement:
        if self._next == "!":
            self._take()
            return Requirement(self._key(), Operator.ABSENT)
        key = self._key()
        match self._next:
            case "," | "":
                return Requirement(key, Operator.EXISTS)
            case "=" | "==":
                self._take()
                return Requirement(key, Operator.IN, frozenset({self._value()}))
            case "!=":
                self._take()
                return Requirement(key, Operator.NOT_IN, frozenset({self._value()}))
            case "in" | "notin":
                operator = Operator.IN if self._take() == "in" else Operator.NOT_IN
                return Requirement(key, operator, self._values())
        raise self._error("an operator")

    def _key(self) -> str:
        key = self._next
        prefix, slash, name = key.rpartition("/")
        if not _is_name(name) or (slash and not _is_subdomain(prefix)):
            raise self._error("a label's key")
        return self._take()

    def _value(self) -> str:
        """Empty if there is none."""
        if self._next in (_END, ",", ")"):
            return ""
        if not _is_name(self._next):
            raise self._error("a label's value")
        return self._take()

    def _values(self) -> frozenset[str]:
        """`()` and `(a,)` contain the empty value."""
        self._expect("(")
        values = {self._value()}
        while self._next == ",":
            self._take()
            values.add(self._value())
        self._expect(")")
        return frozenset(values)

    def _expect(self, token: str) -> None:
        if self._next != token:
            raise self._error(repr(token))
        self._take()

    def _take(self) -> str:
        token, self._next = self._next, next(self._tokens, _END)
        return token

    def _error(self, wanted: str) -> SelectorError:
        text, found = _shown(self._text), _shown(self._next) if self._next else "the end"
        return SelectorError(f"label selector {text}: {found} where {wanted} should be")


def _tokens(text: str) -> Iterator[str]:
    """Split into symbols and words, then the end."""
    at = 0
    while at < len(text):
        begin = at
        at += 1
        if text[begin] in _SPACES:
            continue
        if text[begin] in "=!":
            at += text.startswith("=", at)
        elif text[begin] not in _SYMBOLS:
            while at < len(text) and text[at] not in _SYMBOLS and text[at] not in _SPACES:
                at += 1
        yield text[begin:at]
    yield _END


def _is_name(text: str) -> bool:
    """A label's value, or its key without the prefix."""
    return (
        0 < len(text) <= _NAME_MAX
        and text[0] in _ALPHANUMERIC
        and text[-1] in _ALPHANUMERIC
        and _INNER.issuperset(text)
    )


def _is_subdomain(text: str) -> bool:
    labels = text.split(".")
    return len(text) <= _PREFIX_MAX and all(
        label and not label.startswith("-") and not label.endswith("-") and _DNS.issuperset(label)
        for label in labels
    )


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 100 else f"{text[:100]!r}..."
