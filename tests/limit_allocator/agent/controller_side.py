"""What a controller would send and read, in a test's words."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from limit_allocator.allocation.model import first_sequence
from limit_allocator.wire.messages import (
    ACCOUNT_ROWS,
    CPU_ROWS,
    MEMORY_ROWS,
    Ceiling,
    Orders,
    Pod,
    Report,
    ReserveOrder,
    table,
)

__all__ = ["columns", "cpu", "memory", "orders", "pod", "reserve", "rows"]

GROWTH_BYTES = 20 << 20
_ROWS = {
    "cpu": CPU_ROWS,
    "memory": MEMORY_ROWS,
    "cpu_accounts": ACCOUNT_ROWS,
    "memory_accounts": ACCOUNT_ROWS,
    "gone": ("key",),
}


def pod(uid: str, application: str = "shop", enforce: bool = True, ceilings: Iterable[Ceiling] = ()) -> Pod:
    return Pod(
        uid=uid,
        application=application,
        growth_bytes=GROWTH_BYTES,
        enforce=enforce,
        ceilings=tuple(ceilings),
    )


def cpu(*commands: tuple[int, int, int], term: int = 1) -> bytes:
    """(key, number of the command, quota_us)"""
    return columns([(key, first_sequence(term) + number, value) for key, number, value in commands])


def memory(*commands: tuple[int, int, int, int], term: int = 1) -> bytes:
    """(key, number of the command, limit_bytes, grown_seen)"""
    return columns([(key, first_sequence(term) + n, value, seen) for key, n, value, seen in commands])


def reserve(application: str, number: int, value_bytes: int, term: int = 1) -> ReserveOrder:
    return ReserveOrder(
        application=application, sequence=first_sequence(term) + number, value_bytes=value_bytes
    )


def orders(
    *, start: int = 1, term: int = 1, pods: Iterable[Pod] | None = None, cpu: bytes = b"",
    memory: bytes = b"", reserves: Iterable[ReserveOrder] = (),
) -> Orders:  # fmt: skip
    return Orders(
        term=term,
        start=start,
        pods=None if pods is None else tuple(pods),
        cpu=cpu,
        memory=memory,
        reserves=tuple(reserves),
    )


def columns(rows: list[tuple[int, ...]]) -> bytes:
    return np.array(rows, "<i8").T.tobytes()


def rows(report: Report | None, what: str) -> dict[int, dict[str, int]]:
    """A table of a report, by key."""
    assert report is not None
    names = _ROWS[what]
    return {
        column[0]: dict(zip(names, column, strict=True))
        for column in table(getattr(report, what), names).T.tolist()
    }
