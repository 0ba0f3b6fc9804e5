"""One agent, with a node that has no kernel."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from limit_allocator.agent.node_agent import NodeAgent
from limit_allocator.cgroups.layout import ContainerCgroup
from limit_allocator.wire.messages import Ceiling, Report
from tests.limit_allocator.agent.controller_side import GROWTH_BYTES, cpu, memory, orders, pod, reserve, rows
from tests.limit_allocator.agent.fake_node import MIB, FakeNode, Kernel


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    return FakeNode(tmp_path, monkeypatch)


class World:
    """An agent that has a stream, and one enforced container with the key 1."""

    def __init__(self, node: FakeNode) -> None:
        self.node, self.uid = node, node.uid()
        self.cgroup = node.add(self.uid)
        self.kernel = node.kernels[self.cgroup.path]
        self.agent = node.agent()
        self.agent.begin_stream()
        self.agent.obey(orders(pods=[pod(self.uid)]))
        self.first = self.step()

    def step(self) -> Report:
        report = self.agent.step(time.monotonic())
        assert report is not None
        return report

    def wait(self) -> Report | None:
        """What is answered before the next tick."""
        return self.agent.wait(time.monotonic())

    def join(self, quota_us: int = 20_000, memory_bytes: int = 64 * MIB, reserve_bytes: int = 0) -> None:
        self.agent.obey(
            orders(
                cpu=cpu((1, 1, quota_us)),
                memory=memory((1, 1, memory_bytes, 0)),
                reserves=[reserve("shop", 1, reserve_bytes)],
            )
        )

    def add(self, kernel: Kernel | None = None) -> ContainerCgroup:
        return self.node.add(self.uid, kernel)

    def paused(self) -> bool:
        return self.kernel.paused

    def armed(self) -> bool:
        return self.kernel.oom_kill_disable

    @property
    def limits(self) -> tuple[int | None, int | None]:
        return self.kernel.quota_us, self.kernel.memory_bytes


@pytest.fixture
def world(node: FakeNode) -> Iterator[World]:
    world = World(node)
    yield world
    world.agent.stop()


def test_containers_of_listed_pods_are_found_with_their_limits(world: World) -> None:
    (found,) = world.first.found
    assert (found.key, found.pod_uid, found.container_id) == (1, world.uid, world.cgroup.container_id)
    assert (found.quota_us, found.memory_bytes) == (50_000, 256 * MIB)
    reading = rows(world.first, "cpu")[1]
    assert (reading["periods"], reading["throttled_periods"], reading["throttled_us"]) == (7, 3, 99)
    assert rows(world.first, "memory")[1]["used_bytes"] == 10 * MIB
    account = rows(world.first, "cpu_accounts")[1]
    assert (account["joined"], account["written"]) == (0, 0)
    assert world.first.room_bytes == 2048 * MIB - 100 * MIB
    assert world.limits == (50_000, 256 * MIB)


@pytest.mark.parametrize(
    "kernel",
    [Kernel(quota_us=None), Kernel(memory_bytes=None), Kernel(period_us=50_000)],
    ids=["no quota", "no memory limit", "another period"],
)
def test_containers_without_both_limits_are_left_alone(world: World, kernel: Kernel) -> None:
    world.add(kernel)
    assert world.step().found == ()
    assert list(world.agent.held) == [1]
    journal = {file.name for file in world.node.journal.glob("*.json")}
    assert journal == {f"{world.cgroup.container_id}.json"}


def test_a_container_that_gets_its_limits_later_is_found_then(world: World) -> None:
    """The runtime makes the cgroup first."""
    kernel = Kernel(quota_us=None, memory_bytes=None)
    world.add(kernel)
    assert world.step().found == ()
    kernel.quota_us, kernel.memory_bytes = 30_000, 64 * MIB
    report = world.agent.step(time.monotonic() + 0.1)
    assert report is not None
    assert [(found.key, found.quota_us) for found in report.found] == [(2, 30_000)]


def test_containers_of_other_pods_are_not_touched(world: World) -> None:
    world.node.add(world.node.uid())
    assert world.step().found == ()


def test_commands_are_carried_out_and_acknowledged_at_once(world: World) -> None:
    world.node.inbox.put(orders(cpu=cpu((1, 1, 20_000)), memory=memory((1, 1, 64 * MIB, 0))))
    report = world.wait()
    assert world.limits == (20_000, 64 * MIB)
    quota, limit = rows(report, "cpu_accounts")[1], rows(report, "memory_accounts")[1]
    assert (quota["joined"], quota["written"]) == (1, 20_000)
    assert (limit["joined"], limit["written"]) == (1, 64 * MIB)
    assert rows(report, "cpu") == {}
    later = world.step()
    assert rows(later, "cpu")[1]["quota_us"] == 20_000
    assert rows(later, "cpu_accounts") == {}, "only what changed"


def test_nothing_is_set_above_the_ceiling(world: World) -> None:
    world.join(quota_us=80_000, memory_bytes=512 * MIB)
    assert world.limits == (50_000, 256 * MIB)
    report = world.step()
    assert rows(report, "cpu_accounts")[1]["written"] == 50_000
    assert rows(report, "memory_accounts")[1]["written"] == 256 * MIB


@pytest.mark.parametrize(("start", "term"), [(2, 3), (0, 3), (1, 2)], ids=["later", "earlier", "term"])
def test_orders_for_another_start_or_of_an_earlier_term_are_void(world: World, start: int, term: int) -> None:
    world.agent.obey(orders(term=3))
    world.agent.obey(orders(start=start, term=term, pods=[], cpu=cpu((1, 5, 20_000), term=term)))
    assert world.limits == (50_000, 256 * MIB)
    assert list(world.agent.held) == [1]
    assert world.agent.counts.void_orders == 1


def test_an_older_command_is_ignored(world: World) -> None:
    world.agent.obey(orders(cpu=cpu((1, 2, 20_000))))
    world.agent.obey(orders(cpu=cpu((1, 1, 30_000))))
    assert world.kernel.quota_us == 20_000


@pytest.mark.parametrize("value", [0, -1, 999], ids=str)
def test_a_senseless_quota_is_not_written(world: World, value: int) -> None:
    """-1 would mean no limit."""
    world.agent.obey(orders(cpu=cpu((1, 1, value)), memory=memory((1, 1, value, 0))))
    assert world.limits == (50_000, 256 * MIB)


def test_orders_that_cannot_be_read_do_nothing(world: World) -> None:
    world.agent.obey(orders(pods=[], cpu=b"abc"))
    assert list(world.agent.held) == [1]
    assert world.agent.counts.unreadable_orders == 1


def test_a_refused_raise_is_acknowledged_with_what_is_in_force(world: World) -> None:
    world.join(quota_us=20_000)
    world.kernel.pod_quota_us = 30_000
    world.agent.obey(orders(cpu=cpu((1, 2, 40_000))))
    assert rows(world.step(), "cpu_accounts")[1]["written"] == 20_000
    assert world.agent.limits.refused["quota"] == 1


def test_a_refused_cut_is_acknowledged_with_what_is_in_force(world: World) -> None:
    world.join(memory_bytes=64 * MIB)
    world.kernel.used_bytes = 50 * MIB
    world.agent.obey(orders(memory=memory((1, 2, 40 * MIB, 0))))
    assert world.kernel.memory_bytes == 64 * MIB
    report = world.step()
    assert rows(report, "memory_accounts")[1]["written"] == 64 * MIB
    assert rows(report, "memory")[1]["used_bytes"] == 50 * MIB, "the controller knew less"


def test_a_container_whose_first_cut_is_refused_has_not_joined(world: World) -> None:
    """It runs at its ceiling, which the sum does not contain."""
    world.kernel.used_bytes = 100 * MIB
    world.join(memory_bytes=64 * MIB)
    assert world.kernel.memory_bytes == 256 * MIB
    assert not world.kernel.oom_kill_disable
    assert rows(world.step(), "memory_accounts") == {}
    world.kernel.used_bytes = 10 * MIB
    world.join(memory_bytes=64 * MIB)
    assert rows(world.step(), "memory_accounts")[1]["joined"] == 1


def test_a_memory_event_is_answered_out_of_the_reserve_without_orders(world: World) -> None:
    world.join(memory_bytes=64 * MIB, reserve_bytes=30 * MIB)
    world.step()
    world.kernel.wants_bytes = 80 * MIB
    world.kernel.go_on()
    assert world.paused()
    report = world.wait()
    assert world.kernel.memory_bytes == 64 * MIB + GROWTH_BYTES
    assert not world.paused()
    reading, account = rows(report, "memory")[1], rows(report, "memory_accounts")[1]
    assert (reading["stuck_at_bytes"], reading["events"]) == (64 * MIB, 1)
    assert (account["written"], account["grown"]) == (64 * MIB, GROWTH_BYTES)
    assert report is not None
    (kept,) = report.reserves
    assert (kept.granted_bytes, kept.spent_bytes) == (30 * MIB, GROWTH_BYTES)
    assert rows(world.step(), "memory").get(1, {"stuck_at_bytes": 0})["stuck_at_bytes"] == 0


def test_memory_grows_without_a_stream(world: World) -> None:
    world.join(memory_bytes=64 * MIB, reserve_bytes=30 * MIB)
    world.agent.end_stream()
    world.kernel.wants_bytes = 80 * MIB
    world.kernel.go_on()
    assert world.wait() is None
    assert not world.paused()
    assert world.agent.step(time.monotonic()) is None
    world.agent.begin_stream()
    assert rows(world.step(), "memory_accounts")[1]["grown"] == GROWTH_BYTES


def test_a_container_that_found_the_reserve_empty_gets_the_next_grant(world: World) -> None:
    world.join(memory_bytes=64 * MIB)
    world.step()
    world.kernel.wants_bytes = 70 * MIB
    world.kernel.go_on()
    assert rows(world.wait(), "memory")[1]["stuck_at_bytes"] == 64 * MIB
    assert rows(world.step(), "memory")[1]["stuck_at_bytes"] == 64 * MIB, "until it is helped"
    world.node.inbox.put(orders(reserves=[reserve("shop", 2, 10 * MIB)]))
    assert rows(world.wait(), "memory_accounts")[1]["grown"] == 10 * MIB
    assert not world.paused()
    world.step()
    assert rows(world.step(), "memory").get(1, {"stuck_at_bytes": 0})["stuck_at_bytes"] == 0


def test_at_its_ceiling_the_kernel_decides(world: World) -> None:
    world.join(memory_bytes=250 * MIB, reserve_bytes=100 * MIB)
    assert world.armed()
    world.kernel.wants_bytes = 300 * MIB
    world.kernel.go_on()
    world.wait()
    assert world.kernel.memory_bytes == 256 * MIB
    assert not world.armed()
    assert world.kernel.kills == 1
    world.step()
    for _ in range(5):
        world.step()
    assert world.agent.counts.oom_kills == 1


def test_a_foreign_write_is_corrected_and_counted_at_the_next_tick(world: World) -> None:
    world.join()
    world.step()
    world.kernel.quota_us, world.kernel.memory_bytes = 5_000, 32 * MIB
    report = world.step()
    assert world.limits == (20_000, 64 * MIB)
    assert report.foreign_writes == 2
    assert world.step().foreign_writes == 2


def test_a_pod_that_opts_out_has_its_own_limits_again(world: World) -> None:
    world.join()
    world.node.inbox.put(orders(pods=[]))
    assert list(rows(world.wait(), "gone")) == [1]
    assert world.limits == (50_000, 256 * MIB)
    assert not world.kernel.oom_kill_disable
    assert not list(world.node.journal.glob("*.json"))
    assert world.step().found == ()
    world.agent.obey(orders(pods=[pod(world.uid)]))
    assert [found.key for found in world.step().found] == [2], "keys are not used again"


def test_shadow_reads_and_writes_nothing(world: World) -> None:
    world.join()
    world.agent.obey(orders(pods=[pod(world.uid, enforce=False)]))
    report = world.step()
    assert list(rows(report, "gone")) == [1]
    assert [found.key for found in report.found] == [2]
    assert world.limits == (50_000, 256 * MIB)
    world.agent.obey(orders(cpu=cpu((2, 9, 20_000)), memory=memory((2, 9, 64 * MIB, 0))))
    assert world.limits == (50_000, 256 * MIB)
    assert not world.kernel.oom_kill_disable
    assert not list(world.node.journal.glob("*.json"))
    assert list(rows(world.step(), "cpu")) == [2]


def test_a_container_that_vanished_is_gone(world: World) -> None:
    world.join()
    world.node.end(world.cgroup)
    assert list(rows(world.step(), "gone")) == [1]
    assert not list(world.node.journal.glob("*.json"))
    world.agent.obey(orders(cpu=cpu((1, 2, 30_000))))
    again = world.add()
    assert [found.container_id for found in world.step().found] == [again.container_id]


def test_a_container_that_vanishes_before_a_write_is_gone(world: World) -> None:
    world.join()
    world.node.end(world.cgroup)
    world.node.inbox.put(orders(cpu=cpu((1, 2, 30_000)), memory=memory((1, 2, 65 * MIB, 0))))
    assert list(rows(world.wait(), "gone")) == [1]


def test_one_container_that_cannot_be_read_does_not_stop_the_others(world: World) -> None:
    world.add()
    world.step()
    world.kernel.broken = True
    assert list(rows(world.step(), "cpu")) == [2]
    world.kernel.broken = False
    assert list(rows(world.step(), "cpu")) == [1, 2]


def test_a_new_stream_begins_with_everything(world: World) -> None:
    world.add()
    world.step()
    world.join(reserve_bytes=MIB)
    world.step()
    world.agent.end_stream()
    world.agent.begin_stream()
    report = world.step()
    assert [found.key for found in report.found] == [1, 2]
    for what in ("cpu", "memory", "cpu_accounts", "memory_accounts"):
        assert list(rows(report, what)) == [1, 2]
    assert [kept.application for kept in report.reserves] == ["shop"]
    assert world.agent.hello().term == 1


def test_a_resize_moves_the_ceiling_and_what_is_written_back(world: World) -> None:
    world.join(quota_us=40_000, memory_bytes=200 * MIB)
    smaller = Ceiling(container_id=world.cgroup.container_id, quota_us=30_000, memory_bytes=128 * MIB + 5)
    world.agent.obey(orders(pods=[pod(world.uid, ceilings=[smaller])]))
    assert world.limits == (30_000, 128 * MIB)
    world.agent.obey(orders(cpu=cpu((1, 2, 45_000))))
    assert world.kernel.quota_us == 30_000
    kept = json.loads((world.node.journal / f"{world.cgroup.container_id}.json").read_text())
    assert (kept["quota_us"], kept["memory_bytes"], kept["memsw_bytes"]) == (30_000, 128 * MIB, 128 * MIB)
    world.agent.obey(orders(pods=[]))
    assert world.limits == (30_000, 128 * MIB)


def test_a_ceiling_below_what_is_used_waits(world: World) -> None:
    world.join(memory_bytes=200 * MIB)
    world.kernel.used_bytes = 150 * MIB
    smaller = Ceiling(container_id=world.cgroup.container_id, quota_us=50_000, memory_bytes=128 * MIB)
    world.agent.obey(orders(pods=[pod(world.uid, ceilings=[smaller])]))
    assert world.kernel.memory_bytes == 200 * MIB
    world.kernel.used_bytes = 100 * MIB
    for _ in range(5):
        world.step()
    assert world.kernel.memory_bytes == 128 * MIB


def test_what_cannot_be_written_back_is_tried_again(world: World) -> None:
    world.join()
    world.kernel.pod_quota_us = 40_000  # the kernel refuses the original
    world.agent.obey(orders(pods=[]))
    assert world.limits == (20_000, 256 * MIB)
    world.kernel.pod_quota_us = 100_000
    world.agent.step(time.monotonic() + 2.0)
    assert world.limits == (50_000, 256 * MIB)


def test_stopping_writes_everything_back(node: FakeNode) -> None:
    world = World(node)
    world.join()
    world.agent.stop()
    assert world.limits == (50_000, 256 * MIB)
    assert not world.kernel.oom_kill_disable


def test_the_next_agent_undoes_what_a_killed_one_left(node: FakeNode) -> None:
    world = World(node)
    world.agent.obey(orders(term=4, cpu=cpu((1, 1, 20_000), term=4)))
    node.kill(world.agent)
    again = node.agent()
    assert world.limits == (50_000, 256 * MIB)
    assert (again.hello().start, again.hello().term) == (2, 4)
    again.obey(orders(start=1, term=4, pods=[pod(world.uid)]))
    assert again.counts.void_orders == 1
    again.stop()
    rebooted = node.agent("another boot")
    assert rebooted.hello().start == 1
    rebooted.stop()


def test_giving_up_writes_back_until_pods_are_listed_again(world: World) -> None:
    world.join()
    world.agent.end_stream()
    world.agent.give_up()
    assert world.limits == (50_000, 256 * MIB)
    world.agent.step(time.monotonic())
    assert not world.agent.held
    world.agent.obey(orders(pods=[pod(world.uid)]))
    world.agent.step(time.monotonic())
    assert list(world.agent.held) == [2]


def test_an_agent_without_pods_reports_nothing(node: FakeNode) -> None:
    node.add(node.uid())
    agent: NodeAgent = node.agent()
    assert agent.step(time.monotonic()) is None
    agent.begin_stream()
    report = agent.step(time.monotonic())
    assert report is not None
    assert (report.found, report.cpu, report.number) == ((), b"", 1)
    agent.stop()
