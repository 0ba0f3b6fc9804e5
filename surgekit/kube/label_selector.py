"""Reads the LabelSelector of an object's spec: `matchLabels` and `matchExpressions`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["LabelSelector", "Operator", "Requirement", "SelectorError", "read"]

Json = dict[str, Any]
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?", re.ASCII)
_LONGEST_NAME, _LONGEST_PREFIX = 63, 253
_SHOWN = 100  # characters of a refused value in an error


class SelectorError(ValueError):
    """Not a label selector; the message names the field and its value."""


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    ABSENT = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """As in Kubernetes: NotIn holds for an absent label."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.ABSENT:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; without any it selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.holds(labels) for requirement in self.requirements)

    def values_of(self, key: str) -> frozenset[str] | None:
        """The values of `key` that can match; None: any value."""
        named = [r.values for r in self.requirements if r.key == key and r.operator is Operator.IN]
        return frozenset.intersection(*named) if named else None


def read(where: str, selector: object) -> LabelSelector:
    """`where` is the field's path, for errors. A missing selector selects nothing, so it is an error here."""
    if not isinstance(selector, dict):
        raise SelectorError(f"{where}: must be an object, is {_shown(selector)}")
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(labels, dict):
        raise SelectorError(f"{where}.matchLabels: must be an object, is {_shown(labels)}")
    if not isinstance(expressions, list):
        raise SelectorError(f"{where}.matchExpressions: must be a list, is {_shown(expressions)}")
    equal = [
        Requirement(
            _key(f"{where}.matchLabels", key),
            Operator.IN,
            frozenset({_value(f"{where}.matchLabels.{key}", value)}),
        )
        for key, value in labels.items()
    ]
    said = (_expression(f"{where}.matchExpressions[{i}]", of) for i, of in enumerate(expressions))
    return LabelSelector((*equal, *said))


def _expression(where: str, of: object) -> Requirement:
    if not isinstance(of, dict):
        raise SelectorError(f"{where}: must be an object, is {_shown(of)}")
    try:
        operator = Operator(str(of.get("operator")))
    except ValueError:
        raise SelectorError(
            f"{where}.operator: must be one of {', '.join(Operator)}, is {_shown(of.get('operator'))}"
        ) from None
    values = of.get("values") or []
    if not isinstance(values, list):
        raise SelectorError(f"{where}.values: must be a list, is {_shown(values)}")
    if bool(values) is not (operator in (Operator.IN, Operator.NOT_IN)):
        raise SelectorError(f"{where}.values: must be given with In and NotIn only, is {_shown(values)}")
    return Requirement(
        _key(f"{where}.key", of.get("key")),
        operator,
        frozenset(_value(f"{where}.values", value) for value in values),
    )


def _key(where: str, key: object) -> str:
    if isinstance(key, str):
        prefix, slash, name = key.rpartition("/")
        good = len(prefix) <= _LONGEST_PREFIX and len(name) <= _LONGEST_NAME and _NAME.fullmatch(name)
        if good and (not slash or _PREFIX.fullmatch(prefix)):
            return key
    raise SelectorError(f"{where}: {_shown(key)} is not a label's key")


def _value(where: str, value: object) -> str:
    if isinstance(value, str) and len(value) <= _LONGEST_NAME and (not value or _NAME.fullmatch(value)):
        return value
    raise SelectorError(f"{where}: {_shown(value)} is not a label's value")


def _shown(value: object) -> str:
    """Python cannot print an integer of thousands of digits."""
    return repr(value)[:_SHOWN] if isinstance(value, str | list | dict) else f"of type {type(value).__name__}"
