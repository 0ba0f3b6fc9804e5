"""K of Algorithm 2 as ours keeps it: by load, one knee measured, those of loads near it inferred.

The points of a search, moved to another load (search/load.py), tell the knee there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpa_replacement.decision.model import KnownKnee
from hpa_replacement.search import Point, SearchState
from hpa_replacement.search.best import knee_at
from hpa_replacement.search.load import TOO_FAR, load_of

__all__ = ["confirmed", "covers", "knee_for", "learn"]

# Loads, as multiples of the one searched at, whose knees are inferred. Short of TOO_FAR: the loads of single
# points scatter, and at the very end of what can be moved most of them would be left out.
_FACTORS = tuple(float(f) for f in np.geomspace(1 / (0.8 * TOO_FAR), 0.8 * TOO_FAR, 7))


def learn(known: Sequence[KnownKnee], search: SearchState, found: KnownKnee) -> tuple[KnownKnee, ...]:
    """What is known after a search; of the loads it covers, what was known before is forgotten."""
    points = (*search.evidence, *search.points)
    load = _load(found, points)
    if load <= 0:
        return (found,)
    kept = [k for k in known if not load / TOO_FAR <= _load(k, points) <= load * TOO_FAR]
    inferred = [
        KnownKnee(
            found.throughput_per_s * factor, found.concurrency * factor,
            knee_at(load * factor, points, search.left, search.right), inferred=True,
        )
        for factor in _FACTORS if abs(factor - 1) > 0.1
    ]  # fmt: skip
    return (*kept, *inferred, found)


def covers(load: float, known: Sequence[KnownKnee], points: tuple[Point, ...]) -> bool:
    return load <= max(_load(k, points) for k in known)


def confirmed(load: float, known: Sequence[KnownKnee], points: tuple[Point, ...]) -> bool:
    """Whether a knee of about this load was found again after it had been doubted."""
    return any(k.confirmed and load / TOO_FAR <= _load(k, points) <= load * TOO_FAR for k in known)


def knee_for(load: float, known: Sequence[KnownKnee], points: tuple[Point, ...]) -> float:
    """Between known loads linear; below the lowest and above the highest in proportion to the load."""
    pairs = sorted((_load(k, points), float(k.replicas)) for k in known)
    highest, most = pairs[-1]
    if load > highest > 0:
        return most * load / highest
    return float(np.interp(load, [0.0, *(p[0] for p in pairs)], [0.0, *(p[1] for p in pairs)]))


def _load(knee: KnownKnee, points: tuple[Point, ...]) -> float:
    return load_of(Point(knee.replicas, 0.0, knee.throughput_per_s, knee.concurrency), points)
