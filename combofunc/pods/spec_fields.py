"""Reads the fields of a spec, and collects all errors, each with the path of its field. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from surgekit.kube.duration import seconds
from surgekit.kube.quantity import QuantityError, parse

__all__ = ["Fields", "SpecError", "fields_of"]

Json = dict[str, Any]
W = TypeVar("W", bound=StrEnum)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # a DNS label: also a label's value
_CPU = re.compile(r"\d+m|\d+(?:\.\d{1,3})?", re.ASCII)
_MEMORY = re.compile(r"\d+(?:\.\d+)?(?:[kMGT]|[KMGT]i)?", re.ASCII)
_SHOWN = 200
MAX_CPU_MILLICORES = 1024_000
MIN_MEMORY_BYTES, MAX_MEMORY_BYTES = 2**20, 64 * 2**40


class SpecError(ValueError):
    """A spec is wrong. `problems` has one text for each field."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _shown(value: Any) -> str:
    """The value, short enough for a status."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@contextmanager
def fields_of(obj: Json) -> Iterator[Fields]:
    """The fields of obj.spec. Raises SpecError at the end of the block if anything was wrong."""
    problems: list[str] = []
    yield Fields("", obj, problems).part("spec")
    if problems:
        raise SpecError(tuple(problems))


@dataclass(frozen=True)
class Fields:
    """Fields of the object at path `where`. A bad field goes to `problems` and reads as a harmless value."""

    where: str
    of: Json
    problems: list[str]

    def __contains__(self, key: str) -> bool:
        return self.of.get(key) is not None

    def wrong(self, key: str, must: str) -> None:
        path = ".".join(filter(None, (self.where, key)))
        value = f", is {_shown(self.of[key])}" if key in self else ""
        self.problems.append(f"{path}: {must}{value}")

    def part(self, key: str) -> Fields:
        """The object at `key`, or an empty one."""
        value = self.of.get(key)
        if value is not None and not isinstance(value, dict):
            self.wrong(key, "must be an object")
            value = None
        return Fields(".".join(filter(None, (self.where, key))), value or {}, self.problems)

    def parts(self, key: str, most: int) -> list[Fields]:
        """The list of 1 to `most` objects at `key`."""
        value = self.of.get(key)
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            self.wrong(key, f"must be a list of 1 to {most} objects")
            return []
        found = []
        for index, item in enumerate(value):
            path = f"{self.where}.{key}[{index}]"
            if isinstance(item, dict):
                found.append(Fields(path, item, self.problems))
            else:
                self.problems.append(f"{path}: must be an object, is {_shown(item)}")
        return found

    def text(self, key: str, default: str | None = None) -> str:
        value = self.of.get(key, default)
        if not isinstance(value, str) or not value:
            self.wrong(key, "must be a text")
            return ""
        return value

    def name(self, key: str) -> str:
        value = self.of.get(key)
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            self.wrong(
                key, "must be 1 to 63 lower-case letters, digits and dashes, without a dash at either end"
            )
            return ""
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.of.get(key, default)
        if not isinstance(value, bool):
            self.wrong(key, "must be true or false")
            return default
        return value

    def whole(self, key: str, low: int, high: int, default: int | None = None) -> int:
        value = self.of.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(key, f"must be a whole number from {low} to {high}")
            return low
        return value

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        value = self.of.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            self.wrong(key, f"must be a number from {low:g} to {high:g}")
            return low
        return float(value)

    def word(self, key: str, words: type[W], default: W) -> W:
        value = self.of.get(key, default)
        try:
            return words(value)
        except ValueError:
            self.wrong(key, f"must be one of {', '.join(words)}")
            return default

    def duration_s(self, key: str, low_s: float, high_s: float, default: str) -> float:
        """A duration such as "1m30s", as in Go and CEL."""
        value_s = seconds(self.of.get(key, default))
        if value_s is not None and low_s <= value_s <= high_s:
            return value_s
        self.wrong(key, f"must be a duration such as 30s or 1m30s, from {low_s:g}s to {high_s:g}s")
        return low_s

    def quantity(self, key: str) -> None:
        """Check only; Kubernetes reads it, and also takes numbers."""
        value = self.of.get(key)
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise QuantityError
            parse(value)
        except QuantityError:
            self.wrong(key, "must be a quantity such as 500m or 1Gi")

    def cpu_millicores(self, key: str) -> int:
        value = self._quantity(key, _CPU)
        if value is None or not 1 <= round(value * 1000) <= MAX_CPU_MILLICORES:
            self.wrong(key, "must be millicores such as 500m or cores such as 1.5, from 1m to 1024")
            return 1
        return round(value * 1000)

    def memory_bytes(self, key: str) -> int:
        """Rounds up to whole bytes, as Kubernetes does."""
        value = self._quantity(key, _MEMORY)
        if value is None or not MIN_MEMORY_BYTES <= value <= MAX_MEMORY_BYTES:
            self.wrong(key, "must be bytes such as 128Mi or 1.5Gi, from 1Mi to 64Ti")
            return MIN_MEMORY_BYTES
        return math.ceil(value)

    def _quantity(self, key: str, form: re.Pattern[str]) -> float | None:
        value = self.of.get(key)
        if isinstance(value, bool) or not isinstance(value, int | str) or not form.fullmatch(str(value)):
            return None
        try:
            return parse(value)
        except QuantityError:
            return None
