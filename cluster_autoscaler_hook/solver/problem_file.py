"""Reads FCMA problem files: the authors' JSON format, as README.md describes it.

A file with an error is refused as a whole. The error names the file, the key and the value. A misspelt or
repeated key, or an app without a workload, would silently be another problem.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cluster_autoscaler_hook.solver.model import (
    App,
    Container,
    InfeasibleProblem,
    InstanceClass,
    InvalidProblem,
    Problem,
)

__all__ = ["load", "parse"]

_UNITS = {
    "cpu": {"mcores": 1e-3, "cores": 1.0},
    "cost/t": {"usd/h": 1.0},
    "workload": {"req/h": 1.0, "req/s": 3600.0},
    "mem": {"GiB": 1.0, "MiB": 1 / 1024},
}


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _App(_Strict):
    name: str | None = None
    sfmpl: float = 1.0


class _Class(_Strict):
    cores: float
    mem: float
    price: float
    family: str


class _Perf(_Strict):
    cores: float
    mem: list[float] | float
    perf: float
    aggs: list[int] = msgspec.field(default_factory=lambda: [1])
    maxagg: int | None = None


class _System(_Strict):
    apps: dict[str, Any]
    families: dict[str, list[str]]
    instance_classes: dict[str, Any]
    perf: dict[str, Any]


class _File(_Strict):
    units: dict[str, str]
    system: _System
    workloads: dict[str, float]


def load(path: Path, sfmpl: float | None = None) -> Problem:
    """`sfmpl` overrides every app's own, as the paper's comparison does."""
    try:
        return parse(path.read_bytes(), sfmpl)
    except OSError as error:
        raise InvalidProblem(f"{path}: {error.strerror}") from error
    except (InvalidProblem, InfeasibleProblem) as error:
        raise type(error)(f"{path.name}: {error}") from error


def parse(text: bytes, sfmpl: float | None = None) -> Problem:
    file = _typed(_json(text), _File, "")
    system = file.system
    cpu, price, rate, memory = (_unit(file.units, name) for name in _UNITS)
    roots = {family: _root(system.families, family) for family in system.families}
    classes = []
    for name, content in system.instance_classes.items():
        row = _typed(content, _Class, f"instance class {name!r}: ")
        if row.family not in roots:
            raise InvalidProblem(f"instance class {name!r}: family {row.family!r} is not among the families")
        classes.append(
            InstanceClass(name, roots[row.family], row.cores * cpu, row.mem * memory, row.price * price)
        )
    containers = {}
    for key, content in system.perf.items():
        app, family = _pair(key)
        if app not in system.apps:
            raise InvalidProblem(f"perf {key!r}: app {app!r} is not among the apps")
        if family not in roots:
            raise InvalidProblem(f"perf {key!r}: family {family!r} is not among the families")
        if roots[family] != family:
            raise InvalidProblem(f"perf {key!r}: {family!r} is not a root family; {roots[family]!r} is")
        perf = _typed(content, _Perf, f"perf {key!r}: ")
        if perf.maxagg not in (None, *perf.aggs[-1:]):
            raise InvalidProblem(f"perf {key!r}: maxagg is {perf.maxagg}, but aggs are {perf.aggs}")
        sizes = perf.mem if isinstance(perf.mem, list) else [perf.mem] * len(perf.aggs)
        containers[app, family] = Container(
            perf.cores * cpu, perf.perf * rate, tuple(perf.aggs), tuple(size * memory for size in sizes)
        )
    unknown = file.workloads.keys() - system.apps.keys()
    if unknown:
        raise InvalidProblem(f"workloads: app {min(unknown)!r} is not among the apps")
    apps = []
    for name, content in system.apps.items():
        own = _typed(content, _App, f"app {name!r}: ")
        if own.name not in (None, name):
            raise InvalidProblem(f"app {name!r}: its name is {own.name!r}")
        if name not in file.workloads:
            raise InvalidProblem(f"workloads: app {name!r} is missing; write 0 if it has no load")
        apps.append(App(name, file.workloads[name] * rate, own.sfmpl if sfmpl is None else sfmpl))
    return Problem(tuple(apps), tuple(classes), containers)


class _Object(dict[str, Any]):
    """A JSON object that remembers a repeated key."""

    twice: str | None = None


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    found = _Object(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        found.twice = next(key for key in keys if keys.count(key) > 1)
    return found


def _json(text: bytes) -> Any:
    try:
        content = json.loads(text, object_pairs_hook=_object)
    except RecursionError as error:
        raise InvalidProblem("no JSON that can be read: it is nested too deeply") from error
    except ValueError as error:  # not JSON, not UTF-8, or a number of thousands of digits
        raise InvalidProblem(f"no JSON: {error}") from error
    for where, value in _values(content, ""):
        if isinstance(value, _Object) and value.twice is not None:
            raise InvalidProblem(f"{f'{where}.{value.twice}'.lstrip('.')} is there twice")
        if isinstance(value, int | float) and not abs(value) < math.inf:
            raise InvalidProblem(f"{where} is {value}, it must be a finite number")
        if isinstance(value, int) and abs(value) > 10**15:
            raise InvalidProblem(f"{where} has {len(str(abs(value)))} digits; is a unit wrong?")
    return content


def _values(content: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Every value with its path, such as `system.perf.(web, F).cores`."""
    yield where, content
    inside: Iterable[tuple[str | int, Any]] = ()
    if isinstance(content, dict):
        inside = content.items()
    elif isinstance(content, list):
        inside = enumerate(content)
    for key, value in inside:
        yield from _values(value, f"{where}.{key}".lstrip("."))


_T = TypeVar("_T")


def _typed(content: Any, kind: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:  # names the key, e.g. `$.cores`
        raise InvalidProblem(f"{where}{error}") from error


def _unit(units: dict[str, str], quantity: str) -> float:
    known = _UNITS[quantity]
    if unknown := units.keys() - _UNITS.keys():
        raise InvalidProblem(f"units: {min(unknown)!r} is unknown; known are {', '.join(_UNITS)}")
    if units.get(quantity) not in known:
        raise InvalidProblem(
            f"units: {quantity!r} is {units.get(quantity)!r}; it must be one of {', '.join(known)}"
        )
    return known[units[quantity]]


def _pair(key: str) -> tuple[str, str]:
    app, comma, family = key[1:-1].partition(", ")
    if not comma or not (key.startswith("(") and key.endswith(")")):
        raise InvalidProblem(f"perf {key!r}: the key must read '(app, family)'")
    return app, family


def _root(families: dict[str, list[str]], family: str) -> str:
    """The root of a family; in the authors' data each family has one parent."""
    seen = [family]
    while families[seen[-1]]:
        parents = families[seen[-1]]
        if len(parents) > 1:
            raise InvalidProblem(
                f"family {seen[-1]!r}: several parents {parents}; performance is given per root"
            )
        if parents[0] not in families:
            raise InvalidProblem(f"family {seen[-1]!r}: parent {parents[0]!r} is not among the families")
        if parents[0] in seen:
            raise InvalidProblem(f"family {family!r} is its own ancestor")
        seen.append(parents[0])
    return seen[-1]
