"""Points measured under different loads, as if all had been under one.

With n times the load and n times the replicas each replica sees what it saw: latency stays, throughput and
score are n times as high. So a curve for one load tells the curve for another near it, score(n load,
n replicas) = n score(load, replicas), and a search goes on while the load moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import log
from statistics import median

from hpa_replacement.search.state import Point

__all__ = ["TOO_FAR", "Moved", "at_load", "at_load_of_last", "load_of", "near"]

# A load that differs by less is the same: correcting for it would only add its noise.
_SAME = 0.1
# Throughput is taken for the load when it moves less than half as much as concurrency. Where clients come and
# go both move; then concurrency, by which Knative scales too, is the safer one: it does not saturate.
_CLEARLY = 0.5
# Further than this the curve of one load says little about another.
TOO_FAR = 3.0


@dataclass(frozen=True, slots=True)
class Moved:
    """A point at another load than its own."""

    replicas: float
    score: float


def load_of(point: Point, among: tuple[Point, ...]) -> float:
    """What the clients determine: with closed loops the concurrency, with open ones the throughput.

    The other of the two follows from the replicas, so it is the one that moves more when these do. The median
    step tells, as clients come and go between some of the points.
    """
    served = [p for p in among if p.concurrency > 0 and p.throughput_per_s > 0]
    steps = [(a, b) for a, b in pairwise(served) if a.replicas != b.replicas]
    if steps:
        by_concurrency = median(abs(log(b.concurrency / a.concurrency)) for a, b in steps)
        by_throughput = median(abs(log(b.throughput_per_s / a.throughput_per_s)) for a, b in steps)
        if by_throughput < _CLEARLY * by_concurrency:
            return point.throughput_per_s
    return point.concurrency


def near(load: float, points: tuple[Point, ...]) -> tuple[Point, ...]:
    """Those that say something about this load."""
    return tuple(p for p in points if load / TOO_FAR <= load_of(p, points) <= load * TOO_FAR)


def at_load_of_last(points: tuple[Point, ...]) -> tuple[Moved, ...]:
    return at_load(load_of(points[-1], points), points) if points else ()


def at_load(reference: float, points: tuple[Point, ...]) -> tuple[Moved, ...]:
    """Replicas and score of each point moved to the load `reference`; too different loads left out."""
    if reference <= 0:
        return tuple(Moved(p.replicas, p.score) for p in points)
    moved = []
    for p in points:
        load = load_of(p, points)
        factor = reference / load if load > 0 else 1.0
        if abs(factor - 1.0) <= _SAME:
            factor = 1.0
        if 1 / TOO_FAR <= factor <= TOO_FAR:
            moved.append(Moved(p.replicas * factor, p.score * factor))
    return tuple(moved)
