"""The whole agent on a real cgroup v2 hierarchy: a controller's orders without its stream. Runs in a guest.

Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from limit_allocator.agent.node_agent import NodeAgent
from limit_allocator.agent.node_memory import NodeMemory
from limit_allocator.agent.starts import BOOT_ID, Starts
from limit_allocator.cgroups.guard import hold
from limit_allocator.cgroups.layout import Hierarchy
from limit_allocator.cgroups.originals import Originals
from limit_allocator.wire.messages import Orders, Report
from tests.limit_allocator.agent.controller_side import cpu, memory, orders, pod, reserve, rows
from tests.limit_allocator.cgroups.node import MIB, Node

JOURNAL = Path("/tmp/agent")  # noqa: S108 (the guest's own)
NODE = Node(Hierarchy(root="surgekit-agent"))
FILES = ("cpu.max", "cpu.max.burst", "memory.max", "memory.high")
PERIOD_S, PATIENCE_S = 0.1, 60.0


class Inbox:
    def __init__(self) -> None:
        self._file = os.eventfd(0)
        self._waiting: list[Orders] = []

    def put(self, order: Orders) -> None:
        self._waiting.append(order)
        os.eventfd_write(self._file, 1)

    def fileno(self) -> int:
        return self._file

    def take(self) -> Sequence[Orders]:
        with suppress(BlockingIOError):
            os.eventfd_read(self._file)
        taken, self._waiting = self._waiting, []
        return taken


class World:
    """One container of one pod, with its spec's limits, and an agent."""

    def __init__(self) -> None:
        self.cgroup = NODE.add()
        NODE.file(self.cgroup, "cpu.max").write_text("50000 100000")
        NODE.file(self.cgroup, "memory.max").write_text(str(256 * MIB))
        self.before = self.state()
        self.numbers = 0
        self.begin()

    def begin(self) -> None:
        """Start an agent, and let it find the container."""
        self.inbox = Inbox()
        self.lock = hold(JOURNAL, wait=True)
        starts = Starts.begin(JOURNAL, BOOT_ID.read_text().strip())
        self.start = starts.start
        originals = Originals(JOURNAL, NODE.hierarchy)
        self.agent = NodeAgent("guest", originals, starts, self.inbox, NodeMemory(0))
        self.written_back = self.state()
        self.agent.begin_stream()
        self.tell(pods=[pod(self.cgroup.pod_uid)])
        self.found = self.until(lambda report: bool(report.found)).found[0]

    def tell(self, **what: Any) -> None:
        self.inbox.put(orders(start=self.start, **what))

    def limit(self, quota_us: int, mebibytes: int, reserve_mib: int = 0) -> Report:
        """Until it is acknowledged."""
        self.numbers += 1
        number, key = self.numbers, self.found.key
        self.tell(
            cpu=cpu((key, number, quota_us)), memory=memory((key, number, mebibytes * MIB, 0)),
            reserves=[reserve("shop", number, reserve_mib * MIB)],
        )  # fmt: skip
        return self.until(lambda report: key in rows(report, "memory_accounts"))

    def until(self, true: Callable[[Report], bool]) -> Report:
        """Live through ticks until a report says so."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            next_s = time.monotonic() + PERIOD_S
            report = self.agent.step(time.monotonic())
            while report is None or not true(report):
                report = self.agent.wait(next_s)
                if report is None:
                    break
            else:
                return report
        raise RuntimeError("nothing of the kind was reported")

    def state(self) -> dict[str, str]:
        return {name: NODE.file(self.cgroup, name).read_text().strip() for name in FILES}

    def end(self) -> None:
        self.agent.stop()
        if self.lock is not None:
            os.close(self.lock)


def orders_are_carried_out() -> dict[str, Any]:
    world = World()
    found = [world.found.quota_us, world.found.memory_bytes]
    world.limit(20_000, 64)
    limited = world.state()
    world.tell(pods=[])
    world.until(lambda report: world.found.key in rows(report, "gone"))
    opted_out = world.state() == world.before
    world.end()
    return {"found": found, "limited": limited, "opted_out": opted_out}


def telemetry() -> dict[str, int]:
    """A container that wants more than its quota."""
    world = World()
    key = world.found.key
    world.limit(20_000, 64)
    load = NODE.start(world.cgroup, "spin", 2000)
    load.begin()
    report = world.until(lambda report: rows(report, "cpu").get(key, {}).get("throttled_periods", 0) >= 5)
    load.end()
    world.end()
    return rows(report, "cpu")[key]


def growth() -> dict[str, Any]:
    """Past its limit, out of the reserve, without a controller."""
    world = World()
    world.limit(50_000, 32, reserve_mib=160)
    load = NODE.start(world.cgroup, "memset", 132)
    assert load.process.stdout
    os.set_blocking(load.process.stdout.fileno(), False)
    load.begin()
    said: list[str] = []

    def has_grown(_: Report) -> bool:
        said.append(load.process.stdout.readline() if load.process.stdout else "")
        return bool(said[-1]) or load.process.poll() is not None

    world.until(has_grown)
    limit_mib = int(world.state()["memory.max"]) // MIB
    kills = dict(line.split() for line in NODE.file(world.cgroup, "memory.events").read_text().splitlines())[
        "oom_kill"
    ]
    load.end()
    events = world.agent.counts.memory_events
    world.end()
    return {"alive": bool(said[-1]), "limit_mib": limit_mib, "kills": int(kills), "events": events}


def foreign_write() -> dict[str, Any]:
    """As systemd does at daemon-reload."""
    world = World()
    world.limit(20_000, 64)
    ours = world.state()
    NODE.file(world.cgroup, "cpu.max").write_text("5000 100000")
    report = world.until(lambda report: report.foreign_writes > 0)
    same = world.state() == ours
    world.end()
    return {"foreign_writes": report.foreign_writes, "same": same}


def killed() -> dict[str, bool]:
    """The next agent writes back what one that was killed has left, and goes on."""
    world = World()
    world.limit(20_000, 64)
    left = world.state()
    # As SIGKILL leaves it: nothing is written back, and the lock is given up.
    if world.lock is not None:
        os.close(world.lock)
    world.begin()
    restored = world.state()
    world.limit(30_000, 96)
    goes_on = world.state()["cpu.max"] == "30000 100000"
    world.end()
    return {
        "differs": left != world.before, "restored": restored == world.before, "goes_on": goes_on,
        "stopped": world.state() == world.before,
    }  # fmt: skip


STEPS: dict[str, Callable[[], Any]] = {
    "orders": orders_are_carried_out,
    "telemetry": telemetry,
    "growth": growth,
    "foreign_write": foreign_write,
    "killed": killed,
}


def main() -> None:
    said = json.dumps({name: step() for name, step in STEPS.items()})
    sys.stdout.write(f"RESULT {said}\n")
    NODE.close()


if __name__ == "__main__":
    main()
