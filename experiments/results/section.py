"""What a section of the results is: data, which page.py writes as Markdown and report/ as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from experiments.intervals import in_words
from experiments.results.plot import Plot

__all__ = ["Better", "Cell", "Estimate", "Figures", "Section", "Standing", "Summary", "ratio"]

Figures = Mapping[str, Any]
Better = Literal["above", "below"]
Standing = Literal["ahead", "unsure", "behind"]


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval. A ratio also knows on which side of 1 ours is better."""

    value: float
    low: float
    high: float
    digits: int = 2
    better: Better | None = None

    def __str__(self) -> str:
        return in_words({"mean": self.value, "low": self.low, "high": self.high}, self.digits)

    @property
    def standing(self) -> Standing | None:
        """Ahead if the whole interval is on the better side of 1, behind if the value as shown is not."""
        if self.better is None:
            return None
        sign = 1 if self.better == "above" else -1
        if sign * (round(self.value, self.digits) - 1) < 0:
            return "behind"
        return "ahead" if min(sign * (self.low - 1), sign * (self.high - 1)) > 0 else "unsure"


Cell = str | Estimate


def ratio(interval: Figures, better: Better | None = "above", digits: int = 2) -> Estimate:
    middle = next(interval[key] for key in ("geomean", "mean", "median") if key in interval)
    return Estimate(middle, interval["low"], interval["high"], digits, better)


@dataclass(frozen=True)
class Summary:
    """One line for the README."""

    part: str
    result: str
    behind: str = ""  # where ours is worse


@dataclass(frozen=True)
class Section:
    """Texts are Markdown; names that come out of a file were escaped when it was read (checked_figures.py).

    Titles begin with the system's name and a colon.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    summary: Summary | None = None
    plots: Sequence[Plot] = ()

    @property
    def system(self) -> str:
        return self.title.partition(":")[0]

    def behind(self) -> Iterator[tuple[str, str, Estimate]]:
        """Row, column and value of each ratio on the wrong side of 1."""
        for row in self.rows:
            for column, cell in zip(self.columns, row, strict=True):
                if isinstance(cell, Estimate) and cell.standing == "behind":
                    yield str(row[0]), column, cell
