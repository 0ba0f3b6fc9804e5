"""Limits the work of a planner. Work is counted, not time, so the same request gets the same plan."""

from __future__ import annotations

__all__ = ["LIST_ITEM", "CutShort", "Work"]

# One item of a Python list costs about as much as this many array elements.
LIST_ITEM = 30


class CutShort(Exception):
    """The limit of work was reached."""


class Work:
    """Counts array elements, one unit each. Spend before allocating, so that the limit also bounds memory."""

    def __init__(self, limit: float) -> None:
        self._left = limit

    def spend(self, units: float) -> None:
        self._left -= units
        if self._left < 0:
            raise CutShort
