"""Instance classes and their prices, from a YAML file (or ConfigMap) or the price table of the FCMA paper.

    currency: USD
    priceUnit: hour            # hour, second or month (730 hours)
    cpusPerCore: 2             # Kubernetes CPUs in one physical core: 2 with hyperthreads, else 1
    classes:
    - {class: m5.large, family: c5_m5_r5, cores: 1, memoryGiB: 8, price: 0.107}
    sample: true               # not your prices: used for plans, never for renting
A class may have `labels` that its nodes will carry, for pods that select by them.

A catalogue with an error is refused as a whole. The error names the class, the field and the value.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

__all__ = ["Catalogue", "CatalogueEntry", "CatalogueError", "from_csv", "load", "parse"]

# A month of cloud bills: 365 * 24 / 12 hours.
_HOURS = {"hour": 1.0, "second": 1 / 3600, "month": 730.0}
_KEYS = {"currency", "priceUnit", "cpusPerCore", "classes", "sample"}
_CLASS_KEYS = {"class", "family", "cores", "memoryGiB", "price", "labels"}
# The paper's table has physical cores; these AWS families run two hyperthreads on each.
_CSV_CPUS_PER_CORE = 2.0


class CatalogueError(ValueError):
    """A catalogue that cannot be used; the message names class, field and value."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    instance_class: str
    family: str
    cores: float  # physical cores
    memory_gib: float
    price_per_hour: float
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Catalogue:
    currency: str
    cpus_per_core: float
    entries: Mapping[str, CatalogueEntry]
    sample: bool = False


def load(path: Path) -> Catalogue:
    return parse(_read(path), str(path))


def parse(text: str | bytes, origin: str = "catalogue") -> Catalogue:
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{origin}: not YAML: {error}") from error
    if not isinstance(content, dict):
        raise CatalogueError(f"{origin}: expected keys and values, not {content!r}")
    _only(origin, content, _KEYS)
    currency = _text(origin, content, "currency")
    unit = content.get("priceUnit", "hour")
    if unit not in _HOURS:
        raise CatalogueError(f"{origin}: priceUnit is {unit!r}, not one of {', '.join(_HOURS)}")
    cpus_per_core = _number(origin, content, "cpusPerCore", 1.0)
    classes = content.get("classes")
    if not isinstance(classes, list) or not classes:
        raise CatalogueError(f"{origin}: classes is {classes!r}, expected a list of at least one class")
    sample = content.get("sample", False)
    if not isinstance(sample, bool):
        raise CatalogueError(f"{origin}: sample is {sample!r}, expected true or false")
    found = _catalogue(
        origin,
        currency,
        cpus_per_core,
        (_entry(f"{origin}: classes[{i}]", row, _HOURS[unit]) for i, row in enumerate(classes)),
    )
    return replace(found, sample=sample)


def from_csv(path: Path, currency: str = "USD", cpus_per_core: float = _CSV_CPUS_PER_CORE) -> Catalogue:
    """The paper's table: instance_class, family (the root one), subfamily, cores, memory_gib, price_..."""
    rows = csv.DictReader(io.StringIO(_read(path).decode()))
    columns = {
        "class": "instance_class",
        "family": "family",
        "cores": "cores",
        "memoryGiB": "memory_gib",
        "price": "price_usd_per_hour",
    }
    missing = [column for column in columns.values() if column not in (rows.fieldnames or ())]
    if missing:
        raise CatalogueError(f"{path}: column {missing[0]!r} is missing; there are {rows.fieldnames}")
    return _catalogue(
        str(path),
        currency,
        cpus_per_core,
        (
            _entry(f"{path}:{rows.line_num}", {key: row[column] for key, column in columns.items()}, 1.0)
            for row in rows
        ),
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CatalogueError(f"catalogue {str(path)!r} cannot be read: {error}") from error


def _catalogue(origin: str, currency: str, cpus_per_core: float, rows: Iterable[CatalogueEntry]) -> Catalogue:
    entries: dict[str, CatalogueEntry] = {}
    for entry in rows:
        if entry.instance_class in entries:
            raise CatalogueError(f"{origin}: class {entry.instance_class!r} is there twice")
        entries[entry.instance_class] = entry
    return Catalogue(currency, cpus_per_core, MappingProxyType(entries))


def _entry(where: str, row: Any, hours: float) -> CatalogueEntry:
    if not isinstance(row, dict):
        raise CatalogueError(f"{where}: expected {', '.join(sorted(_CLASS_KEYS))}, not {row!r}")
    _only(where, row, _CLASS_KEYS)
    name = _text(where, row, "class")
    where = f"{where} ({name})"
    return CatalogueEntry(
        name,
        _text(where, row, "family"),
        _number(where, row, "cores"),
        _number(where, row, "memoryGiB"),
        _number(where, row, "price") / hours,
        _labels(where, row),
    )


def _labels(where: str, row: dict[Any, Any]) -> Mapping[str, str]:
    labels = row.get("labels") or {}
    if not isinstance(labels, dict) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in labels.items()
    ):
        raise CatalogueError(f"{where}: labels is {labels!r}, expected names and values, both in quotes")
    return MappingProxyType(labels)


def _only(where: str, content: dict[Any, Any], known: set[str]) -> None:
    """Refuse unknown keys: a misspelt key would silently leave a default in place."""
    if unknown := sorted(str(key) for key in set(content) - known):
        raise CatalogueError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")


def _text(where: str, row: dict[Any, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise CatalogueError(f"{where}: {key} is {value!r}, expected a name")
    return value.strip()


def _number(where: str, row: dict[Any, Any], key: str, default: float | None = None) -> float:
    value = row.get(key, default)
    try:
        number = math.nan if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number <= 0:
        raise CatalogueError(f"{where}: {key} is {value!r}, expected a number above 0")
    return number
