"""Algorithm 1 as printed, with integer midpoints, replayed over the points measured so far."""

from __future__ import annotations

from hpa_replacement.search.kneedle import find_knee
from hpa_replacement.search.state import Ask, Found, Point, SearchState, Step, best_measured

__all__ = ["next_step"]

# It needs 30 at a capacity of 1,000; this ends searches in which other replicas served than asked for.
_SAMPLES_MAX = 64


def next_step(state: SearchState) -> Step:
    b_l, b_r = state.left, state.reach  # the search may not ask for more than `reach`
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
        # The midpoint of two neighbours is one of them: it was measured already, so the search ends.
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
