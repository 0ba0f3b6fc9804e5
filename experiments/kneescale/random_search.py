"""The paper's random search (section IV-C): random replicas until the knee stays the same for three."""

from __future__ import annotations

from random import Random

from hpa_replacement.search.kneedle import find_knee
from hpa_replacement.search.state import Ask, Found, SearchState, Step, best_measured

__all__ = ["next_step"]

_UNCHANGED = 3
# Random points can move a knee for ever on a noisy curve.
_SAMPLES_MAX = 64


def next_step(state: SearchState) -> Step:
    measured = [(p.replicas, p.score) for p in state.points]
    knees = [find_knee(measured[:n]) for n in range(max(len(measured) - _UNCHANGED, 0), len(measured) + 1)]
    last = knees[-1]
    if last is not None and len(knees) > _UNCHANGED and len(set(knees)) == 1:
        return Found(last, f"the knee of {len(measured)} points is what it was {_UNCHANGED} points ago")
    seen = {replicas for replicas, _ in measured}
    fresh = [r for r in range(state.left, state.reach + 1) if r not in seen]
    if not fresh or len(measured) >= _SAMPLES_MAX:
        if last is None:
            return Found(best_measured(state.points), f"no knee among {len(measured)} points: the best score")
        return Found(last, f"knee of {len(measured)} points")
    # The same seed and the same number of points give the same draw: a restart changes nothing.
    return Ask(Random(f"{state.seed}/{len(measured)}").choice(fresh), "drawn at random")
