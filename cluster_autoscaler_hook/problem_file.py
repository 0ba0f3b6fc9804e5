"""FCMA problem files: the authors' JSON format, as ../tests/cluster_autoscaler_hook/problems has it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cluster_autoscaler_hook.model import (
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


class _App(msgspec.Struct):
    name: str
    sfmpl: float = 1.0


class _Class(msgspec.Struct):
    cores: float
    mem: float
    price: float
    family: str


class _Perf(msgspec.Struct):
    cores: float
    mem: list[float] | float
    perf: float
    aggs: list[int] = msgspec.field(default_factory=lambda: [1])


class _System(msgspec.Struct):
    apps: dict[str, _App]
    families: dict[str, list[str]]
    instance_classes: dict[str, _Class]
    perf: dict[str, _Perf]


class _File(msgspec.Struct):
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
    try:
        file = msgspec.json.decode(text, type=_File)
    except msgspec.MsgspecError as error:  # names the path, e.g. `$.system.perf[...].cores`
        raise InvalidProblem(str(error)) from error
    cpu, price, rate, memory = (_unit(file.units, name) for name in ("cpu", "cost/t", "workload", "mem"))
    roots = {family: _root(file.system.families, family) for family in file.system.families}
    classes = []
    for name, row in file.system.instance_classes.items():
        if row.family not in roots:
            raise InvalidProblem(f"instance class {name!r}: family {row.family!r} is not among the families")
        classes.append(
            InstanceClass(name, roots[row.family], row.cores * cpu, row.mem * memory, row.price * price)
        )
    containers = {}
    for key, row_perf in file.system.perf.items():
        app, family = _pair(key)
        if app not in file.system.apps:
            raise InvalidProblem(f"perf {key!r}: app {app!r} is not among the apps")
        if family not in roots:
            raise InvalidProblem(f"perf {key!r}: family {family!r} is not among the families")
        if roots[family] != family:
            raise InvalidProblem(f"perf {key!r}: {family!r} is not a root family; {roots[family]!r} is")
        sizes = row_perf.mem if isinstance(row_perf.mem, list) else [row_perf.mem] * len(row_perf.aggs)
        containers[app, family] = Container(
            row_perf.cores * cpu,
            row_perf.perf * rate,
            tuple(row_perf.aggs),
            tuple(size * memory for size in sizes),
        )
    unknown = file.workloads.keys() - file.system.apps.keys()
    if unknown:
        raise InvalidProblem(f"workloads: app {min(unknown)!r} is not among the apps")
    apps = tuple(
        App(name, file.workloads.get(name, 0.0) * rate, row.sfmpl if sfmpl is None else sfmpl)
        for name, row in file.system.apps.items()
    )
    return Problem(apps, tuple(classes), containers)


def _unit(units: dict[str, str], quantity: str) -> float:
    known = _UNITS[quantity]
    if units.get(quantity) not in known:
        raise InvalidProblem(
            f"units: {quantity!r} is {units.get(quantity)!r}; it must be one of {', '.join(known)}"
        )
    return known[units[quantity]]


def _pair(key: str) -> tuple[str, str]:
    app, comma, family = key.strip("()").partition(", ")
    if not comma or not (key.startswith("(") and key.endswith(")")):
        raise InvalidProblem(f"perf {key!r}: the key must read '(app, family)'")
    return app, family


def _root(families: dict[str, list[str]], family: str) -> str:
    """The root above a family; the authors' data has one parent each."""
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
