"""Parses Kubernetes quantities ("250m", "1.5Gi", "1e3")."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["QuantityError", "parse"]

_SUFFIX = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
# Each text matches in one way only, so matching takes linear time: a dot belongs to the digits before it.
_FORM = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i))?", re.ASCII)
# The API server writes far shorter ones: it caps a quantity at 2^63-1 and rounds to nano
# (k8s.io/apimachinery/pkg/api/resource).
_LONGEST = 64


class QuantityError(ValueError):
    """Not a quantity, or one that no real machine has."""


def parse(value: object) -> float:
    """Parse to base units (cores, bytes). Negative values and values above 1e18 are errors."""
    if isinstance(value, str) and len(value) <= _LONGEST:
        return _read(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _in_range(value)
    raise QuantityError(f"not a quantity: {_shown(value)}")


@lru_cache(maxsize=4096)
def _read(text: str) -> float:
    found = _FORM.fullmatch(text.strip())
    if not found:
        raise QuantityError(f"not a quantity: {_shown(text)}")
    number, exponent, suffix = found.groups()
    return _in_range(float(number + (exponent or "")) * _SUFFIX[suffix or ""])


def _in_range(value: float) -> float:
    if not 0 <= value <= 1e18:  # refuses nan too
        raise QuantityError(f"quantity out of range: {_shown(value)}")
    return float(value)


def _shown(value: object) -> str:
    """A short form for messages: Python cannot even print an integer of thousands of digits."""
    if isinstance(value, str):
        return repr(value) if len(value) <= _LONGEST else f"{value[:_LONGEST]!r}..."
    return f"{value:g}" if isinstance(value, float) else f"of type {type(value).__name__}"
