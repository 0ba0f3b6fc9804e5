"""Numbers that somebody wrote into an annotation or a label. Their length is bounded before they are read: a
number of thousands of digits costs time, and Python refuses to read it with an error of its own."""

from __future__ import annotations

import math
import re

__all__ = ["decimal", "integer"]

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")


def integer(text: object, low: int, high: int) -> int | None:
    """A whole number in ASCII digits from `low` to `high`, else None."""
    if not isinstance(text, str) or len(text) > 20 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if low <= number <= high else None


def decimal(text: object, low: float, high: float) -> float | None:
    """A plain number such as 12 or 12.5 from `low` to `high`, else None. No exponent, no nan, no inf."""
    if not isinstance(text, str) or len(text) > 40 or not _DECIMAL.fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) and low <= number <= high else None
