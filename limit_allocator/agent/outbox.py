"""What the next report has to say: what changed since the last one, and on a new stream everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from limit_allocator.agent.container import Held
from limit_allocator.allocation.node_account import NodeAccount
from limit_allocator.wire.messages import Found, Report, ReserveReport

__all__ = ["Outbox"]

Row = tuple[int, ...]


@dataclass(slots=True)
class Outbox:
    cpu: NodeAccount
    memory: NodeAccount
    number: int = 0  # of the last report of this start
    found: dict[int, Found] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    cpu_rows: list[Row] = field(default_factory=list)
    memory_read: dict[int, Held] = field(default_factory=dict)  # whose memory was read
    cpu_accounts: set[str] = field(default_factory=set)  # that changed
    memory_accounts: set[str] = field(default_factory=set)
    reserves: set[str] = field(default_factory=set)  # applications whose reserve changed

    def clear(self) -> None:
        """Without a stream nothing is kept: the next one begins with everything."""
        for held in self.memory_read.values():
            held.stuck_at_bytes = 0
        for each in (self.found, self.memory_read, self.cpu_accounts, self.memory_accounts, self.reserves):
            each.clear()
        self.gone.clear()
        self.cpu_rows.clear()

    def all_again(self, held: Iterable[Held]) -> None:
        self.clear()
        for one in held:
            self.found[one.key] = one.found
            self.memory_read[one.key] = one
        self.cpu_accounts.update(report.name for report in self.cpu.reports())
        self.memory_accounts.update(report.name for report in self.memory.reports())
        self.reserves.update(report.name for report in self.memory.reserve_reports())

    def opened(self, held: Held) -> None:
        self.found[held.key] = held.found
        if held.enforced:
            self.cpu_accounts.add(held.name)
            self.memory_changed(held)

    def cpu_changed(self, held: Held) -> None:
        self.cpu_accounts.add(held.name)

    def reserve_changed(self, application: str) -> None:
        if self.memory.has_reserve(application):
            self.reserves.add(application)

    def memory_changed(self, held: Held) -> None:
        self.memory_accounts.add(held.name)
        self.reserves.add(held.pod.application)

    def closed(self, held: Held) -> None:
        """Also one that no report has named yet: its number is used up."""
        self.found.pop(held.key, None)
        self.memory_read.pop(held.key, None)
        self.gone.append(held.key)
        for names in (self.cpu_accounts, self.memory_accounts):
            names.discard(held.name)
        if held.enforced:
            self.reserves.add(held.pod.application)

    @property
    def urgent(self) -> bool:
        """Whether there is more to say than a tick's readings."""
        accounts = self.cpu_accounts or self.memory_accounts or self.reserves
        return bool(self.gone or self.memory_read or accounts)

    def take(self, at_us: int, room_bytes: int, foreign_writes: int) -> Report:
        self.number += 1
        report = Report(
            number=self.number,
            term=self.memory.term,
            at_us=at_us,
            room_bytes=room_bytes,
            found=tuple(self.found.values()),
            gone=_table([(key,) for key in self.gone]),
            cpu=_table(self.cpu_rows),
            memory=_table([_memory_row(held) for held in self.memory_read.values()]),
            cpu_accounts=_accounts(self.cpu, self.cpu_accounts),
            memory_accounts=_accounts(self.memory, self.memory_accounts),
            reserves=tuple(map(self._reserve, sorted(self.reserves))),
            foreign_writes=foreign_writes,
        )
        self.clear()
        return report

    def _reserve(self, application: str) -> ReserveReport:
        reserve = self.memory.reserve_report(application)
        return ReserveReport(
            application=application,
            applied=reserve.applied,
            granted_bytes=reserve.written,
            spent_bytes=self.memory.spent(application),
        )


def _memory_row(held: Held) -> Row:
    """In the order of MEMORY_ROWS."""
    return (held.key, held.used_bytes, held.stuck_at_bytes, held.events, held.oom_kills or 0)


def _accounts(account: NodeAccount, names: Iterable[str]) -> bytes:
    reports = map(account.report, sorted(names, key=int))
    return _table([(int(r.name), r.applied, int(r.joined), r.written, r.grown, r.folded) for r in reports])


def _table(rows: Sequence[Row]) -> bytes:
    """One row a container becomes one column a container."""
    return np.array(rows, "<i8").T.tobytes() if rows else b""
