"""Reads curves from a CSV file: name, capacity, score at 1, ..., score at capacity."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kwok.errors import LabError

__all__ = ["CurveFileError", "MeasuredCurve", "read_curves", "true_knee"]

# As the search itself has it (hpa_replacement/search/curves.py): a curve that gains less than 10 % is flat,
# one that is nowhere 5 % of its height above its chord is straight.
_FLAT, _STRAIGHT = 0.10, 0.05


class CurveFileError(LabError):
    """The message names file, line and fault."""


@dataclass(frozen=True)
class MeasuredCurve:
    name: str
    scores: tuple[float, ...]  # with 1, 2, ... replicas

    @property
    def capacity(self) -> int:
        return len(self.scores)


def read_curves(file: Path) -> list[MeasuredCurve]:
    """Empty lines and lines that start with # are skipped."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CurveFileError(f"{file} cannot be read: {error}") from error
    curves = []
    for number, row in enumerate(csv.reader(lines), start=1):
        if row and not row[0].startswith("#"):
            try:
                curves.append(_curve(row))
            except ValueError as error:
                raise CurveFileError(f"{file}, line {number}: {error}") from error
    if not curves:
        raise CurveFileError(
            f"{file} has no curve: a line is name, capacity, score at 1, ..., score at capacity"
        )
    return curves


def _curve(row: Sequence[str]) -> MeasuredCurve:
    if len(row) < 2:
        raise ValueError("a line is name, capacity, score at 1, ..., score at capacity")
    name, capacity, scores = row[0].strip(), int(row[1]), tuple(map(float, row[2:]))
    if capacity < 3:
        raise ValueError(f"capacity {capacity}: a knee needs at least 3 replicas")
    if len(scores) != capacity:
        raise ValueError(f"{len(scores)} scores for a capacity of {capacity}")
    if not all(math.isfinite(score) and score >= 0 for score in scores):
        raise ValueError("every score must be a number of at least 0")
    if max(scores) <= 0:
        raise ValueError("no score is above 0")
    return MeasuredCurve(name, scores)


def true_knee(scores: Sequence[float]) -> int:
    """Replicas at which the curve is farthest above its chord: Kneedle's knee of a curve known everywhere.

    1 if the curve is flat, all replicas if it is straight.
    """
    values = np.asarray(scores, dtype=float)
    low, high = float(values.min()), float(values.max())
    if high < values[0] * (1.0 + _FLAT):
        return 1
    above = (values - low) / (high - low) - np.linspace(0.0, 1.0, len(values))
    return len(values) if above.max() < _STRAIGHT else int(above.argmax()) + 1
