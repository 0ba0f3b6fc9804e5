"""Keeps containers warm after the target fell, in two stages of `keepWarm` each. Pure.

First, plans are made for the highest target of the last `keepWarm`, so nothing changes. A
HorizontalPodAutoscaler holds its replicas in the same way (`scaleDown.stabilizationWindowSeconds`). When the
held target falls, containers that are no longer needed shrink and stay for `keepWarm` again
(`combofunc.planner.idle`).
"""

from __future__ import annotations

import math

__all__ = ["RecentTargets", "ends_at_s", "held_target", "idle_until_s", "note_target"]

# (Unix time until which it was the target, target). The last is the present target; earlier ones are higher.
RecentTargets = tuple[tuple[float, int], ...]


def note_target(
    recent: RecentTargets, target: int, running: int, keep_s: float, now_s: float
) -> RecentTargets:
    """The targets that count from now on.

    `running` is the concurrency of the containers that are there. It bounds earlier targets, so that nothing
    is created for them, and stands for them at the beginning. A target of 0 keeps nothing.
    """
    keep_s = keep_s if target else 0.0
    recent = recent or ((now_s, running),)
    # The last one was the target until now.
    earlier = [*recent[:-1], (now_s, recent[-1][1])]
    counting: RecentTargets = ((now_s, target),)
    for until_s, before in reversed(earlier):
        bounded = min(before, running)
        if bounded > counting[0][1] and until_s + keep_s > now_s:
            counting = ((until_s, bounded), *counting)
    return counting


def held_target(recent: RecentTargets) -> int:
    """The highest target that counts: the one to plan for."""
    return recent[0][1]


def ends_at_s(recent: RecentTargets, keep_s: float) -> float:
    """When the held target no longer counts; infinity if it is the present one."""
    return recent[0][0] + keep_s if len(recent) > 1 else math.inf


def idle_until_s(
    before: RecentTargets, recent: RecentTargets, until_s: float, keep_s: float, now_s: float
) -> float:
    """Until when containers that are not needed stay, shrunk: for `keep_s` since the held target last fell.

    `before` are the targets that counted until now, `until_s` is what this returned for them.
    """
    if not keep_s or not recent[-1][1]:
        return 0.0
    fell = bool(before) and held_target(recent) < held_target(before)
    return now_s + keep_s if fell else until_s
