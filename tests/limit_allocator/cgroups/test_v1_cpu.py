"""CPU quotas on this machine's cgroup v1."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from limit_allocator.cgroups.container import GONE, WRITTEN, Container, Cpu, Memory, Refused
from limit_allocator.cgroups.drift import Drift
from limit_allocator.cgroups.layout import ContainerCgroup, Finder, find
from limit_allocator.cgroups.opening import open_container
from tests.limit_allocator.cgroups.node import MIB, Node

pytestmark = [pytest.mark.lab, pytest.mark.real_node]  # alone: they time real processes

Adopt = Callable[[ContainerCgroup], Container]


def test_throttling_is_seen_and_the_quota_follows(node: Node, adopt: Adopt) -> None:
    cgroup = node.add()
    container = adopt(cgroup)
    assert container.set_quota(20_000) == WRITTEN
    assert node.file(cgroup, "cpu.cfs_quota_us").read_text() == "20000\n"
    load = node.start(cgroup, "spin", 500)
    before = _cpu(container)
    load.begin()
    load.report()
    throttled = _cpu(container)
    assert throttled.quota_us == 20_000
    assert throttled.period_us == 100_000
    assert throttled.nr_periods - before.nr_periods >= 3
    assert throttled.nr_throttled > before.nr_throttled
    assert throttled.throttled_us > before.throttled_us
    # A fifth of a core. Other work on the machine can only lessen it.
    assert throttled.used_us - before.used_us <= 0.2 * 1.5 * 600_000
    load.end()
    assert container.set_quota(200_000) == WRITTEN  # more than the one thread can use
    load = node.start(cgroup, "spin", 300)
    before = _cpu(container)
    load.begin()
    load.report()
    assert _cpu(container).nr_throttled == before.nr_throttled
    load.end()


def test_an_idle_container_that_begins_to_run_is_seen_at_once(node: Node, adopt: Adopt) -> None:
    cgroup = node.add()
    container = adopt(cgroup)
    container.set_quota(5_000)
    for _ in range(2):
        load = node.start(cgroup, "spin", 300)
        for _ in range(20):  # it waits for its order, and nothing of it is read again
            idle = _cpu(container)
        load.begin()
        load.report()
        busy = _cpu(container)
        assert busy.used_us > idle.used_us
        assert busy.nr_periods > idle.nr_periods
        assert busy.nr_throttled > idle.nr_throttled
        load.end()


def test_a_quota_above_the_pods_is_refused_and_the_old_one_stays(node: Node, adopt: Adopt) -> None:
    cgroup = node.add()
    pod = node.hierarchy.tree("cpu") / cgroup.path / ".." / "cpu.cfs_quota_us"
    pod.write_text("50000")
    container = adopt(cgroup)
    assert container.set_quota(40_000) == WRITTEN
    assert container.set_quota(60_000) == Refused(errno.EINVAL, "cpu.cfs_quota_us")
    assert container.set_quota(10) == Refused(errno.EINVAL, "cpu.cfs_quota_us")
    assert (_cpu(container).quota_us, container.wanted_quota_us) == (40_000, 40_000)
    assert pod.read_text() == "50000\n"


def test_burst_makes_room_for_a_smaller_quota_and_returns(node: Node, adopt: Adopt) -> None:
    cgroup = node.add()
    quota, burst = (node.file(cgroup, f"cpu.cfs_{name}_us") for name in ("quota", "burst"))
    quota.write_text("50000")
    burst.write_text("40000")
    container = adopt(cgroup)
    assert container.set_quota(30_000) == WRITTEN  # the kernel refuses this while the burst is larger
    assert burst.read_text() == "30000\n"
    assert container.set_quota(10) == Refused(errno.EINVAL, "cpu.cfs_quota_us")
    assert burst.read_text() == "30000\n"
    assert container.set_quota(45_000) == WRITTEN
    assert (quota.read_text(), burst.read_text()) == ("45000\n", "40000\n")


def test_burst_follows_the_quota_whichever_way(node: Node, adopt: Adopt) -> None:
    cgroup = node.add()
    quota, burst = (node.file(cgroup, f"cpu.cfs_{name}_us") for name in ("quota", "burst"))
    container = adopt(cgroup)
    container.burst = 1.0
    for quota_us in (50_000, 20_000, 80_000):
        assert container.set_quota(quota_us) == WRITTEN
        assert (quota.read_text(), burst.read_text()) == (f"{quota_us}\n", f"{quota_us}\n")
    container.burst = 0.5
    assert container.set_quota(60_000) == WRITTEN
    assert burst.read_text() == "30000\n"
    drift = Drift()
    burst.write_text("1000")  # as another tool for bursts would
    found = drift.correct(container, *_tick(container))
    assert [(f.what, f.found, f.ours, f.result) for f in found] == [("burst", 1000, 30_000, WRITTEN)]
    assert burst.read_text() == "30000\n"
    assert drift.correct(container, *_tick(container)) == ()
    container.burst = 0.0
    burst.write_text("1000")
    assert drift.correct(container, *_tick(container)) == (), "without bursts of ours it is theirs"


def test_nothing_is_written_without_an_original(node: Node) -> None:
    container = open_container(node.hierarchy, node.add())
    assert isinstance(container, Container)
    assert container.set_quota(20_000) == Refused(errno.EPERM, "no original")
    assert container.set_memory_limit(64 * MIB) == Refused(errno.EPERM, "no original")
    assert container.arm() == Refused(errno.EPERM, "no original")
    container.close()


def test_a_container_that_vanishes_is_gone(node: Node, adopt: Adopt) -> None:
    cgroup = node.add()
    assert find(node.hierarchy) == [cgroup]
    container = adopt(cgroup)
    node.remove(cgroup)
    assert find(node.hierarchy) == []
    readings = (container.cpu, container.memory, container.memory_without_cache, container.limits)
    assert [read() for read in (*readings, container.oom_kills, container.paused)] == [GONE] * 6
    assert [container.set_quota(20_000), container.set_memory_limit(64 * MIB), container.arm()] == [GONE] * 3
    assert open_container(node.hierarchy, cgroup) == GONE


def test_a_finder_sees_containers_come_and_go(node: Node) -> None:
    finder = Finder(node.hierarchy)
    assert finder.find() == []
    first = node.add()
    assert finder.find() == [first]
    beside, other = node.add(first.pod_uid), node.add()
    assert set(finder.find()) == {first, beside, other}
    assert set(finder.find()) == {first, beside, other}
    node.remove(beside)
    assert set(finder.find()) == {first, other}
    node.remove(first)  # it is restarted between two looks
    again = node.add(first.pod_uid)
    finder.forget(first)
    assert set(finder.find()) == {again, other}


def test_a_foreign_write_is_counted_and_corrected_within_a_tick(node: Node, adopt: Adopt) -> None:
    cgroup = node.add()
    container, drift = adopt(cgroup), Drift()
    assert drift.correct(container, *_tick(container)) == ()  # nothing of ours is there yet
    container.set_quota(50_000)
    container.set_memory_limit(64 * MIB + 1)  # the kernel counts pages
    assert drift.correct(container, *_tick(container)) == ()
    node.file(cgroup, "cpu.cfs_quota_us").write_text("5000")
    node.file(cgroup, "memory.limit_in_bytes").write_text(str(32 * MIB))
    found = drift.correct(container, *_tick(container))
    assert [(f.what, f.found, f.ours, f.result) for f in found] == [
        ("quota", 5000, 50_000, WRITTEN),
        ("memory", 32 * MIB, 64 * MIB, WRITTEN),
    ]
    assert drift.correct(container, *_tick(container)) == ()
    assert drift.total == {"quota": 1, "memory": 1}


def _cpu(container: Container) -> Cpu:
    reading = container.cpu()
    assert isinstance(reading, Cpu)
    return reading


def _tick(container: Container) -> tuple[Cpu, Memory]:
    memory = container.memory()
    assert isinstance(memory, Memory)
    return _cpu(container), memory
