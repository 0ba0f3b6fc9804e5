"""Parses numbers from annotations and labels, which anybody may write.

The length is checked first: thousands of digits cost time, and Python's int() refuses them with ValueError.
"""

from __future__ import annotations

import math
import re

__all__ = ["decimal", "integer"]

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")


def integer(text: object, low: int, high: int) -> int | None:
    """Parse a whole number in ASCII digits from `low` to `high`; None for anything else."""
    if not isinstance(text, str) or len(text) > 20 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if low <= number <= high else None


def decimal(text: object, low: float, high: float) -> float | None:
    """Parse a number such as 12 or 12.5 from `low` to `high`; None for anything else, such as 1e3 or nan."""
    if not isinstance(text, str) or len(text) > 40 or not _DECIMAL.fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) and low <= number <= high else None
