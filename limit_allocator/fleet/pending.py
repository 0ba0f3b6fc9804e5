"""Reports since the last tick, taken over together: a numpy call costs as much for one as for a thousand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from limit_allocator.allocation.ledger import Reports
from limit_allocator.allocation.model import Integers
from limit_allocator.allocation.telemetry import Readings
from limit_allocator.fleet.state import CPU, MEMORY, State

__all__ = ["Pending", "Rows", "take_over"]


@dataclass(frozen=True, slots=True)
class Rows:
    """A part of a table: one column a container."""

    slots: Integers
    values: Integers  # without the keys

    @staticmethod
    def of(slots: Integers, table: Integers) -> Rows:
        """Leaves out containers that are not ours."""
        if len(slots) and slots.min() < 0:
            ours = slots >= 0
            return Rows(slots[ours], table[1:, ours])
        return Rows(slots, table[1:])


@dataclass(frozen=True, slots=True)
class Pending:
    order: int
    start: int
    at_us: int
    cpu: Rows
    memory: Rows
    accounts: tuple[Rows, Rows]  # of both ledgers


def take_over(reports: Sequence[Pending], term: int, now_s: float, state: State) -> None:
    """Reports of different agents, at most one of each."""
    _readings(reports, now_s, state)
    _memory(reports, now_s, state)
    for resource in (CPU, MEMORY):
        _accounts(reports, resource, term, state)


def _readings(reports: Sequence[Pending], now_s: float, state: State) -> None:
    slots, values, of = _joined([r.cpu for r in reports])
    if not len(slots):
        return
    order = np.array([r.order for r in reports])[of]
    at_us = np.array([r.at_us for r in reports])[of]
    periods, used_us, throttled_periods, throttled_us, quota_us = values
    shadow = state.slots.shadow[slots]
    if shadow.any():  # as if it had the quota that was decided
        quota_us = np.where(shadow, state.slots.decided[CPU, slots], quota_us)
    state.telemetry.record(
        Readings(slots, order, at_us, periods, used_us, throttled_periods, throttled_us, quota_us), now_s
    )
    state.slots.fresh[slots] = True


def _memory(reports: Sequence[Pending], now_s: float, state: State) -> None:
    slots, (used, stuck_at, events, oom_kills), _ = _joined([r.memory for r in reports], rows=4)
    if not len(slots):
        return
    of = state.slots
    limit = of.decided[MEMORY, slots]
    stuck_at = np.where(of.shadow[slots], np.where((limit > 0) & (used >= limit), used, 0), stuck_at)
    of.used_bytes[slots] = used
    hit = stuck_at > 0
    if hit.any():
        of.stuck_at_bytes[slots[hit]] = np.maximum(of.stuck_at_bytes[slots[hit]], stuck_at[hit])
        of.stuck_since_s[slots[hit]] = now_s
    for column, sums, totals in (
        (of.events, state.events, events),
        (of.oom_kills, state.oom_kills, oom_kills),
    ):
        changed = totals != column[slots]
        if changed.any():
            at, new = slots[changed], totals[changed]
            # Totals that fell began again.
            more = np.where(new > column[at], new - column[at], new)
            np.add.at(sums, of.group[at], more)
            column[at] = new


def _accounts(reports: Sequence[Pending], resource: int, term: int, state: State) -> None:
    slots, (applied, joined, written, grown, folded), of = _joined([r.accounts[resource] for r in reports], 5)
    if not len(slots):
        return
    order = np.array([r.order for r in reports])[of]
    start = np.array([r.start for r in reports])[of]
    ledger = state.ledgers[resource]
    ledger.report(
        Reports(slots, order, start, np.full(len(slots), term), applied, joined != 0, written, grown, folded)
    )
    if resource == MEMORY and (grown != state.slots.grown_bytes[slots]).any():
        state.slots.grown_bytes[slots] = grown
        # What was aimed at does not know of the growth, and would take it back.
        ledger.set_targets(slots, ledger.decided(slots))
        state.memory_changed = True


def _joined(parts: Sequence[Rows], rows: int = 5) -> tuple[Integers, Integers, Integers]:
    """Slots, values, and for each column the number of its part."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros((rows, 0), np.int64), np.zeros(0, np.int64)
    slots = np.concatenate([part.slots for part in parts])
    values = np.concatenate([part.values for part in parts], axis=1)
    return slots, values, np.repeat(np.arange(len(parts)), [len(part.slots) for part in parts])
