"""The paper's hill climbing (section IV-C): upwards from one replica to the capacity, then Kneedle once."""

from __future__ import annotations

import math

from hpa_replacement.search.kneedle import find_knee
from hpa_replacement.search.state import Ask, Found, SearchState, Step, best_measured

__all__ = ["next_step"]

# The paper says that steps are inversely proportional to the angle, not by what factor: 90 degrees over the
# angle is one replica at the steepest; and no step is larger than a tenth of the way.
_STEEPEST_DEGREES = 90.0
_LARGEST_STEP = 0.1


def next_step(state: SearchState) -> Step:
    points = state.points
    if not points:
        return Ask(state.left, "the left end")
    last = points[-1]
    largest = max(round((state.reach - state.left) * _LARGEST_STEP), 1)
    step = largest
    if len(points) >= 2:
        before = points[-2]
        run = last.replicas - before.replicas
        if run <= 0 or last.replicas >= state.reach:
            return _finish(state)
        degrees = math.degrees(math.atan((last.score - before.score) / run))
        if degrees > 0:
            step = max(round(min(_STEEPEST_DEGREES / degrees, largest)), 1)  # as good as flat: infinite
    if last.replicas >= state.reach:
        return _finish(state)
    return Ask(min(last.replicas + step, state.reach), f"{step} up")


def _finish(state: SearchState) -> Found:
    knee = find_knee((p.replicas, p.score) for p in state.points)
    if knee is None:
        return Found(best_measured(state.points), f"no knee among {len(state.points)} points: the best score")
    return Found(knee, f"knee of {len(state.points)} points")
