"""The agent's process on this machine's cgroup v1, with a controller at the other end of a real stream."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy
from limit_allocator.wire.messages import Report
from tests.limit_allocator.agent.controller_server import NAME, ControllerServer, certificates
from tests.limit_allocator.agent.controller_side import cpu, memory, orders, pod, reserve, rows
from tests.limit_allocator.cgroups.conftest import why_no_v1
from tests.limit_allocator.cgroups.node import MIB, Node
from tests.paths import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.real_node]  # alone: they need root and the machine's cgroups

FILES = (
    "cpu.cfs_quota_us", "cpu.cfs_burst_us", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
    "memory.oom_control",
)  # fmt: skip
PROGRAM = """
import json, sys
from pathlib import Path
from limit_allocator.agent.controller import run
from limit_allocator.agent.settings import Settings
from surgekit.process.settings import load
run(load(Settings, None, {}, **json.loads(sys.argv[1])))
"""
PATIENCE_S = 60.0


class World:
    """A node with one container of one pod, an agent's process, and a controller."""

    def __init__(self, directory: Path) -> None:
        self.node = Node(Hierarchy(root=f"surgekit-test-{os.urandom(4).hex()}"))
        self.cgroup = self.add()
        self.journal = directory / "journal"
        server_tls, agent_tls = certificates(directory / "tls")
        self.controller = ControllerServer(server_tls)
        self._settings = {
            "node": "n", "controller": f"localhost:{self.controller.port}", "server_name": NAME,
            "tls_directory": str(agent_tls), "journal": str(self.journal),
            "cgroup_root": self.node.hierarchy.root, "health_bind": "127.0.0.1:0",
        }  # fmt: skip
        self.processes: list[subprocess.Popen[bytes]] = []
        self.start = 0
        self.numbers = 0

    def add(self, uid: str = "") -> ContainerCgroup:
        cgroup = self.node.add(uid)
        for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
            self.node.file(cgroup, name).write_text(str(256 * MIB))
        self.node.file(cgroup, "cpu.cfs_quota_us").write_text("50000")
        return cgroup

    def start_agent(self) -> Report:
        """Until it has found the container."""
        argv = [sys.executable, "-c", PROGRAM, json.dumps(self._settings)]
        self.processes.append(subprocess.Popen(argv, cwd=ROOT))
        self.start += 1
        assert self.controller.hellos.get(timeout=PATIENCE_S).start == self.start
        self.tell(pods=[pod(self.cgroup.pod_uid)])
        return self.until(lambda report: bool(report.found))

    def tell(self, **what: object) -> None:
        self.controller.orders.put(orders(start=self.start, **what))  # type: ignore[arg-type]

    def limit(self, quota_us: int, memory_bytes: int, reserve_bytes: int = 0) -> Report:
        """Until that is acknowledged."""
        self.numbers += 1
        number = self.numbers
        self.tell(
            cpu=cpu((1, number, quota_us)),
            memory=memory((1, number, memory_bytes, 0)),
            reserves=[reserve("shop", number, reserve_bytes)],
        )
        return self.until(lambda report: 1 in rows(report, "memory_accounts"))

    def until(self, true: Callable[[Report], bool]) -> Report:
        deadline_s = time.monotonic() + PATIENCE_S
        while not true(report := self.controller.next_report()):
            assert time.monotonic() < deadline_s
        return report

    def state(self, cgroup: ContainerCgroup | None = None) -> dict[str, str]:
        return {name: self.node.file(cgroup or self.cgroup, name).read_text() for name in FILES}

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.controller.stop()
        self.node.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    if reason := why_no_v1():
        pytest.skip(reason)
    world = World(tmp_path)
    yield world
    world.close()


def test_limits_follow_commands_and_sigterm_restores_them(world: World) -> None:
    before = world.state()
    (found,) = world.start_agent().found
    assert (found.quota_us, found.memory_bytes) == (50_000, 256 * MIB)
    for quota_us, mebibytes in ((20_000, 64), (40_000, 128), (10_000, 48)):
        world.limit(quota_us, mebibytes * MIB)
        now = world.state()
        assert now["cpu.cfs_quota_us"] == f"{quota_us}\n"
        assert now["memory.limit_in_bytes"] == now["memory.memsw.limit_in_bytes"] == f"{mebibytes * MIB}\n"
        assert "oom_kill_disable 1" in now["memory.oom_control"]
    world.processes[0].send_signal(signal.SIGTERM)
    assert world.processes[0].wait(timeout=PATIENCE_S) == 0
    assert world.state() == before
    assert not list(world.journal.glob("*.json"))


def test_the_next_agent_restores_what_sigkill_left(world: World) -> None:
    before = world.state()
    world.start_agent()
    world.limit(20_000, 64 * MIB)
    world.processes[0].kill()
    world.processes[0].wait()
    assert world.state() != before
    world.start_agent()
    assert {**world.state(), "memory.oom_control": ""} == {**before, "memory.oom_control": ""}
    world.processes[1].send_signal(signal.SIGTERM)
    world.processes[1].wait(timeout=PATIENCE_S)
    assert world.state() == before


def test_a_hungry_process_lives_by_the_reserve_without_a_controller(world: World) -> None:
    world.start_agent()
    world.limit(50_000, 32 * MIB, reserve_bytes=160 * MIB)
    world.controller.stop()
    load = world.node.start(world.cgroup, "memset", 132)
    load.begin()
    assert load.report()["all_ms"] > 0, "it was killed"
    limit_bytes = int(world.state()["memory.limit_in_bytes"])
    assert 132 * MIB < limit_bytes <= (32 + 160) * MIB
    assert "oom_kill 0" in world.state()["memory.oom_control"]
    load.end()
    assert load.process.returncode == 0


def test_without_a_reserve_the_kernel_decides_after_a_pause(world: World) -> None:
    world.start_agent()
    world.limit(50_000, 32 * MIB)
    load = world.node.start(world.cgroup, "memset", 64)
    load.begin()
    report = world.until(lambda report: rows(report, "memory").get(1, {}).get("stuck_at_bytes") == 32 * MIB)
    assert rows(report, "memory")[1]["events"] >= 1
    assert load.process.wait(timeout=PATIENCE_S) == -signal.SIGKILL
    world.until(lambda report: rows(report, "memory").get(1, {}).get("oom_kills") == 1)


def test_a_foreign_write_is_corrected(world: World) -> None:
    world.start_agent()
    world.limit(20_000, 64 * MIB)
    world.node.file(world.cgroup, "cpu.cfs_quota_us").write_text("5000")
    world.node.file(world.cgroup, "memory.limit_in_bytes").write_text(str(48 * MIB))
    world.until(lambda report: report.foreign_writes == 2)
    now = world.state()
    assert (now["cpu.cfs_quota_us"], now["memory.limit_in_bytes"]) == ("20000\n", f"{64 * MIB}\n")


def test_opting_out_restores_and_others_stay(world: World) -> None:
    before = world.state()
    other = world.add()
    world.start_agent()
    world.tell(pods=[pod(world.cgroup.pod_uid), pod(other.pod_uid)])
    world.until(lambda report: any(found.key == 2 for found in report.found))
    world.limit(20_000, 64 * MIB)
    world.tell(cpu=cpu((2, 1, 30_000)))
    world.until(lambda report: 2 in rows(report, "cpu_accounts"))
    world.tell(pods=[pod(other.pod_uid)])
    world.until(lambda report: 1 in rows(report, "gone"))
    assert world.state() == before
    assert world.state(other)["cpu.cfs_quota_us"] == "30000\n"


def test_a_container_that_starts_later_is_found(world: World) -> None:
    world.start_agent()
    beside = world.add(world.cgroup.pod_uid)
    report = world.until(lambda report: bool(report.found))
    assert [found.container_id for found in report.found] == [beside.container_id]
    with suppress(OSError):
        world.node.remove(beside)
    assert list(rows(world.until(lambda report: bool(report.gone)), "gone")) == [2]
