"""A search as a value: its bounds and the points it has measured.

No variant stores a phase, a direction or a moving bound: each computes them again from its points, in the
order they were measured. So a restart between two steps changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

__all__ = ["Ask", "Found", "NextStep", "Point", "SearchState", "Step", "Variant", "best_measured", "observe"]


class Variant(StrEnum):
    BEST = "best"
    PAPER = "paper"


@dataclass(frozen=True, slots=True)
class Point:
    replicas: int
    score: float  # eq. (1)
    throughput_per_s: float = 0.0  # 0: not known
    concurrency: float = 0.0

    def __post_init__(self) -> None:
        for name in ("replicas", "score", "throughput_per_s", "concurrency"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name}: must be a number >= 0, is {value}")


@dataclass(frozen=True, slots=True)
class Ask:
    """Measure with this many replicas next."""

    replicas: int
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    knee: int
    reason: str


Step = Ask | Found


@dataclass(frozen=True, slots=True)
class SearchState:
    """Searches the knee of the curve over [left, right]; may ask for `least` to `reach` replicas."""

    variant: Variant
    left: int
    right: int
    reach: int
    seed: int = 0  # for searches that draw at random
    points: tuple[Point, ...] = ()  # in the order they were measured
    evidence: tuple[Point, ...] = ()  # measured before this search (`best` only)
    enough: int | None = None  # a knee above this need not be located better (`best` only)
    least: int = 1  # never asks for fewer (`best` only)

    def __post_init__(self) -> None:
        if not 1 <= self.left <= self.reach <= self.right:
            raise ValueError(
                f"search: must have 1 <= left <= reach <= right, has {self.left}, {self.reach}, {self.right}"
            )

    def as_plain(self) -> dict[str, Any]:
        """As numbers, strings and lists, for the status of an object."""

        def plain(points: tuple[Point, ...]) -> list[list[float]]:
            return [[p.replicas, p.score, p.throughput_per_s, p.concurrency] for p in points]

        return {
            "variant": self.variant.value,
            "left": self.left,
            "right": self.right,
            "reach": self.reach,
            "seed": self.seed,
            "points": plain(self.points),
            "evidence": plain(self.evidence),
            "enough": self.enough,
            "least": self.least,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> SearchState:
        def points(rows: list[list[float]]) -> tuple[Point, ...]:
            return tuple(Point(int(r[0]), float(r[1]), float(r[2]), float(r[3])) for r in rows)

        # A merge patch removes keys whose value is None.
        enough = plain.get("enough")
        try:
            return cls(
                Variant(plain["variant"]),
                int(plain["left"]), int(plain["right"]), int(plain["reach"]), int(plain["seed"]),
                points(plain["points"]), points(plain["evidence"]), None if enough is None else int(enough),
                int(plain.get("least", 1)),
            )  # fmt: skip
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"search: cannot be read from {plain!r}: {error!r}") from error


NextStep = Callable[[SearchState], Step]


def observe(state: SearchState, point: Point) -> SearchState:
    """Add a measurement. Its replicas are those that served, which may differ from those asked for."""
    return replace(state, points=(*state.points, point))


def best_measured(points: tuple[Point, ...]) -> int:
    """The fewest replicas with the best score."""
    return min(points, key=lambda p: (-p.score, p.replicas)).replicas
