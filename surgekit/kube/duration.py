"""Reads durations in the form of Go and CEL ("1m30s")."""

from __future__ import annotations

import re

__all__ = ["seconds"]

_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)", re.ASCII)
_LONGEST = 64
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)  # the pattern in our CRDs


def seconds(text: object) -> float | None:
    """The duration in seconds, or None if `text` is not a duration."""
    if not isinstance(text, str) or len(text) > _LONGEST or not _WHOLE.fullmatch(text):
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))
