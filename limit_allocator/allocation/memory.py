"""The next memory limit of every container and reserve (sections IV-A, IV-C, IV-D.2).

- A container that hit its limit gets a fixed number of pages more.
- Every 5 s, limits above usage + delta are cut to usage + delta.
- If the application's pool is too small for those that hit their limits, or for newcomers' floors, others
  give at once: those with the most slack first, as much as lacks, down to usage + the tight delta. The
  same happens on a node that is short of memory, and after the application's limit was lowered.
- If that is too little for those that hit their limits, all share what is not used: everybody can grow by the
  same amount, and nobody is killed while anybody holds memory that it does not use.
- A share sigma of the application's limit is withheld for memory events, and granted ahead to the agents by
  their share of the containers. What an agent has not spent counts as slack.

'Usage' is what the caller passes: the working set, without page cache that the kernel can drop at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from limit_allocator.allocation.fair_share import fair_share, group_sums
from limit_allocator.allocation.model import PAGE_BYTES, Booleans, Integers, Parameters, Reason

__all__ = ["MemoryAccounts", "MemoryLimits", "explain", "initial_limits_bytes", "next_limits"]

_MIB = 1024 * 1024
# The kernel charges up to so many pages ahead for each CPU (MEMCG_CHARGE_BATCH): less headroom is none.
_LEAST_HEADROOM_BYTES = 64 * PAGE_BYTES


@dataclass(frozen=True, slots=True)
class MemoryAccounts:
    """Containers and reserves of applications with the same parameters, as arrays of one length."""

    application: Integers  # index into the limits
    node: Integers  # index into the nodes' room
    limit_bytes: Integers  # the limit last decided; 0: a newcomer
    used_bytes: Integers  # a reserve: what containers hold of it
    floor_bytes: Integers
    ceiling_bytes: Integers  # the limit in the pod's spec
    stuck_at_bytes: Integers  # the limit that the container hit; 0: none
    is_reserve: Booleans


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What each account should have, and why (`Reason`)."""

    limit_bytes: Integers
    reason: Integers


def initial_limits_bytes(limits_bytes: Integers, containers: Integers, sigma: float) -> Integers:
    """Eq. (2), per application, read as global limit * (1 - sigma) / containers."""
    return (limits_bytes * (1.0 - sigma)).astype(np.int64) // np.maximum(containers, 1)


def next_limits(
    accounts: MemoryAccounts,
    limits_bytes: Integers,
    node_room_bytes: Integers,
    parameters: Parameters,
    *,
    reclaim: bool,
) -> MemoryLimits:
    """The limits from now on. `limits_bytes` are the applications' global limits.

    `node_room_bytes` is what each node can still give before the kubelet evicts. `reclaim` is true every
    `reclaim_every_s`.
    """
    limit, application = accounts.limit_bytes, accounts.application
    floor = np.minimum(accounts.floor_bytes, accounts.ceiling_bytes)
    newcomer = (limit == 0) & ~accounts.is_reserve
    starved = (accounts.stuck_at_bytes > 0) & ~newcomer
    settled = ~newcomer & ~starved

    needed = np.maximum(limit, accounts.stuck_at_bytes + parameters.growth_bytes)
    needed = np.where(starved, np.maximum(np.minimum(needed, accounts.ceiling_bytes), limit), limit)
    on_node = _bounded_by_nodes(needed, limit, starved, accounts.node, node_room_bytes)
    node_full = on_node < needed

    least_kept = np.where(accounts.is_reserve, accounts.used_bytes, floor)
    loose = np.maximum(accounts.used_bytes + parameters.delta_bytes, least_kept)
    tight = np.maximum(accounts.used_bytes + parameters.tight_delta_bytes, least_kept)
    tight = np.minimum(np.where(accounts.is_reserve, accounts.used_bytes, tight), limit)
    reserves = _reserves(accounts, limits_bytes, parameters)
    kept = np.where(settled & ~accounts.is_reserve & reclaim, np.minimum(limit, loose), limit)
    kept = np.where(accounts.is_reserve, np.clip(reserves, tight, np.maximum(limit, tight)), kept)
    full_nodes = group_sums(node_full.astype(np.int64), accounts.node, len(node_room_bytes)) > 0
    for_node = settled & ~accounts.is_reserve & full_nodes[accounts.node]
    kept = np.where(for_node, np.minimum(kept, tight), kept)

    # First those that cannot go on without, out of others' slack if need be.
    must = np.where(newcomer, floor, np.where(starved, on_node, kept))
    lacking = np.maximum(group_sums(must, application, len(limits_bytes)) - limits_bytes, 0)
    slack = np.where(settled, np.maximum(kept - tight, 0), 0)
    spared = group_sums(slack, application, len(limits_bytes)) - lacking
    given = slack - fair_share(slack, np.zeros_like(slack), application, np.maximum(spared, 0))
    must, kept = np.where(settled, must - given, must), np.where(settled, kept - given, kept)
    least = np.where(newcomer, floor, kept)
    first = fair_share(must, least, application, limits_bytes)
    in_use = np.maximum(
        accounts.used_bytes + np.where(accounts.is_reserve, 0, _LEAST_HEADROOM_BYTES), least_kept
    )
    base = np.where(newcomer, first, np.minimum(in_use, first))
    leveled = _leveled(first, np.where(starved, on_node, first), base, application, limits_bytes)
    given, first = given + first - leveled, leveled
    # Then what makes life easier: newcomers' equal shares, and the reserves.
    containers = group_sums((~accounts.is_reserve).astype(np.int64), application, len(limits_bytes))
    equal = initial_limits_bytes(limits_bytes, containers, parameters.sigma)
    easier = np.where(newcomer, np.clip(equal[application], floor, accounts.ceiling_bytes), first)
    grow_reserve = accounts.is_reserve & (lacking == 0)[application]
    easier = np.where(grow_reserve, np.maximum(reserves, first), easier)
    final = fair_share(easier, first, application, limits_bytes)

    reason = np.where(final < limit, Reason.RECLAIMED, Reason.UNCHANGED)
    reason = np.where((given > 0) | (for_node & (final < limit)), Reason.RECLAIMED_FOR_OTHERS, reason)
    reason = np.where(newcomer, Reason.NEWCOMER, reason)
    at_ceiling = needed < accounts.stuck_at_bytes + parameters.growth_bytes
    short = np.where(node_full, Reason.NODE_FULL, np.where(at_ceiling, Reason.CEILING, Reason.MEMORY_EVENT))
    reason = np.where(starved, np.where(final < on_node, Reason.FAIR_SHARE, short), reason)
    return MemoryLimits(final, reason)


def explain(reason: int, before_bytes: int, after_bytes: int) -> str:
    """The decision about one container, as a sentence."""
    before, after = (f"{value / _MIB:.0f} MiB" for value in (before_bytes, after_bytes))
    return {
        Reason.UNCHANGED: f"{after}: fits its use",
        Reason.NEWCOMER: f"begins with {after}: an equal share of the application's limit, or its floor",
        Reason.MEMORY_EVENT: f"raised from {before} to {after}: it hit its limit",
        Reason.FAIR_SHARE: f"{after} (was {before}): it hit its limit, and the application has no more left",
        Reason.CEILING: f"{after} (was {before}): it hit its limit, and its pod's spec allows no more",
        Reason.NODE_FULL: f"{after} (was {before}): it hit its limit, and its node has no more left",
        Reason.RECLAIMED: f"cut from {before} to {after}: the rest was not used",
        Reason.RECLAIMED_FOR_OTHERS: f"cut from {before} to {after}: others need what it does not use",
    }[Reason(reason)]


def _bounded_by_nodes(
    needed: Integers, limit: Integers, starved: Booleans, node: Integers, room: Integers
) -> Integers:
    """What containers that hit their limits can get on their nodes."""
    at = node[starved]
    capacity = np.maximum(room, 0) + group_sums(limit[starved], at, len(room))
    bounded = needed.copy()
    bounded[starved] = fair_share(needed[starved], limit[starved], at, capacity)
    return bounded


def _leveled(
    limit: Integers, needed: Integers, base: Integers, application: Integers, limits_bytes: Integers
) -> Integers:
    """Equal headrooms above `base` in applications where somebody gets less than it needs."""
    lacking = group_sums(needed - limit, application, len(limits_bytes)) > 0
    room = limits_bytes - group_sums(base, application, len(limits_bytes))
    headroom = fair_share(needed - base, np.zeros_like(base), application, np.maximum(room, 0))
    return np.where((lacking & (room > 0))[application], base + headroom, limit)


def _reserves(accounts: MemoryAccounts, limits_bytes: Integers, parameters: Parameters) -> Integers:
    """Each reserve's share of sigma, by the share of the application's containers on its node."""
    pairs = accounts.application * (accounts.node.max(initial=0) + 1) + accounts.node
    _, pair = np.unique(pairs, return_inverse=True)
    is_container = (~accounts.is_reserve).astype(np.int64)
    here = group_sums(is_container, pair, len(pairs))[pair]
    everywhere = group_sums(is_container, accounts.application, len(limits_bytes))[accounts.application]
    withheld = (limits_bytes * parameters.sigma).astype(np.int64)[accounts.application]
    return np.where(accounts.is_reserve, withheld * here // np.maximum(everywhere, 1), 0)
