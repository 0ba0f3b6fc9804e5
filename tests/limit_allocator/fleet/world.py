"""Agents with the real `NodeAccount` that speak the real messages, without cgroups: for tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from limit_allocator.allocation.model import PERIOD_US
from limit_allocator.allocation.node_account import AccountReport, Command, NodeAccount
from limit_allocator.wire.messages import (
    CPU_ORDER_ROWS,
    MEMORY_ORDER_ROWS,
    Found,
    Hello,
    Orders,
    Pod,
    Report,
    ReserveReport,
    decode_from_agent,
    decode_orders,
    encode,
    table,
)  # fmt: skip

MIB = 1024 * 1024
CEILING_US, CEILING_BYTES = 4 * PERIOD_US, 512 * MIB
ROOM_BYTES = 64 * 1024 * MIB


@dataclass
class Container:
    """What really runs. Without limits of ours it has its pod's."""

    pod_uid: str
    id: str
    quota_us: int | None = None
    memory_bytes: int | None = None
    application: str = ""  # whose limits these are
    demand_us: int = 20_000  # of CPU, each period
    used_bytes: int = 20 * MIB
    periods: int = 0
    cpu_used_us: int = 0
    throttled: int = 0
    lacked_us: int = 0
    stuck_at_bytes: int = 0
    events: int = 0

    def run(self) -> None:
        """One period."""
        quota = self.quota_us or CEILING_US
        self.periods += 1
        self.cpu_used_us += min(self.demand_us, quota)
        if self.demand_us > quota:
            self.throttled += 1
            self.lacked_us += self.demand_us - quota


@dataclass
class SimulatedAgent:
    node: str
    boot_id: str = "boot 1"
    start: int = 1
    term: int = 0
    running: dict[str, Container] = field(default_factory=dict)  # by id

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.cpu, self.memory = NodeAccount(self.start, self.term), NodeAccount(self.start, self.term)
        self.pods: dict[str, Pod] = {}
        self.knows_pods = False
        self.key_of: dict[str, int] = {}  # containers it looks after, by id
        self.application: dict[str, str] = {}
        self.held_as: dict[str, tuple[str, bool]] = {}
        self.last_key = 0
        self.number = 0
        self.at_us = 0
        self.open_stream()

    def open_stream(self) -> None:
        self.unreported: list[str] = list(self.key_of)
        self.gone: list[int] = []
        self.sent: dict[str, object] = {}  # what the controller was told, to send only changes

    def restart(self) -> None:
        """Limits stay. Reserves are forgotten."""
        self.start += 1
        self.begin()

    def reboot(self) -> None:
        self.boot_id += "'"
        self.start = 1
        self.running.clear()
        self.begin()

    def hello(self) -> Hello:
        self.open_stream()
        message = decode_from_agent(
            encode(Hello(node=self.node, boot_id=self.boot_id, start=self.start, term=self.term))
        )
        assert isinstance(message, Hello)
        return message

    def obey(self, orders: Orders) -> None:
        orders = decode_orders(encode(orders))
        if orders.term < self.term or orders.start != self.start:
            return
        self.term = orders.term
        self.cpu.greet(orders.term)
        self.memory.greet(orders.term)
        if orders.pods is not None:
            self.pods = {pod.uid: pod for pod in orders.pods}
            self.knows_pods = True
            self.look()
        ids = {str(key): container_id for container_id, key in self.key_of.items()}
        for key, sequence, quota in table(orders.cpu, CPU_ORDER_ROWS).T.tolist():
            command = Command(str(key), self.start, sequence, quota)
            limit = self.cpu.limit_after(command) if str(key) in ids else None
            if limit is not None:
                self._running(ids[str(key)]).quota_us = limit
                self.cpu.wrote(command, limit)
        for reserve in orders.reserves:
            name = reserve.application
            self.memory.set_reserve(name, Command(name, self.start, reserve.sequence, reserve.value_bytes))
        for key, sequence, value, seen in table(orders.memory, MEMORY_ORDER_ROWS).T.tolist():
            command = Command(str(key), self.start, sequence, value, seen)
            limit = self.memory.limit_after(command) if str(key) in ids else None
            if limit is not None:
                container = self._running(ids[str(key)])
                if container.memory_bytes is None and limit < container.used_bytes:
                    continue  # cannot be written: it does not join yet
                # The kernel refuses to go below what is used.
                limit = max(limit, min(container.used_bytes, container.memory_bytes or 0))
                container.memory_bytes = limit
                self.memory.wrote(command, limit)

    def look(self) -> None:
        """Find new containers; leave those that ended or are not ours any more."""
        ours = {c.id for c in self.running.values() if c.pod_uid in self.pods}
        held = {i for i in ours & self.key_of.keys() if self.held_as[i] == self._way(i)}
        for container in self.running.values():  # written back
            if self.knows_pods and (container.id not in ours or container.id in self.key_of.keys() - held):
                container.quota_us = container.memory_bytes = None
        for container_id in sorted(self.key_of.keys() - held):
            key = self.key_of.pop(container_id)
            for account in (self.cpu, self.memory):
                account.close(str(key))
            if container_id in self.unreported:
                self.unreported.remove(container_id)
            self.gone.append(key)  # also if no report has named it
            del self.application[container_id]
        for container_id in sorted(ours - self.key_of.keys()):
            container = self.running[container_id]
            self.last_key += 1
            self.key_of[container_id] = self.last_key
            self.held_as[container_id] = application, _ = self._way(container_id)
            self.application[container_id] = application
            if container.application != application:  # before a restart: another's limits are written back
                container.quota_us = container.memory_bytes = None
            self.cpu.open(str(self.last_key), application, container.quota_us)
            self.memory.open(str(self.last_key), application, container.memory_bytes)
            self.unreported.append(container_id)

    def use(self, container_id: str, used_bytes: int) -> None:
        """A container comes to use so much, if its limit allows; else a memory event raises that."""
        container = self.running[container_id]
        key = self.key_of.get(container_id)
        limit = container.memory_bytes
        if limit is not None and key is not None and used_bytes > limit:
            container.stuck_at_bytes, container.events = limit, container.events + 1
            growth = self.pods[container.pod_uid].growth_bytes
            container.memory_bytes = limit = self.memory.grow(str(key), growth)
        container.used_bytes = min(used_bytes, limit or CEILING_BYTES)

    def report(self) -> Report:
        """Encoded and decoded, as on the wire."""
        self.look()
        self.number += 1
        self.at_us += PERIOD_US
        for container in self.running.values():
            container.run()
        ours = [(key, self.running[container_id]) for container_id, key in self.key_of.items()]
        report = Report(
            number=self.number, term=self.term, at_us=self.at_us, room_bytes=ROOM_BYTES,
            found=tuple(
                Found(
                    key=self.key_of[i], pod_uid=self.running[i].pod_uid, container_id=i,
                    quota_us=CEILING_US, memory_bytes=CEILING_BYTES,
                )
                for i in self.unreported
            ),
            gone=_table([[key] for key in self.gone]),
            cpu=_table(
                [[k, c.periods, c.cpu_used_us, c.throttled, c.lacked_us, c.quota_us or 0] for k, c in ours]
            ),
            memory=_table([[key, c.used_bytes, c.stuck_at_bytes, c.events, 0] for key, c in ours]),
            cpu_accounts=self._changed("cpu", self.cpu.reports()),
            memory_accounts=self._changed("memory", self.memory.reports()),
            reserves=tuple(
                ReserveReport(
                    application=r.name, applied=r.applied, granted_bytes=r.written,
                    spent_bytes=self.memory.spent(r.name),
                )
                for r in self.memory.reserve_reports()
                if self._is_news("reserve " + r.name, (r, self.memory.spent(r.name)))
            ),
        )  # fmt: skip
        self.unreported, self.gone = [], []
        for container in self.running.values():
            container.stuck_at_bytes = 0
        message = decode_from_agent(encode(report))
        assert isinstance(message, Report)
        return message

    def holds(self, application: str) -> tuple[int, int]:
        """What is really in force: limits, and the reserve that is left."""
        ours = [c for c in self.running.values() if c.application == application]
        granted = sum(r.written for r in self.memory.reserve_reports() if r.name == application)
        cpu = sum(c.quota_us or 0 for c in ours)
        memory = sum(c.memory_bytes or 0 for c in ours)
        return cpu, memory + granted - (self.memory.spent(application) if granted else 0)

    def _way(self, container_id: str) -> tuple[str, bool]:
        pod = self.pods[self.running[container_id].pod_uid]
        return pod.application, pod.enforce

    def _running(self, container_id: str) -> Container:
        container = self.running[container_id]
        container.application = self.application[container_id]
        return container

    def _changed(self, kind: str, reports: Iterable[AccountReport]) -> bytes:
        news = [r for r in reports if self._is_news(f"{kind} {r.name}", r)]
        return _table([[int(r.name), r.applied, r.joined, r.written, r.grown, r.folded] for r in news])

    def _is_news(self, name: str, value: object) -> bool:
        news = self.sent.get(name) != value
        self.sent[name] = value
        return news


def _table(columns: list[list[int]]) -> bytes:
    return np.array(columns, "<i8").T.tobytes() if columns else b""
