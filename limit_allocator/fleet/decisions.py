"""The limits of all containers that share parameters, decided together."""

from __future__ import annotations

import dataclasses

import numpy as np

from limit_allocator.allocation.cpu import CpuContainers, next_quotas
from limit_allocator.allocation.fair_share import group_sums
from limit_allocator.allocation.memory import MemoryAccounts, next_limits
from limit_allocator.allocation.model import Booleans, Integers, Parameters, Reason, Variant
from limit_allocator.fleet.slots import Kind
from limit_allocator.fleet.state import CPU, MEMORY, State

__all__ = ["Decisions"]

# Ticks come more often when memory is short: CPU has no news then.
_CPU_EVERY_S = 0.05
_STUCK_FOR_S = 2.0  # longer than that no container waits at its limit: then the kernel decides


class Decisions:
    def __init__(self, state: State) -> None:
        self._state = state
        self._containers: dict[Parameters, Integers] = {}
        self._accounts: dict[Parameters, Integers] = {}  # containers and reserves
        self._cpu_at_s = float("-inf")
        self._reclaimed_at_s: dict[Parameters, float] = {}

    def decide(self, now_s: float) -> None:
        """Aim both ledgers at the new limits."""
        if self._state.members_changed:
            self._collect()
        if now_s - self._cpu_at_s >= _CPU_EVERY_S:
            self._cpu_at_s = now_s
            for parameters, slots in self._containers.items():
                self._cpu(slots, parameters, now_s)
        for parameters, slots in self._accounts.items():
            self._memory(slots, parameters, now_s)
        self._state.memory_changed = False

    def _collect(self) -> None:
        """Sort the slots by their parameters."""
        state = self._state
        state.members_changed = False
        kind = state.slots.kind
        accounts = np.flatnonzero((kind == Kind.CONTAINER) | (kind == Kind.RESERVE))
        sharing = state.sharing[state.slots.group[accounts]]
        self._accounts = {state.distinct[i]: accounts[sharing == i] for i in np.unique(sharing).tolist()}
        self._containers = {p: slots[kind[slots] == Kind.CONTAINER] for p, slots in self._accounts.items()}
        self._reclaimed_at_s = {p: t for p, t in self._reclaimed_at_s.items() if p in self._accounts}

    def _reachable(
        self, resource: int, slots: Integers, parameters: Parameters, now_s: float
    ) -> tuple[Integers, Integers, Booleans, Booleans]:
        """Slots that are decided about, what they have, which are silent, and which keep what they have.

        A newcomer that no command can reach takes nothing from others.
        """
        state = self._state
        have = state.have(resource, slots)
        silent = state.silent(slots, parameters.silent_after_s, now_s)
        kept = silent | ~(state.slots.confirmed[slots] | state.slots.shadow[slots])
        out = kept & (have == 0)
        if out.any():
            slots, have, silent, kept = slots[~out], have[~out], silent[~out], kept[~out]
        return slots, have, silent, kept

    def _cpu(self, slots: Integers, parameters: Parameters, now_s: float) -> None:
        state, of = self._state, self._state.slots
        slots, have, silent, kept = self._reachable(CPU, slots, parameters, now_s)
        window = state.telemetry.window(slots, parameters.window_periods)
        if silent.any():
            heard_at_s = np.where(silent, -np.inf, window.heard_at_s)
            window = dataclasses.replace(window, heard_at_s=heard_at_s)
        of.used_us[slots] = window.used_us[:, 0]
        floor = np.full(len(slots), parameters.floor_us)
        rows = CpuContainers(of.group[slots], have, floor, of.cpu_ceiling_us[slots], window)
        quotas = next_quotas(rows, state.limits[CPU], parameters, now_s)
        quota, reason = quotas.quota_us, quotas.reason
        if parameters.variant != Variant.BEST:
            # These move step by step: a step for each report.
            step = (reason == Reason.THROTTLED) | (reason == Reason.UNUSED)
            kept = kept | (step & ~of.fresh[slots])
        of.fresh[slots] = False
        if kept.any():
            quota = np.where(kept, have, quota)
        self._aim(CPU, slots, quota, (reason, quotas.wanted_us), now_s)

    def _memory(self, slots: Integers, parameters: Parameters, now_s: float) -> None:
        state, of = self._state, self._state.slots
        slots, have, _, kept = self._reachable(MEMORY, slots, parameters, now_s)
        is_reserve = of.kind[slots] == Kind.RESERVE
        stuck_at = self._stuck(slots, have, parameters, now_s)
        since_s = now_s - self._reclaimed_at_s.setdefault(parameters, now_s)
        reclaim = since_s >= parameters.reclaim_every_s
        newcomers = (have == 0) & ~is_reserve
        if not (reclaim or state.memory_changed or stuck_at.any() or newcomers.any()):
            return
        if reclaim:
            self._reclaimed_at_s[parameters] = now_s
        used, ceiling = of.used_bytes[slots], of.memory_ceiling_bytes[slots]
        floor = np.full(len(slots), parameters.floor_bytes)
        if newcomers.any():
            # Nobody joins below what it uses: that cannot be written.
            floor = np.where(newcomers, np.minimum(np.maximum(floor, used), ceiling), floor)
            state.ledgers[MEMORY].set_floors(slots[newcomers], floor[newcomers])
        if kept.any():
            # They neither give nor take.
            used, ceiling, floor = (np.where(kept, have, column) for column in (used, ceiling, floor))
            stuck_at = np.where(kept, 0, stuck_at)
        limits = next_limits(
            MemoryAccounts(
                of.group[slots], of.node[slots], have, used, floor, ceiling, stuck_at, is_reserve
            ),
            state.limits[MEMORY], state.room_bytes, parameters, reclaim=reclaim,
        )  # fmt: skip
        still = kept | self._worth_no_command(slots, have, limits.limit_bytes, is_reserve)
        limit = np.where(still, have, limits.limit_bytes)
        # Its agent has raised it, out of the reserve.
        grew = (limits.reason == Reason.UNCHANGED) & (limit > of.decided[MEMORY, slots]) & ~is_reserve
        reason = np.where(grew, Reason.MEMORY_EVENT, limits.reason)
        self._aim(MEMORY, slots, limit, (reason, limit), now_s)

    def _worth_no_command(
        self, slots: Integers, have: Integers, limit: Integers, is_reserve: Booleans
    ) -> Booleans:
        """Reserves that would change by less than an eighth, where the limit allows to keep them.

        Each container that comes or goes moves all of its application.
        """
        close: Booleans = is_reserve & (limit > 0) & (np.abs(limit - have) * 8 < have)
        if not close.any():
            return close
        group, limits = self._state.slots.group[slots], self._state.limits[MEMORY]
        fits = group_sums(np.where(close, have, limit), group, len(limits)) <= limits
        close &= fits[group]
        return close

    def _stuck(self, slots: Integers, have: Integers, parameters: Parameters, now_s: float) -> Integers:
        """The limits that containers hit and that are not raised yet."""
        of = self._state.slots
        stuck_at = of.stuck_at_bytes[slots]
        # One that has come to use more than its first command says cannot join with that.
        behind = of.registering[slots] & (have > 0) & (of.used_bytes[slots] > have)
        if behind.any():
            of.stuck_since_s[slots[behind]] = now_s
            stuck_at = np.where(behind, np.maximum(stuck_at, of.used_bytes[slots]), stuck_at)
        if not stuck_at.any():
            return stuck_at
        enough = np.minimum(stuck_at + parameters.growth_bytes, of.memory_ceiling_bytes[slots])
        over = (have >= enough) | (now_s - of.stuck_since_s[slots] > _STUCK_FOR_S)
        # It may have given memory back since: then it is one of those that others can have some of.
        over |= of.used_bytes[slots] + parameters.growth_bytes < have
        stuck_at = np.where(over, 0, stuck_at)
        of.stuck_at_bytes[slots] = stuck_at
        return stuck_at

    def _aim(
        self, resource: int, slots: Integers, values: Integers, why: tuple[Integers, Integers], now_s: float
    ) -> None:
        """Aim at these values. `why`: reasons, and what was wanted before the application's limit."""
        of = self._state.slots
        shadow = of.shadow[slots]
        enforced = slots[~shadow]
        self._state.ledgers[resource].set_targets(enforced, values[~shadow])
        self._state.ledger_changed[resource] = True
        changed = values != of.decided[resource, slots]
        at = slots[changed]
        of.before[resource, at] = of.decided[resource, at]
        of.decided[resource, at] = values[changed]
        of.reason[resource, at] = why[0][changed]
        of.wanted[resource, at] = why[1][changed]
        of.changed_at_s[resource, at] = now_s
