"""How long to wait after failures in a row: twice as long after each, up to a limit."""

from __future__ import annotations

__all__ = ["back_off_s"]

# Limited before the power is taken: 2.0 ** 1024 raises, and a quota that refuses pods for a day gets there.
_MOST_DOUBLINGS = 64


def back_off_s(failures: int, first_s: float, longest_s: float) -> float:
    """Seconds to wait after the last of `failures` (at least one) failures."""
    return min(first_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), longest_s)
