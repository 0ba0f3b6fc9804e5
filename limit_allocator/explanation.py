"""Explains the limits of an application, from its DistributedContainer's status. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from limit_allocator import distributed_container
from limit_allocator.status import SERIES
from surgekit.errors import UserError
from surgekit.kube.conditions import status_before

__all__ = ["Container", "Explanation", "Line", "NothingToExplain", "explain", "sparkline"]

Json = dict[str, Any]
_BARS = "▁▂▃▄▅▆▇█"
_NAMES = dict(zip(SERIES, ("CPU limits", "CPU used", "memory limits", "memory used"), strict=True))
_UNITS = {name: "m" if name.endswith("Millicores") else "Mi" for name in SERIES}


class NothingToExplain(UserError):
    """Nothing was decided yet; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Container:
    pod: str
    container: str
    node: str
    cpu_millicores: int
    cpu_used_millicores: int
    throttled_percent: int
    memory_mib: int
    memory_used_mib: int
    changed_s_ago: float | None  # when a limit changed last; None: never since the controller's start
    reason: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the picture: a sum over all containers."""

    name: str
    unit: str
    values: tuple[int, ...]  # the newest last
    top: int  # of this line and its sister, so that limits and use have one scale


@dataclass(frozen=True, slots=True)
class Explanation:
    application: str
    mode: str  # in force
    asked_mode: str
    age_s: float  # of the status
    pods: int
    container_count: int
    limit: Json  # in force; each of these has cpu and memory
    allocated: Json
    used: Json
    unallocated: Json
    events_survived: int
    oom_kills: int
    conditions: tuple[tuple[str, str, str, str], ...]  # type, status, reason, message
    left_alone: tuple[tuple[str, int, str], ...]  # reason, pods, one of them
    nodes: tuple[str, ...]
    containers: tuple[Container, ...]  # those that need most attention
    step_s: float
    lines: tuple[Line, ...]


def explain(obj: Json, now_s: float) -> Explanation:
    """Explain the DistributedContainer `obj`. Raises SpecError if its spec cannot be read."""
    spec, status = distributed_container.read(obj), status_before(obj)
    conditions = tuple(
        (c["type"], c.get("status", ""), c["reason"], c.get("message", ""))
        for c in status.get("conditions") or ()
    )
    if not status.get("observedTime"):
        said = "; ".join(f"{reason}: {message}" for _, _, reason, message in conditions[:1])
        raise NothingToExplain(
            f"{spec.key}: no limits yet{', ' + said if said else ' and no condition'}. Is the controller "
            "running (`surgekit serve limit-allocator`), and does it hold its Lease?"
        )
    return Explanation(
        spec.key,
        status.get("mode", str(spec.mode)),
        str(spec.mode),
        _age_s(status["observedTime"], now_s),
        status.get("pods", 0),
        status.get("containerCount", 0),
        status.get("limit") or {},
        status.get("allocated") or {},
        status.get("used") or {},
        status.get("unallocated") or {},
        status.get("eventsSurvived", 0),
        status.get("oomKills", 0),
        conditions,
        tuple((of["reason"], of["pods"], of["example"]) for of in status.get("leftAlone") or ()),
        tuple(status.get("nodes") or ()),
        tuple(_container(of, now_s) for of in status.get("containers") or ()),
        (status.get("history") or {}).get("stepSeconds", 0.0),
        _lines(status.get("history") or {}),
    )


def sparkline(values: tuple[int, ...], top: int) -> str:
    """One character a value; the lowest is 0."""
    last = len(_BARS) - 1
    return "".join(_BARS[min(round(last * value / top), last) if top > 0 else 0] for value in values)


def _lines(history: Json) -> tuple[Line, ...]:
    values = {name: tuple(history.get(name) or ()) for name in SERIES}
    return tuple(
        Line(
            _NAMES[name],
            _UNITS[name],
            of,
            max(v for n in SERIES if _UNITS[n] == _UNITS[name] for v in values[n]),
        )
        for name, of in values.items()
        if of
    )


def _container(of: Json, now_s: float) -> Container:
    return Container(
        of["pod"],
        of["container"],
        of["node"],
        of.get("cpuMillicores", 0),
        of.get("cpuUsedMillicores", 0),
        of.get("throttledPercent", 0),
        of.get("memoryMiB", 0),
        of.get("memoryUsedMiB", 0),
        _age_s(of["changedTime"], now_s) if of.get("changedTime") else None,
        of.get("reason", ""),
    )


def _age_s(stamp: str, now_s: float) -> float:
    return max(now_s - datetime.fromisoformat(stamp).timestamp(), 0.0)
