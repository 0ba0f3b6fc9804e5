"""How much a planner may look at. Work is counted, not time: the same question gets the same answer."""

from __future__ import annotations

__all__ = ["LIST_ITEM", "CutShort", "Work"]

# Handling one item of a Python list takes about as long as this many numbers of an array.
LIST_ITEM = 30


class CutShort(Exception):
    """More work than is allowed."""


class Work:
    """Counts numbers in arrays, one unit each. Spend before allocating: the limit then bounds memory too."""

    def __init__(self, limit: float) -> None:
        self._left = limit

    def spend(self, units: float) -> None:
        self._left -= units
        if self._left < 0:
            raise CutShort
