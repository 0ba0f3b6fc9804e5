"""Shares a pool that is too small: max-min over what is wanted.

Nobody gets more than it wants or less than its least, and nobody could get more without somebody who has no
more than it getting less. Works on all applications at once, in whole numbers.
"""

from __future__ import annotations

import numpy as np

from limit_allocator.allocation.model import Integers

__all__ = ["fair_share", "group_sums", "running_sums"]


def group_sums(values: Integers, group: Integers, groups: int) -> Integers:
    """Sum per group. Exact below 2^53, since numpy adds them as floats: 8 PiB."""
    return np.bincount(group, weights=values, minlength=groups).astype(np.int64)


def running_sums(values: Integers, group: Integers) -> Integers:
    """For each member the sum over its group's members up to and with it."""
    order = np.argsort(group, kind="stable")
    running = np.cumsum(values[order])
    first = np.searchsorted(group[order], group[order])
    sums = np.empty_like(values)
    sums[order] = running - running[first] + values[order][first]
    return sums


def fair_share(wanted: Integers, least: Integers, group: Integers, capacity: Integers) -> Integers:
    """Each member's share: its group's level, but at least `least` and at most `wanted`.

    The level is the highest whole number at which the group's shares fit into its capacity. The units that
    are left go to the first members that want more. If the least shares alone do not fit, everybody gets its
    least.
    """
    wanted = np.maximum(wanted, least)
    # Nobody can get more than everything; this keeps the sums below far from overflowing.
    wanted = np.minimum(wanted, np.maximum(capacity[group], least))
    dry = group_sums(wanted, group, len(capacity)) > capacity
    short = dry[group]
    if not short.any():
        return wanted
    level = _levels(wanted[short], least[short], group[short], capacity)
    shares = np.where(short, np.clip(level[group], least, wanted), wanted)
    left = capacity - group_sums(shares, group, len(capacity))
    more = np.flatnonzero(short & (shares < wanted) & (least <= level[group]))
    rank = running_sums(np.ones_like(more), group[more])
    shares[more] += rank <= left[group[more]]
    return shares


def _levels(wanted: Integers, least: Integers, group: Integers, capacity: Integers) -> Integers:
    """The level of each group of which not all fits.

    As the level rises from 0, a member begins to receive at its least and stops at what it wants. In order of
    these levels, the number of receivers is a running sum, and so is what they have received.
    """
    at = np.concatenate([least, wanted])
    of = np.concatenate([group, group])
    change = np.repeat(np.array([1, -1]), len(group))
    order = np.lexsort((at, of))
    at, of, change = at[order], of[order], change[order]
    receivers = np.cumsum(change)  # 0 again at the end of each group
    received = np.concatenate([[0], np.cumsum(receivers[:-1] * np.diff(at))])
    first = np.searchsorted(of, np.arange(len(capacity)))
    first = np.minimum(first, len(of) - 1)  # groups without members
    received -= received[first][of]

    to_give = capacity - group_sums(least, group, len(capacity))
    reached = group_sums((received <= to_give[of]).astype(np.int64), of, len(capacity))
    last = np.maximum(first + reached - 1, first)
    above = (to_give - received[last]) // np.maximum(receivers[last], 1)
    return np.where(to_give < 0, 0, at[last] + np.where(receivers[last] > 0, above, 0))
