"""Two reports in one, for a stream that is slower than the ticks. The later one says what holds now."""

from __future__ import annotations

import msgspec
import numpy as np

from limit_allocator.allocation.model import Integers
from limit_allocator.wire.messages import ACCOUNT_ROWS, MEMORY_ROWS, Report, table

__all__ = ["merge"]

_STUCK_AT = MEMORY_ROWS.index("stuck_at_bytes")


def merge(older: Report, newer: Report) -> Report:
    """What a controller needs to know of two reports of one stream, in one.

    Tables carry totals: the newer row of a container holds. The limit that it was stuck at stays, too.
    """
    gone = older.gone + newer.gone
    ended = table(gone)[0]
    ended_keys = set(ended.tolist())
    # A reading goes with its time; a report between two ticks has none.
    read = newer if newer.cpu else older
    reserves = {reserve.application: reserve for reserve in (*older.reserves, *newer.reserves)}
    return msgspec.structs.replace(
        newer,
        at_us=read.at_us,
        cpu=read.cpu,
        found=tuple(one for one in (*older.found, *newer.found) if one.key not in ended_keys),
        gone=gone,
        memory=_memory(older.memory, newer.memory, ended),
        cpu_accounts=_newest(older.cpu_accounts, newer.cpu_accounts, ACCOUNT_ROWS, ended).tobytes(),
        memory_accounts=_newest(older.memory_accounts, newer.memory_accounts, ACCOUNT_ROWS, ended).tobytes(),
        reserves=tuple(reserves.values()),
    )


def _memory(older: bytes, newer: bytes, ended: Integers) -> bytes:
    merged = _newest(older, newer, MEMORY_ROWS, ended).copy()
    before = table(older, MEMORY_ROWS)
    stuck_at = dict(zip(before[0].tolist(), before[_STUCK_AT].tolist(), strict=True))
    for place, key in enumerate(merged[0].tolist()):
        merged[_STUCK_AT, place] = merged[_STUCK_AT, place] or stuck_at.get(key, 0)
    return merged.tobytes()


def _newest(older: bytes, newer: bytes, rows: tuple[str, ...], ended: Integers) -> Integers:
    before, now = table(older, rows), table(newer, rows)
    both = np.concatenate([before[:, ~np.isin(before[0], now[0])], now], axis=1)
    return both[:, ~np.isin(both[0], ended)]
