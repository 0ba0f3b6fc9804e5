"""An agent's side of the ledger: which commands it carries out, and what it may grow by itself.

A memory event needs no round trip: the agent raises the container's limit out of a reserve that the
controller granted ahead. A container's limit is what commands set, plus growth that is still paid by the
reserve; so growing changes neither the sum nor what the ledger counts. A later command says how much of the
growth it has seen and contains. That part is folded into the limit and is free again in the reserve.

After a restart an agent does not know what it had granted: all that is written is then part of the limits,
and the reserve is empty. It must say both in the same report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from limit_allocator.allocation.model import first_sequence

__all__ = ["AccountReport", "Command", "NodeAccount"]


@dataclass(frozen=True, slots=True)
class Command:
    """One of the ledger's commands, by name."""

    name: str
    start: int
    sequence: int
    value: int
    grown_seen: int = 0


@dataclass(frozen=True, slots=True)
class AccountReport:
    """One account for the ledger's `Reports`."""

    name: str
    applied: int
    joined: bool
    written: int
    grown: int
    folded: int


@dataclass(slots=True)
class _Account:
    application: str
    joined: bool
    base: int
    applied: int = 0
    grown: int = 0
    folded: int = 0

    @property
    def extra(self) -> int:
        """Growth that is paid by the reserve."""
        return self.grown - self.folded


class NodeAccount:
    """One resource on one node. The agent's journal keeps `start`, which each start raises, and `term`."""

    def __init__(self, start: int, term: int = 0) -> None:
        self.start = start
        self.term = term
        self._containers: dict[str, _Account] = {}
        self._reserves: dict[str, _Account] = {}  # by application

    def greet(self, term: int) -> None:
        """A controller says hello: from now on no command of an earlier term counts."""
        self.term = max(self.term, term)

    def open(self, name: str, application: str, written: int | None) -> None:
        """A container was found. `written` is a limit of ours that is in force; None: there is none."""
        self._containers[name] = _Account(application, written is not None, written or 0)
        self._reserves.setdefault(application, _Account(application, joined=True, base=0))

    def close(self, name: str) -> None:
        """The container is gone: the reserve has back what it gave.

        The reserve stays until the agent's next start, also without containers: a later one of the same name
        would carry out commands that were meant for this one, and that the ledger no longer counts.
        """
        del self._containers[name]

    def limit_after(self, command: Command) -> int | None:
        """The limit to write, or None: ignore the command. Call `wrote` after the write."""
        account = self._containers.get(command.name)
        if account is None or not self._is_valid(command, account):
            return None
        return command.value + account.grown - self._folded_by(command, account)

    def wrote(self, command: Command, limit: int) -> None:
        """Note the limit that is in force now: the kernel may have refused a cut, or a part of it."""
        account = self._containers[command.name]
        # Where a cut was refused, the limit cannot also take over growth: the ledger has not counted that.
        counted = max(account.base if account.joined else 0, command.value)
        folded = min(self._folded_by(command, account), counted - limit + account.grown)
        account.folded = max(account.folded, folded)
        account.base = limit - account.extra
        account.applied, account.joined = command.sequence, True

    def set_reserve(self, application: str, command: Command) -> None:
        """Grant or take back. What containers hold of it stays granted."""
        reserve = self._reserves.get(application)
        if reserve is not None and self._is_valid(command, reserve):
            reserve.base = max(command.value, self.spent(application))
            reserve.applied = command.sequence

    def grow(self, name: str, most: int) -> int:
        """Raise a container's limit by up to `most` out of the reserve. Returns its limit: write it."""
        account = self._containers[name]
        if account.joined:
            account.grown += max(min(most, self.unspent(account.application)), 0)
        return account.base + account.extra

    def spent(self, application: str) -> int:
        """What containers hold of an application's reserve."""
        return sum(a.extra for a in self._containers.values() if a.application == application)

    def unspent(self, application: str) -> int:
        return self._reserves[application].base - self.spent(application)

    def report(self, name: str) -> AccountReport:
        """One container."""
        return self._report(name, self._containers[name])

    def reports(self) -> Iterator[AccountReport]:
        """All containers."""
        return (self._report(name, account) for name, account in self._containers.items())

    def has_reserve(self, application: str) -> bool:
        """Whether a container of the application was found since this start."""
        return application in self._reserves

    def reserve_report(self, application: str) -> AccountReport:
        return self._report(application, self._reserves[application])

    def reserve_reports(self) -> Iterator[AccountReport]:
        """All reserves, by application. Send them with `reports`, in one message."""
        return (self._report(name, account) for name, account in self._reserves.items())

    def _is_valid(self, command: Command, account: _Account) -> bool:
        current = command.start == self.start and command.sequence >= first_sequence(self.term)
        return current and command.sequence > account.applied

    @staticmethod
    def _folded_by(command: Command, account: _Account) -> int:
        return max(account.folded, min(command.grown_seen, account.grown))

    @staticmethod
    def _report(name: str, account: _Account) -> AccountReport:
        return AccountReport(
            name, account.applied, account.joined, account.base, account.grown, account.folded
        )
