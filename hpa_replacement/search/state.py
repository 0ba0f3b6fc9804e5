"""A search as a value: what it may ask for and what it has measured. All else follows from these.

No variant keeps a phase, a direction or a bound: each works them out again from its points, in the order they
were measured. So a restart between two steps changes nothing.
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
    """The knee of the curve over [left, right] is looked for; least to reach replicas may be asked for."""

    variant: Variant
    left: int
    right: int
    reach: int
    seed: int = 0  # for searches that draw at random
    points: tuple[Point, ...] = ()  # in the order they were measured
    evidence: tuple[Point, ...] = ()  # measured before this search; only `best` looks at them
    enough: int | None = None  # a knee above this need not be known better (`best` only)
    least: int = 1  # fewer are not asked for (`best` only)

    def __post_init__(self) -> None:
        if not 1 <= self.left <= self.reach <= self.right:
            raise ValueError(
                f"search: must have 1 <= left <= reach <= right, has {self.left}, {self.reach}, {self.right}"
            )

    def as_plain(self) -> dict[str, Any]:
        """Numbers, strings and lists only: for the status of an object."""

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

        # A merge patch takes what is None away.
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
    """One more measurement; its replicas are those that served, not necessarily those asked for."""
    return replace(state, points=(*state.points, point))


def best_measured(points: tuple[Point, ...]) -> int:
    """The replicas with the best score; of equals the fewest."""
    return min(points, key=lambda p: (-p.score, p.replicas)).replicas
