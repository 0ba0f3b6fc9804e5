"""Random orders, losses, events and restarts: nothing is ever written above what was ordered or granted."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from limit_allocator.allocation.model import PAGE_BYTES
from limit_allocator.cgroups.layout import ContainerCgroup
from limit_allocator.wire.messages import Orders, Report
from tests.limit_allocator.agent.controller_side import cpu, memory, orders, pod, reserve, rows
from tests.limit_allocator.agent.fake_node import MIB, FakeNode, Kernel

PODS = [FakeNode.uid() for _ in range(3)]
APPLICATION = dict(zip(PODS, ("shop", "shop", "mail"), strict=True))
QUOTA_US, MEMORY_BYTES = 50_000, 256 * MIB
WHICH = st.integers(0, 5)
PAGES = [-1, 1, 5_000, 8_000, 12_000, 20_000, 200_000]  # of a memory limit; the last is above the ceiling


class Faults(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.directory = tempfile.TemporaryDirectory()
        self.node = FakeNode(Path(self.directory.name), self.patch)
        self.agent = self.node.agent()
        self.there: list[ContainerCgroup] = []
        self.late: list[Orders] = []  # lost, or to be delivered another time
        self.enforced: set[str] = set()
        self.start = self.term = self.sequence = 1
        self.now_s = time.monotonic()
        # What a correct agent may have been told, by key: kept here apart from its accounts.
        self.told_cpu: dict[int, int] = {}
        self.told_memory: dict[int, int] = {}
        self.granted: dict[str, int] = {}

    @initialize()
    def begin(self) -> None:
        self.agent.begin_stream()
        for uid in PODS:
            self.container_starts(PODS.index(uid))
        self.pods_are_listed(dict.fromkeys(PODS, True))
        self.tick()

    @rule(place=st.integers(0, 2))
    def container_starts(self, place: int) -> None:
        if len(self.there) < 6:
            self.there.append(self.node.add(PODS[place], Kernel(QUOTA_US, MEMORY_BYTES)))

    @rule(which=WHICH)
    def container_ends(self, which: int) -> None:
        if which < len(self.there):
            self.node.end(self.there.pop(which))

    @rule(listed=st.dictionaries(st.sampled_from(PODS), st.booleans()))
    def pods_are_listed(self, listed: dict[str, bool]) -> None:
        self.agent.obey(self.orders(pods=[pod(uid, APPLICATION[uid], on) for uid, on in listed.items()]))
        self.enforced = {uid for uid, on in listed.items() if on}

    @rule(
        which=WHICH, quota_us=st.integers(-5, 90_000), pages=st.sampled_from(PAGES),
        seen=st.integers(0, 40 * MIB), lose=st.booleans(),
    )  # fmt: skip
    def command(self, which: int, quota_us: int, pages: int, seen: int, lose: bool) -> None:
        keys = list(self.agent.held)
        key = keys[which] if which < len(keys) else 1000 + which
        self.sequence += 1
        limit_bytes = pages * PAGE_BYTES
        sent = self.orders(
            cpu=cpu((key, self.sequence, quota_us), term=self.term),
            memory=memory((key, self.sequence, limit_bytes, seen), term=self.term),
        )
        self.told_cpu[key] = max(self.told_cpu.get(key, 0), quota_us)
        self.told_memory[key] = max(self.told_memory.get(key, 0), limit_bytes)
        (self.late.append if lose else self.agent.obey)(sent)

    @rule(
        application=st.sampled_from(["shop", "mail", "nobody"]), value=st.integers(0, 60), lose=st.booleans()
    )
    def grant(self, application: str, value: int, lose: bool) -> None:
        self.sequence += 1
        kept = reserve(application, self.sequence, value * MIB, self.term)
        self.granted[application] = max(self.granted.get(application, 0), value * MIB)
        (self.late.append if lose else self.agent.obey)(self.orders(reserves=[kept]))

    @rule(place=st.integers(0, 20), again=st.booleans())
    def deliver_late(self, place: int, again: bool) -> None:
        """Out of order, repeated, and from before a restart."""
        if place < len(self.late):
            late = self.late[place] if again else self.late.pop(place)
            self.agent.obey(late)

    @rule(which=WHICH, mebibytes=st.integers(1, 300))
    def container_uses(self, which: int, mebibytes: int) -> None:
        if which < len(self.there):
            kernel = self.node.kernels[self.there[which].path]
            kernel.used_bytes = min(mebibytes * MIB, kernel.memory_bytes or 0)

    @rule(which=WHICH, mebibytes=st.integers(1, 300))
    def container_wants_more(self, which: int, mebibytes: int) -> None:
        if which < len(self.there):
            kernel = self.node.kernels[self.there[which].path]
            kernel.wants_bytes = kernel.used_bytes + mebibytes * MIB
            kernel.go_on()
            self.check(self.agent.wait(time.monotonic()))

    @rule(which=WHICH, quota_us=st.integers(1_000, 90_000), mebibytes=st.integers(1, 400))
    def somebody_else_writes(self, which: int, quota_us: int, mebibytes: int) -> None:
        if which < len(self.there):
            kernel = self.node.kernels[self.there[which].path]
            held = {one.cgroup for one in self.agent.held.values() if one.container.wanted_quota_us}
            if self.there[which] in held:  # else it would be a resize
                kernel.quota_us = quota_us
                if kernel.oom_kill_disable:  # it is below its ceiling
                    kernel.memory_bytes = max(mebibytes * MIB, kernel.used_bytes)
        self.tick()

    @rule(seed=st.integers(0, 2**32 - 1))
    def storm(self, seed: int) -> None:
        """What seldom happens in a row: joined containers at their limit, late orders after a restart."""
        draw = random.Random(seed)
        for _ in range(60):
            which, lose, fate = draw.randrange(6), draw.random() < 0.3, draw.random()
            if fate < 0.4:
                seen = draw.randrange(40 * MIB)
                self.command(which, draw.randrange(900, 90_000), draw.choice(PAGES[2:6]), seen, lose)
            elif fate < 0.55:
                self.grant(draw.choice(["shop", "mail"]), draw.randrange(60), lose)
            elif fate < 0.8:
                self.container_wants_more(which, draw.randrange(1, 100))
            elif fate < 0.9:
                self.deliver_late(draw.randrange(21), draw.random() < 0.5)
            elif fate < 0.91:
                self.agent_is_killed()
            else:
                self.tick()
            self.nothing_is_above_what_was_ordered()
            self.who_is_not_enforced_is_as_before()

    @rule()
    def tick(self) -> None:
        self.now_s += 0.1
        self.check(self.agent.step(self.now_s))

    @rule(up=st.booleans())
    def stream(self, up: bool) -> None:
        self.agent.begin_stream() if up else self.agent.end_stream()

    @rule()
    def agent_is_killed(self) -> None:
        self.node.kill(self.agent)
        self.agent = self.node.agent()
        self.start += 1
        self.enforced = set()
        self.told_cpu.clear()
        self.told_memory.clear()
        self.granted.clear()
        self.pods_are_listed(dict.fromkeys(PODS, True))
        self.tick()

    @rule()
    def controller_restarts(self) -> None:
        """What its predecessor sent is void once the agent has heard of the new term."""
        self.term += 1
        self.agent.obey(self.orders())

    @invariant()
    def nothing_is_above_what_was_ordered(self) -> None:
        spent: dict[str, int] = {}
        for held in self.agent.held.values():
            kernel = self.node.kernels.get(held.cgroup.path)
            quota_us, limit_bytes = held.container.wanted_quota_us, held.container.wanted_memory_bytes
            if kernel is None:
                continue
            assert (kernel.quota_us or 0) <= QUOTA_US
            assert (kernel.memory_bytes or 0) <= MEMORY_BYTES
            if quota_us is not None:
                assert kernel.quota_us == quota_us <= self.told_cpu[held.key]
            if limit_bytes is not None:
                assert kernel.memory_bytes == limit_bytes
                beyond = max(limit_bytes - self.told_memory[held.key], 0)
                spent[held.pod.application] = spent.get(held.pod.application, 0) + beyond
        assert all(value <= self.granted.get(application, 0) for application, value in spent.items())

    @invariant()
    def who_is_not_enforced_is_as_before(self) -> None:
        for cgroup in self.there:
            if cgroup.pod_uid not in self.enforced:
                kernel = self.node.kernels[cgroup.path]
                assert (kernel.quota_us, kernel.memory_bytes) == (QUOTA_US, MEMORY_BYTES)
                assert not kernel.oom_kill_disable

    def orders(self, **what: object) -> Orders:
        return orders(start=self.start, term=self.term, **what)  # type: ignore[arg-type]

    def check(self, report: Report | None) -> None:
        """What is reported as written is what is in force, less what the reserve pays."""
        if report is None:
            return
        for key, account in rows(report, "memory_accounts").items():
            wanted = self.agent.held[key].container.wanted_memory_bytes
            if account["joined"]:
                assert account["written"] + account["grown"] - account["folded"] == wanted
        for kept in report.reserves:
            assert 0 <= kept.spent_bytes <= kept.granted_bytes

    def teardown(self) -> None:
        self.agent.stop()
        for cgroup in self.there:
            kernel = self.node.kernels[cgroup.path]
            assert (kernel.quota_us, kernel.memory_bytes) == (QUOTA_US, MEMORY_BYTES)
        assert not list(self.node.journal.glob("*.json"))
        self.patch.undo()
        self.directory.cleanup()


TestFaults = Faults.TestCase
TestFaults.settings = settings(max_examples=50, stateful_step_count=15, deadline=None)
