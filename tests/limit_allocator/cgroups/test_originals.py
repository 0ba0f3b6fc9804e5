"""The journal, and the guard that takes over after SIGKILL, on this machine's cgroup v1."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limit_allocator.cgroups.container import GONE, WRITTEN, Container, Refused
from limit_allocator.cgroups.guard import Guard, hold
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.cgroups.originals import Originals
from tests.limit_allocator.cgroups.node import MIB, Node
from tests.paths import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.real_node]  # alone: they time real processes

Adopt = Callable[[ContainerCgroup], Container]
FILES = (
    "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us",
    "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control",
)  # fmt: skip
# Adopts, limits and arms everything it finds, then waits to be killed.
AGENT = """
import sys, time
from pathlib import Path
from limit_allocator.cgroups.guard import hold
from limit_allocator.cgroups.layout import Hierarchy, find
from limit_allocator.cgroups.memory_events import MemoryEvents
from limit_allocator.cgroups.originals import Originals

journal, hierarchy = Path(sys.argv[1]), Hierarchy(root=sys.argv[2])
lock, originals, events = hold(journal, wait=True), Originals(journal, hierarchy), MemoryEvents()
containers = [originals.adopt(cgroup) for cgroup in find(hierarchy)]
for container in containers:
    container.burst = 1.0
    container.set_quota(15000)
    container.set_memory_limit(24 << 20)
    events.watch(container)
print("ready", flush=True)
time.sleep(60)
"""


def _state(node: Node, cgroup: ContainerCgroup) -> dict[str, str]:
    return {name: node.file(cgroup, name).read_text() for name in FILES}


def _different_originals(node: Node) -> list[ContainerCgroup]:
    plain, limited = node.add(), node.add()
    for name, value in (
        ("cpu.cfs_quota_us", 50_000),
        ("cpu.cfs_burst_us", 30_000),
        ("memory.limit_in_bytes", 64 * MIB),
        ("memory.memsw.limit_in_bytes", 80 * MIB),  # some swap
    ):
        node.file(limited, name).write_text(str(value))
    return [plain, limited]


def test_write_back_equals_the_originals(node: Node, originals: Originals, adopt: Adopt) -> None:
    cgroups = _different_originals(node)
    before = [_state(node, cgroup) for cgroup in cgroups]
    for cgroup in cgroups:
        container = adopt(cgroup)
        container.burst = 1.0
        assert container.set_quota(20_000) == WRITTEN
        assert container.set_memory_limit(32 * MIB) == WRITTEN
        assert container.arm() == WRITTEN
        assert set(originals.kept()) == {cgroup}
        assert originals.write_back(container) == WRITTEN
        assert not originals.kept()
    assert [_state(node, cgroup) for cgroup in cgroups] == before


def test_the_next_agent_restores_what_a_killed_one_left(node: Node, originals: Originals) -> None:
    cgroups = [*_different_originals(node), node.add()]
    before = [_state(node, cgroup) for cgroup in cgroups]
    with _agent(node, originals):
        assert all(node.file(cgroup, "cpu.cfs_quota_us").read_text() == "15000\n" for cgroup in cgroups)
    node.remove(cgroups[2])
    again = originals.adopt(cgroups[0])  # what it has now is no original
    assert isinstance(again, Container)
    assert again.original is not None
    assert again.original.quota_us is None
    again.close()
    assert originals.write_back_all() == {cgroups[0]: WRITTEN, cgroups[1]: WRITTEN, cgroups[2]: GONE}
    assert [_state(node, cgroup) for cgroup in cgroups[:2]] == before[:2]
    assert originals.write_back_all() == {}


def test_what_the_kernel_refuses_stays_in_the_journal(node: Node, originals: Originals, adopt: Adopt) -> None:
    cgroup = node.add()
    node.file(cgroup, "memory.limit_in_bytes").write_text(str(32 * MIB))
    container = adopt(cgroup)
    container.set_memory_limit(96 * MIB)
    container.arm()
    load = node.start(cgroup, "memset", 48)
    load.begin()
    load.report()
    assert isinstance(originals.write_back(container), Refused)
    assert set(originals.kept()) == {cgroup}
    assert "oom_kill_disable 0" in _state(node, cgroup)["memory.oom_control"]  # the rest is written
    load.end()
    assert originals.write_back_all() == {cgroup: WRITTEN}


_SOUND = {"path": f"kubepods/pod{'a' * 32}/{'b' * 64}", "quota_us": None, "burst_us": 0, "memory_bytes": 1}


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "null", "[]", "7", '"x"', "{}", json.dumps(_SOUND)[:-5],
        json.dumps(_SOUND | {"path": "kubepods"}), json.dumps(_SOUND | {"path": 7}),
        json.dumps(_SOUND | {"quota_us": "1"}), json.dumps(_SOUND | {"memory_bytes": -1}),
        json.dumps(_SOUND | {"burst_us": None}), json.dumps(_SOUND | {"more": 1}), "[" * 100_000,
    ],
)  # fmt: skip
def test_a_broken_file_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / f"{'b' * 64}.json").write_text(content)
    (tmp_path / f"{'c' * 64}.part").write_text(json.dumps(_SOUND))
    originals = Originals(tmp_path, Hierarchy(tmp_path / "missing"))
    assert originals.kept() == {}
    assert originals.write_back_all() == {}
    assert not list(tmp_path.glob("*.part"))
    (tmp_path / f"{'d' * 64}.json").write_text(json.dumps(_SOUND))
    assert list(originals.write_back_all().values()) == [GONE]  # beside a sound one


@given(st.binary(max_size=200))
def test_any_content_is_read_or_ignored(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    directory = tmp_path_factory.getbasetemp() / "any-content"
    directory.mkdir(exist_ok=True)
    (directory / "x.json").write_bytes(content)
    assert Originals(directory, Hierarchy(directory)).kept() == {}


@contextmanager
def _agent(node: Node, originals: Originals) -> Iterator[None]:
    """An agent that is killed at the end of the block."""
    argv = [sys.executable, "-c", AGENT, str(originals.directory), node.hierarchy.root]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as agent:
        try:
            assert agent.stdout
            assert agent.stdout.readline() == "ready\n"
            yield
        finally:
            agent.send_signal(signal.SIGKILL)


def test_the_guard_disarms_within_a_second_of_sigkill(node: Node, originals: Originals) -> None:
    cgroup = node.add()
    node.file(cgroup, "memory.limit_in_bytes").write_text(str(64 * MIB))
    argv = [sys.executable, "-m", "limit_allocator.cgroups.guard", "--journal", str(originals.directory)]
    with subprocess.Popen([*argv, "--root", node.hierarchy.root], cwd=ROOT) as guard:
        try:
            with _agent(node, originals):
                load = node.start(cgroup, "memset", 40)
                load.begin()
                _until(lambda: "under_oom 1" in _state(node, cgroup)["memory.oom_control"], 5.0)
                time.sleep(0.5)  # while the agent lives the guard does nothing
                assert load.process.poll() is None
            killed_s = time.monotonic()
            _until(lambda: "oom_kill_disable 0" in _state(node, cgroup)["memory.oom_control"], 5.0)
            assert time.monotonic() - killed_s < 1.0
            assert load.process.wait(timeout=5) == -signal.SIGKILL  # no longer paused: the kernel decided
            assert node.file(cgroup, "cpu.cfs_quota_us").read_text() == "15000\n"  # the next agent's business
            assert set(originals.kept()) == {cgroup}
        finally:
            guard.kill()


def test_the_guard_writes_back_after_a_time_without_an_agent(originals: Originals, node: Node) -> None:
    cgroup = node.add()
    before = _state(node, cgroup)
    guard = Guard(originals, write_back_after_s=10.0)
    with _agent(node, originals):
        assert guard.look(0.0) == 0
        assert hold(originals.directory) is None
    assert guard.look(100.0) == 1  # disarmed
    assert guard.look(105.0) == 0
    assert _state(node, cgroup)["cpu.cfs_quota_us"] == "15000\n"
    assert guard.look(110.0) == 1
    assert _state(node, cgroup) == before


def _until(true: Callable[[], bool], patience_s: float) -> None:
    deadline_s = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
