"""Label selectors as the API server and the HPA write them: `a=b`, `a!=b`, `a in (b,c)`, `a`, `!a`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

__all__ = ["Operator", "Requirement", "Selector", "SelectorError", "parse"]

_KEY = r"(?P<key>[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?)"
_VALUE = r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"{_KEY}\s*(?P<equality>==|=|!=)\s*(?P<value>{_VALUE})",
        rf"{_KEY}\s+(?P<membership>in|notin)\s*\(\s*(?P<values>{_VALUE}(\s*,\s*{_VALUE})*)\s*\)",
        rf"(?P<absent>!\s*)?{_KEY}",
    )
)
_LONGEST = 4096  # characters; a name has 253 at most, and nobody names more than a few


class SelectorError(ValueError):
    """Not a label selector; the message shows the part that is not understood."""


class Operator(StrEnum):
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "absent"


@dataclass(frozen=True)
class Requirement:
    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """As Kubernetes has it: a label that is absent is not in any set of values."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.ABSENT:
                return self.key not in labels


@dataclass(frozen=True)
class Selector:
    """All requirements must hold; none selects everything."""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.holds(labels) for requirement in self.requirements)

    def values_of(self, key: str) -> frozenset[str] | None:
        """The only values of `key` that can match; None: any may."""
        named = [r.values for r in self.requirements if r.key == key and r.operator is Operator.IN]
        return frozenset.intersection(*named) if named else None


@lru_cache(maxsize=4096)
def parse(text: str) -> Selector:
    if len(text) > _LONGEST:
        raise SelectorError(f"label selector of {len(text)} characters; at most {_LONGEST} are read")
    if not text.strip():
        return Selector(())
    # Commas between requirements, not those between the values in brackets.
    parts = re.split(r",(?![^(]*\))", text)
    return Selector(tuple(_requirement(part.strip(), text) for part in parts))


def _requirement(part: str, text: str) -> Requirement:
    for form in _FORMS:
        if found := form.fullmatch(part):
            return _understood(found.groupdict())
    raise SelectorError(f"label selector {text!r}: {part!r} is not understood")


def _understood(said: dict[str, str | None]) -> Requirement:
    key = said["key"] or ""
    if equality := said.get("equality"):
        operator = Operator.NOT_IN if equality == "!=" else Operator.IN
        return Requirement(key, operator, frozenset({said["value"] or ""}))
    if membership := said.get("membership"):
        values = frozenset(value.strip() for value in (said["values"] or "").split(","))
        return Requirement(key, Operator(membership), values)
    return Requirement(key, Operator.ABSENT if said.get("absent") else Operator.EXISTS)
