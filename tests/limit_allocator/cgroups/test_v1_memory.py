"""Memory limits and events on this machine's cgroup v1: processes grow past their limit and live."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from limit_allocator.cgroups.container import WRITTEN, Container, EventKind, Memory, Refused
from limit_allocator.cgroups.layout import ContainerCgroup
from limit_allocator.cgroups.memory_events import MemoryEvent, MemoryEvents
from tests.limit_allocator.cgroups.node import MIB, Node, grow

pytestmark = [pytest.mark.lab, pytest.mark.real_node]  # alone: they time real processes

Adopt = Callable[[ContainerCgroup], Container]


def _limited(node: Node, cgroup: ContainerCgroup, mebibytes: int) -> None:
    """As containerd does: without swap."""
    node.file(cgroup, "memory.limit_in_bytes").write_text(str(mebibytes * MIB))
    node.file(cgroup, "memory.memsw.limit_in_bytes").write_text(str(mebibytes * MIB))


@pytest.mark.parametrize("mode", ["steps", "memset", "populate"])
def test_a_process_grows_past_its_limit_and_lives(node: Node, adopt: Adopt, mode: str) -> None:
    cgroup = node.add()
    _limited(node, cgroup, 32)
    container = adopt(cgroup)
    load = node.start(cgroup, mode, 132)
    growth = grow(load, container, 20 * MIB)  # the paper's published program: 5,000 pages for each event
    assert growth.report, "the process died"
    assert growth.kills == 0
    assert growth.raises == growth.counts[EventKind.NEEDS_MEMORY]
    assert 5 <= growth.raises <= 8  # every one of them was a stall
    assert growth.report["longest_ms"] < 2000
    assert container.wanted_memory_bytes == (32 + 20 * growth.raises) * MIB
    load.end()
    assert load.process.returncode == 0


def test_a_process_is_not_paused_for_longer_than_the_argument_says(node: Node, adopt: Adopt) -> None:
    cgroup = node.add()
    _limited(node, cgroup, 16)
    container = adopt(cgroup)
    events = MemoryEvents(longest_pause_s=0.3)
    assert events.watch(container) == WRITTEN
    assert events.next_deadline_s() == float("inf")
    load = node.start(cgroup, "memset", 32)
    load.begin()
    assert events.wait(5.0)
    assert events.collect(100.0) == [MemoryEvent(cgroup, EventKind.NEEDS_MEMORY)]
    assert _is_paused(container)
    assert events.next_deadline_s() == pytest.approx(100.3)
    assert events.collect(100.29) == []
    assert load.process.poll() is None
    assert events.collect(100.31) == [MemoryEvent(cgroup, EventKind.RELEASED)]
    assert load.process.wait(timeout=5) == -signal.SIGKILL  # the kernel decided
    assert container.oom_kills() == 1
    assert "oom_kill_disable 0" in node.file(cgroup, "memory.oom_control").read_text()
    assert events.wait(1.0)
    assert events.collect(100.5) == [MemoryEvent(cgroup, EventKind.KILLED)]
    assert container.set_memory_limit(64 * MIB) == WRITTEN
    assert events.collect(100.6) == []
    assert "oom_kill_disable 1" in node.file(cgroup, "memory.oom_control").read_text()  # armed again
    events.close()


def _is_paused(container: Container) -> bool:
    return container.paused() is True


def test_a_warning_comes_before_the_limit(node: Node, adopt: Adopt) -> None:
    """Below the limit no process waits, and no system call fails."""
    cgroup = node.add()
    _limited(node, cgroup, 16)
    container = adopt(cgroup)
    events = MemoryEvents()
    events.watch(container)
    assert events.settle()
    assert not events.settle()
    load = node.start(cgroup, "memset", 13)
    load.begin()
    load.report()
    assert events.wait(1.0)
    assert events.collect(1.0) == [MemoryEvent(cgroup, EventKind.NEEDS_MEMORY)]
    assert not _is_paused(container)
    container.set_memory_limit(16 * MIB + 4096)  # too little: asked again as soon as the warning has moved
    assert events.collect(1.1) == []
    assert events.settle()
    assert events.collect(1.2) == [MemoryEvent(cgroup, EventKind.NEEDS_MEMORY)]
    container.set_memory_limit(64 * MIB)
    assert events.settle()
    assert events.collect(1.3) == []
    events.close()


def test_a_raise_that_is_too_small_is_asked_for_again(node: Node, adopt: Adopt) -> None:
    cgroup = node.add()
    _limited(node, cgroup, 16)
    container = adopt(cgroup)
    events = MemoryEvents()
    events.watch(container)
    load = node.start(cgroup, "memset", 20)
    load.begin()
    asked = 0
    for _ in range(2000):
        events.wait(0.05)
        for event in events.collect(time.monotonic()):
            assert event.kind is EventKind.NEEDS_MEMORY
            asked += 1
            container.set_memory_limit(16 * MIB + asked * MIB // 4)
        if not container.paused() and container.memory_without_cache() > 20 * MIB:  # type: ignore[operator]
            break
    assert load.report()
    assert asked >= 10
    events.close()


def test_a_removed_container_is_reported_and_forgotten(node: Node, adopt: Adopt) -> None:
    first, second = node.add(), node.add()
    events = MemoryEvents()
    for cgroup in (first, second):
        assert events.watch(adopt(cgroup)) == WRITTEN
    node.remove(first)
    assert events.wait(2.0)
    assert events.collect(1.0) == [MemoryEvent(first, EventKind.GONE)]
    assert not events.wait(0.1)
    events.forget(second)
    events.forget(second)
    events.close()


def test_memory_is_never_lowered_under_use(node: Node, adopt: Adopt) -> None:
    cgroup = node.add()
    _limited(node, cgroup, 64)
    container = adopt(cgroup)
    load = node.start(cgroup, "memset", 40)
    load.begin()
    load.report()
    assert container.set_memory_limit(30 * MIB) == Refused(errno.EBUSY, "memory.limit_in_bytes")
    assert container.wanted_memory_bytes is None
    reading, used = container.memory(), container.memory_without_cache()
    assert isinstance(reading, Memory)
    assert isinstance(used, int)
    assert reading.limit_bytes == 64 * MIB
    assert 40 * MIB <= used <= reading.usage_bytes
    assert container.set_memory_limit(48 * MIB) == WRITTEN
    # memsw goes with the limit, whichever way.
    assert node.file(cgroup, "memory.memsw.limit_in_bytes").read_text() == f"{48 * MIB}\n"
    assert container.set_memory_limit(96 * MIB) == WRITTEN
    assert node.file(cgroup, "memory.memsw.limit_in_bytes").read_text() == f"{96 * MIB}\n"
    load.end()
    assert load.process.returncode == 0


def test_page_cache_does_not_keep_a_limit_up(node: Node, adopt: Adopt, tmp_path: Path) -> None:
    cgroup = node.add()
    _limited(node, cgroup, 128)
    container = adopt(cgroup)
    file = tmp_path / "cached"
    file.write_bytes(bytes(80 * MIB))
    os.sync()
    load = node.start(cgroup, "cache", 80, str(file))
    load.begin()
    load.report()
    reading, used = container.memory(), container.memory_without_cache()
    assert isinstance(reading, Memory)
    assert isinstance(used, int)
    if reading.usage_bytes < 60 * MIB:
        pytest.skip("the page cache of this file system is charged to nobody")
    assert used < 30 * MIB
    assert container.set_memory_limit(40 * MIB) == WRITTEN
    load.end()
    assert load.process.returncode == 0
