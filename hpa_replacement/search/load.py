"""Moves points measured under different loads to one load.

With n times the load and n times the replicas each replica has the same work: latency stays, throughput and
score are n times as high. So score(n load, n replicas) = n score(load, replicas): the curve of one load gives
the curves of loads near it, and a search can go on while the load moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import log
from statistics import median

from hpa_replacement.search.state import Point

__all__ = ["TOO_FAR", "Moved", "at_load", "at_load_of_last", "load_of", "near"]

# Loads that differ by less count as equal: correcting for it would only add noise.
_SAME = 0.1
# Throughput is the load if it varies less than half as much as concurrency. When clients come and go both
# vary; then concurrency is safer, since it does not saturate (Knative scales by it, too).
_CLEARLY = 0.5
# Factor between two loads beyond which the curve of one says little about the other.
TOO_FAR = 3.0


@dataclass(frozen=True, slots=True)
class Moved:
    """A point at another load than its own."""

    replicas: float
    score: float


def load_of(point: Point, among: tuple[Point, ...]) -> float:
    """The quantity that the clients determine: concurrency in a closed loop, throughput in an open one.

    The other one depends on the replicas, so it varies more when they change. The median step decides, since
    clients come and go between some of the points.
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
    """The points whose loads are near enough to this one."""
    return tuple(p for p in points if load / TOO_FAR <= load_of(p, points) <= load * TOO_FAR)


def at_load_of_last(points: tuple[Point, ...]) -> tuple[Moved, ...]:
    return at_load(load_of(points[-1], points), points) if points else ()


def at_load(reference: float, points: tuple[Point, ...]) -> tuple[Moved, ...]:
    """Move each point to the load `reference`; leave out points of loads too far from it."""
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
