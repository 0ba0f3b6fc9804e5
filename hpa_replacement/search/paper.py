"""Algorithm 1 as printed, with integer midpoints, replayed over what was measured."""

from __future__ import annotations

from hpa_replacement.search.kneedle import find_knee
from hpa_replacement.search.state import Ask, Found, Point, SearchState, Step, best_measured

__all__ = ["next_step"]

# Far above what it needs (30 at a capacity of 1,000); points that are not what was asked for end here.
_SAMPLES_MAX = 64


def next_step(state: SearchState) -> Step:
    b_l, b_r = state.left, state.reach  # what may not be asked for is no bound of a search
    points = state.points
    first = (b_l, b_r, (b_l + b_r) // 2)  # line 4
    for i, replicas in enumerate(dict.fromkeys(first)):
        if len(points) <= i:
            return Ask(replicas, "one of the first three points (line 4)")
    count = len(dict.fromkeys(first))
    leftwards = True
    while b_l < b_r and count < _SAMPLES_MAX:
        seen = points[:count]
        knee = _kneedle(seen)
        c_last = seen[-1].replicas
        if knee is None or knee == c_last:
            r_new = (c_last + (b_l if leftwards else b_r)) // 2
        elif leftwards:
            leftwards, b_l = False, c_last
            r_new = (b_l + b_r) // 2
        else:
            leftwards, b_r = True, c_last
            r_new = (b_l + b_r) // 2
        # Where a midpoint lies between two neighbours it is one of them: measured already, the end.
        if any(p.replicas == r_new for p in seen):
            break
        if count == len(points):
            return Ask(
                r_new, f"{'left' if leftwards else 'right'} of {c_last}, knee of {count} points: {knee}"
            )
        count += 1
    knee = _kneedle(points)
    if knee is None:
        return Found(best_measured(points), f"no knee among {len(points)} points: the best score stands")
    return Found(knee, f"knee of {len(points)} points")


def _kneedle(points: tuple[Point, ...]) -> int | None:
    return find_knee((p.replicas, p.score) for p in points)
