"""Keeps containers warm after the target fell: plans for the highest target of the last `keepWarm`. Pure.

A load that fell often comes back. The paper says nothing about a lower target; eq. (11) alone would remove at
once what the next rise has to create again. A HorizontalPodAutoscaler holds its replicas in the same way
(`scaleDown.stabilizationWindowSeconds`).
"""

from __future__ import annotations

import math

__all__ = ["RecentTargets", "ends_at_s", "held_target", "note_target"]

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
