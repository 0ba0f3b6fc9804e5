"""Agents, a network that loses, repeats and reorders, and a controller around the real ledger: for tests.

Agents follow the real `NodeAccount`. What is really written is kept apart from what anybody believes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from limit_allocator.allocation.ledger import UNKNOWN, Ledger, Reports
from limit_allocator.allocation.model import Integers, report_order
from limit_allocator.allocation.node_account import AccountReport, Command, NodeAccount

APPLICATIONS = ("shop", "mail")
FLOOR, CEILING = 10, 500
RESERVE = "reserve of "


@dataclass(frozen=True)
class Hello:
    agent: int
    term: int


@dataclass(frozen=True)
class Order:
    agent: int
    command: Command


@dataclass(frozen=True)
class Report:
    agent: int
    start: int
    order: int
    term: int
    containers: tuple[tuple[str, AccountReport], ...]  # by application
    reserves: tuple[AccountReport, ...]


Message = Hello | Order | Report


@dataclass
class Agent:
    number: int
    account: NodeAccount
    written: dict[str, int] = field(default_factory=dict)  # limits of ours that are really in force
    application: dict[str, str] = field(default_factory=dict)  # containers that run
    used: dict[str, int] = field(default_factory=dict)
    reported: int = 0

    def start_container(self, name: str, application: str) -> None:
        self.application[name] = application
        self.account.open(name, application, None)

    def end_container(self, name: str) -> None:
        self.account.close(name)
        for table in (self.written, self.application, self.used):
            table.pop(name, None)

    def restart(self) -> None:
        self.account = NodeAccount(self.account.start + 1, self.account.term)
        self.reported = 0
        for name, application in self.application.items():
            self.account.open(name, application, self.written.get(name))

    def obey(self, command: Command) -> None:
        """Carry a command out; the kernel refuses to go below what is used."""
        if command.name.startswith(RESERVE):
            self.account.set_reserve(command.name.removeprefix(RESERVE), command)
        elif (limit := self.account.limit_after(command)) is not None:
            if command.name in self.written:
                used = min(self.used.get(command.name, 0), self.written[command.name])
                limit = max(limit, used)
            self.written[command.name] = limit
            self.account.wrote(command, limit)

    def grow(self, name: str, most: int) -> None:
        limit = self.account.grow(name, most)
        if name in self.written:
            self.written[name] = limit

    def report(self) -> Report:
        self.reported += 1
        order = report_order(self.account.start, self.reported)
        containers = tuple((self.application[a.name], a) for a in self.account.reports())
        return Report(
            self.number, self.account.start, order, self.account.term, containers,
            tuple(self.account.reserve_reports()),
        )  # fmt: skip

    def holds(self, application: str) -> int:
        """What is really in force: limits, and the reserve that is left."""
        limits = sum(self.written.get(n, 0) for n, a in self.application.items() if a == application)
        granted = sum(r.written for r in self.account.reserve_reports() if r.name == application)
        return limits + granted - self.account.spent(application)


class Controller:
    """Gives out slots, and believes agents' full reports in order."""

    def __init__(self, term: int, agents: int, limits: list[int]) -> None:
        self.term = term
        self.ledger = Ledger(term)
        self.slots: dict[tuple[int, str], int] = {}  # by agent and name of the account
        self._free: list[int] = []
        self._newest: dict[int, int] = {}
        for group, limit in enumerate(limits):
            self.ledger.set_limit(group, limit)
            for agent in range(agents):
                # A first controller has heard nothing either.
                self.ledger.add(self._slot(agent, f"unheard {group}"), group, 0, UNKNOWN)

    def hear(self, report: Report) -> None:
        # The ledger itself ignores what is old; only accounts are opened and closed in order.
        newest = report.term >= self.term and report.order > self._newest.get(report.agent, -1)
        accounts = {a.name: (application, a) for application, a in report.containers}
        accounts |= {RESERVE + a.name: (a.name, a) for a in report.reserves}
        for name, (application, account) in accounts.items() if newest else ():
            if (report.agent, name) not in self.slots:
                group = APPLICATIONS.index(application)
                floor = 0 if name.startswith(RESERVE) else FLOOR
                written = account.written if account.joined else None
                self.ledger.add(self._slot(report.agent, name), group, floor, written)
        accounts = {n: a for n, a in accounts.items() if (report.agent, n) in self.slots}
        known = list(accounts.values())
        ones = np.ones(len(known), np.int64)
        self.ledger.report(
            Reports(
                np.array([self.slots[report.agent, name] for name in accounts], np.int64),
                ones * report.order, ones * report.start, ones * report.term,
                np.array([a.applied for _, a in known], np.int64),
                np.array([a.joined for _, a in known], np.bool_),
                np.array([a.written for _, a in known], np.int64),
                np.array([a.grown for _, a in known], np.int64),
                np.array([a.folded for _, a in known], np.int64),
            )
        )  # fmt: skip
        if not newest:
            return
        self._newest[report.agent] = report.order
        for agent, name in [key for key in self.slots if key[0] == report.agent and key[1] not in accounts]:
            self._free.append(self.slots.pop((agent, name)))
            self.ledger.remove(np.array(self._free[-1:]))

    def aim(self, target: Callable[[int, str], int]) -> None:
        for (agent, name), slot in self.slots.items():
            if not name.startswith("unheard"):
                self.ledger.set_targets(np.array([slot]), np.array([target(agent, name)]))

    def send(self, now_s: float) -> list[Order]:
        key_of = {slot: key for key, slot in self.slots.items()}
        commands = self.ledger.commands(now_s)
        columns = (commands.slots, commands.start, commands.sequence, commands.value, commands.grown_seen)
        return [
            Order(key_of[slot][0], Command(key_of[slot][1], start, sequence, value, seen))
            for slot, start, sequence, value, seen in zip(*(c.tolist() for c in columns), strict=True)
        ]

    def decided(self, agent: int, name: str) -> int:
        return int(self.ledger.decided(np.array([self.slots[agent, name]]))[0])

    def counted(self) -> Integers:
        return self.ledger.counted

    def _slot(self, agent: int, name: str) -> int:
        slot = self._free.pop() if self._free else len(self.slots)
        self.slots[agent, name] = slot
        return slot
