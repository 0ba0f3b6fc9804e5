"""Which of the containers that wait for memory are let go, and when."""

from __future__ import annotations

import secrets

from limit_allocator.cgroups.container import EventKind, Limits
from limit_allocator.cgroups.layout import ContainerCgroup
from limit_allocator.cgroups.memory_events import MemoryEvent, MemoryEvents
from tests.limit_allocator.agent.fake_node import MIB, FakeContainer, FakeNode, Kernel


def _waiting(pod_uid: str) -> tuple[ContainerCgroup, FakeContainer, Kernel]:
    kernel = Kernel(memory_bytes=64 * MIB, used_bytes=64 * MIB)
    cgroup = ContainerCgroup(f"kubepods/pod{pod_uid}/{secrets.token_hex(32)}")
    container = FakeContainer(cgroup, kernel)
    container.original = Limits(None, 0, 256 * MIB)
    return cgroup, container, kernel


def test_of_those_that_wait_too_long_one_is_let_go_at_a_time() -> None:
    """What it gives back when it is killed may be enough for the others."""
    events = MemoryEvents(longest_pause_s=2.0)
    one, other = _waiting(FakeNode.uid()), _waiting(FakeNode.uid())
    for at_s, (_, container, kernel) in ((10.0, one), (10.1, other)):
        events.watch(container)
        kernel.wants_bytes = 80 * MIB
        kernel.go_on()
        assert [e.kind for e in events.collect(at_s)] == [EventKind.NEEDS_MEMORY]
    assert events.next_deadline_s() == 12.0
    assert events.collect(12.15) == [MemoryEvent(one[0], EventKind.RELEASED)]
    assert (one[2].kills, other[2].kills) == (1, 0)
    assert events.next_deadline_s() == 12.4
    assert events.collect(12.3) == []
    assert other[1].set_memory_limit(96 * MIB)
    assert events.collect(12.4) == []
    assert other[2].kills == 0
    for _, container, _ in (one, other):
        container.close()
    events.close()
