"""Checks at runtime that a reader returns the types it declares, and that its numbers are finite.

Without a check, a list in place of a string fails only where it is used, far from where it was read. A
decorated reader raises at once.
"""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, ParamSpec, TypeVar

__all__ = ["WrongType", "checked"]

P = ParamSpec("P")
T = TypeVar("T")
_Check = Callable[[Any], None]


class WrongType(ValueError):
    """A value has another type than its reader declares; the message says which and where."""


def checked(reader: Callable[P, T]) -> Callable[P, T]:
    """Decorate a reader. Its return type may hold dataclasses, tuples, sets, mappings, str, numbers, None."""

    @functools.cache
    def check() -> _Check:
        return _check(typing.get_type_hints(reader)["return"])

    @functools.wraps(reader)
    def read(*args: P.args, **kwargs: P.kwargs) -> T:
        value = reader(*args, **kwargs)
        check()(value)
        return value

    return read


@functools.cache
def _check(hint: Any) -> _Check:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of(tuple(map(_check, args)), hint)
    if origin is tuple and args[-1] is not Ellipsis:
        return _fields(tuple, {str(i): arg for i, arg in enumerate(args)}, tuple)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_check(args[0]), _check(args[1]))
    if isinstance(origin, type):
        return _all_of(origin, _check(args[0]))
    if is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return _fields(hint, hints, lambda value: [getattr(value, name) for name in hints])
    return _plain(hint)


def _plain(kind: Any) -> _Check:
    kinds = (int, float) if kind is float else kind

    def check(value: Any) -> None:
        wrong = not isinstance(value, kinds) or (value.__class__ is bool and kind is not bool)
        if wrong or (kind is float and not math.isfinite(value)):
            raise WrongType(f": must be {kind.__name__}, is {type(value).__name__} {value!r:.60}")

    return check


def _one_of(checks: tuple[_Check, ...], hint: Any) -> _Check:
    optional = type(None) in typing.get_args(hint)

    def check(value: Any) -> None:
        if value is None and optional:
            return None
        for one in checks:
            try:
                return one(value)
            except WrongType:
                continue
        raise WrongType(f": must be {hint}, is {type(value).__name__} {value!r:.60}")

    return check


def _all_of(kind: Any, each: _Check) -> _Check:
    def check(value: Any) -> None:
        if not isinstance(value, kind):
            raise WrongType(f": must be {kind.__name__}, is {type(value).__name__}")
        for item in value:
            each(item)

    return check


def _mapping(of_key: _Check, of_value: _Check) -> _Check:
    def check(value: Any) -> None:
        if value.__class__ is not dict and not isinstance(value, Mapping):
            raise WrongType(f": must be a mapping, is {type(value).__name__}")
        for key, item in value.items():
            of_key(key)
            of_value(item)

    return check


def _fields(kind: Any, hints: Mapping[str, Any], values: Callable[[Any], Sequence[Any]]) -> _Check:
    checks = tuple((name, _check(hint)) for name, hint in hints.items())

    def check(value: Any) -> None:
        if not isinstance(value, kind):
            raise WrongType(f": must be {kind.__name__}, is {type(value).__name__}")
        found = values(value)
        if len(found) != len(checks):
            raise WrongType(f": must be {len(checks)} parts, is {len(found)}")
        for (name, one), item in zip(checks, found, strict=True):
            try:
                one(item)
            except WrongType as error:
                raise WrongType(f".{name}{error}") from None

    return check
