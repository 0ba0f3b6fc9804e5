"""One section of docs/results.md, before it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Figures", "Section", "Summary"]

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Summary:
    """One line for the README."""

    part: str
    result: str
    behind: str = ""  # where ours is worse


@dataclass(frozen=True)
class Section:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    summary: Summary | None = None
