"""Kubernetes quantities ("250m", "1.5Gi", "1e3") as numbers."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["QuantityError", "parse"]

_SUFFIX = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i))?")


class QuantityError(ValueError):
    """Not a quantity, or one no real machine has."""


@lru_cache(maxsize=4096)
def parse(text: str | int | float) -> float:
    """The value in base units (cores, bytes). Negative or absurd (> 1e18) values are errors."""
    found = _FORM.fullmatch(str(text).strip())
    if not found:
        raise QuantityError(f"not a quantity: {text!r}")
    number, exponent, suffix = found.groups()
    value = float(number + (exponent or "")) * _SUFFIX[suffix or ""]
    if not 0 <= value <= 1e18:
        raise QuantityError(f"quantity out of range: {text!r}")
    return value
