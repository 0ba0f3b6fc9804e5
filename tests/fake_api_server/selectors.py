"""Label and field selectors of lists and watches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from surgekit.kube.client import ApiError
from tests.fake_api_server.kinds import Kind

__all__ = ["selector"]

Json = dict[str, Any]
_Selects = Callable[[Json], bool]
_COMMA = re.compile(r",(?![^(]*\))")  # none in parentheses
_IN = re.compile(r"(\S+)\s+(in|notin)\s+\((.*)\)")
_EQUALS = re.compile(r"([^!=]+)(!=|==|=)(.*)")


def selector(kind: Kind, namespace: str, query: Mapping[str, Any]) -> _Selects:
    """Whether an object of `kind` is in the list or watch that was asked for."""
    labels = [_label(part.strip()) for part in _COMMA.split(str(query.get("labelSelector", ""))) if part]
    fields = [_field(kind, part) for part in str(query.get("fieldSelector", "")).split(",") if part]

    def selects(obj: Json) -> bool:
        inside = not namespace or obj["metadata"].get("namespace") == namespace
        return inside and all(holds(obj) for holds in (*labels, *fields))

    return selects


def _label(part: str) -> _Selects:
    if found := _IN.fullmatch(part):
        key, word, values = found[1], found[2], [value.strip() for value in found[3].split(",")]
        return lambda obj: (_labels(obj).get(key) in values) == (word == "in")
    if found := _EQUALS.fullmatch(part):
        key, equal, value = found[1].strip(), found[2] != "!=", found[3].strip()
        return lambda obj: (_labels(obj).get(key) == value) == equal
    if part.startswith("!"):
        return lambda obj: part[1:] not in _labels(obj)
    return lambda obj: part in _labels(obj)


def _labels(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _field(kind: Kind, part: str) -> _Selects:
    found = _EQUALS.fullmatch(part)
    if not found or found[1] not in kind.selectable:
        raise ApiError(400, "BadRequest", f"field label not supported: {part}")
    path, equal, value = found[1].split("."), found[2] != "!=", found[3]

    def selects(obj: Json) -> bool:
        at: Any = obj
        for step in path:
            at = (at or {}).get(step)
        return (str(at or "") == value) == equal

    return selects
