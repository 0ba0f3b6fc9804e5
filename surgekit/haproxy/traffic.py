"""What HAProxy's statistics say of each function's requests on both tracks. Pure.

A function has a backend: its pods are servers of it, and so is its emergency track, as the server
`EMERGENCY`, whose address differs from request to request. Counters belong to the backend and stay when it
gets another function: take differences only while `backend` is the same, and after a fall start at 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["EMERGENCY", "EMERGENCY_ID", "OWN_BACKEND", "FunctionTraffic", "read_traffic"]

EMERGENCY = "emergency"  # a backend's server for requests that an emergency instance takes
EMERGENCY_ID = 1  # its id in every backend, so that statistics can be asked for it alone
OWN_BACKEND = "f"  # backends of functions that are served here: f0, f1, ...


@dataclass(frozen=True)
class FunctionTraffic:
    """One function's requests at this HAProxy."""

    backend: str
    arrivals: int  # requests ever, on both tracks
    overflowed: int  # of these, sent to an emergency instance
    in_pods: int  # now; also those whose placement is asked for at the moment
    in_emergency: int  # now
    waiting: int  # now, for a pod
    pods: int  # that take requests


def read_traffic(
    map_entries: Mapping[str, str], rows: Iterable[Mapping[str, str]]
) -> dict[str, FunctionTraffic]:
    """Traffic by host (`name.namespace`), from `Runtime.map_entries` and `Runtime.functions`.

    Functions that another replica serves are left out: it counts their requests."""
    backends: dict[str, Mapping[str, str]] = {}
    emergency: dict[str, Mapping[str, str]] = {}
    for row in rows:
        if row["svname"] == "BACKEND":
            backends[row["pxname"]] = row
        elif row["svname"] == EMERGENCY:
            emergency[row["pxname"]] = row
    return {
        host: _traffic(backend, backends[backend], emergency.get(backend, {}))
        for host, backend in map_entries.items()
        if backend.startswith(OWN_BACKEND) and backend in backends
    }


def _traffic(backend: str, row: Mapping[str, str], emergency: Mapping[str, str]) -> FunctionTraffic:
    in_emergency, pods = _number(emergency, "scur"), _number(row, "act")
    regular = max(0, _number(row, "scur") - in_emergency)
    # Without pods, all requests wait in a Lua action, outside of HAProxy's queue.
    waiting = min(_number(row, "qcur"), regular) if pods else regular
    return FunctionTraffic(
        backend, _number(row, "stot"), _number(emergency, "stot"), regular - waiting, in_emergency, waiting,
        pods,
    )  # fmt: skip


def _number(row: Mapping[str, str], key: str) -> int:
    return int(row.get(key) or 0)
