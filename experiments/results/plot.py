"""Plots as data; report/vega.py draws them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Curve", "Dot", "Dots", "Lines", "Plot", "Point", "Region"]


@dataclass(frozen=True)
class Dot:
    """A value in the line `label`, with its interval if it has one. Without a value, it is a range."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    paper: bool = False  # printed in the paper, not measured here
    ours: bool = True  # of a comparison of systems, drawn as ours


@dataclass(frozen=True)
class Dots:
    """One line for each label: values with intervals, the paper's beside them."""

    title: str
    axis: str  # with its unit, and which side is better
    dots: Sequence[Dot]
    source: str = ""  # the paper's figure that it redraws
    reference: float | None = 1.0  # a line; None for values that are no ratios
    logarithmic: bool = False
    zero: bool = False  # the axis begins at 0
    also_holds: Sequence[float] = ()  # values of plots beside it, for one scale


@dataclass(frozen=True)
class Point:
    x: float
    y: float | None  # None interrupts the line
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Curve:
    label: str
    points: Sequence[Point]
    ours: bool = False
    paper: bool = False
    steps: bool = False


@dataclass(frozen=True)
class Region:
    """A part of the x axis that means something."""

    label: str
    low: float
    high: float


@dataclass(frozen=True)
class Lines:
    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    source: str = ""
    reference: float | None = None
    logarithmic_x: bool = False
    logarithmic_y: bool = False
    regions: Sequence[Region] = ()
    picture: str = ""  # of the same, for the page in Markdown


Plot = Dots | Lines
