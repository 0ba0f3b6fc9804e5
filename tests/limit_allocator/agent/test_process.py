"""What surrounds the agent: its starts, its settings, the node's memory, metrics, and a loop that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import generate_latest

from limit_allocator.agent import controller
from limit_allocator.agent.controller import Process
from limit_allocator.agent.metrics import AgentMetrics
from limit_allocator.agent.node_memory import NodeMemory, available_bytes
from limit_allocator.agent.settings import Settings
from limit_allocator.agent.starts import Starts, StartsError
from surgekit.process.health_server import pages
from surgekit.process.settings import SettingsError, load
from tests.limit_allocator.agent.controller_side import cpu, orders, pod
from tests.limit_allocator.agent.fake_node import FakeNode


def test_starts_are_counted_and_terms_kept_until_the_node_boots(tmp_path: Path) -> None:
    first = Starts.begin(tmp_path, "a")
    first.greet(5)
    first.greet(4)
    second = Starts.begin(tmp_path, "a")
    assert (first.start, second.start, second.term) == (1, 2, 5)
    rebooted = Starts.begin(tmp_path, "b")
    assert (rebooted.start, rebooted.term) == (1, 0)


@pytest.mark.parametrize("content", ["", "{}", "null", '{"boot_id": "a", "start": "x", "term": 1}'])
def test_a_lost_count_is_not_guessed(tmp_path: Path, content: str) -> None:
    (tmp_path / "starts").write_text(content)
    with pytest.raises(StartsError, match="starts cannot be read"):
        Starts.begin(tmp_path, "a")


def test_room_is_what_is_available_above_the_eviction_threshold(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 100 kB\nMemAvailable: 50 kB\n")
    memory = NodeMemory(10 << 10, meminfo)
    assert memory.room_bytes(0.0) == 40 << 10
    meminfo.write_text("MemAvailable: 5 kB\n")
    assert memory.room_bytes(0.5) == 40 << 10, "read once a second"
    assert memory.room_bytes(1.0) == 0
    assert available_bytes("MemTotal: 1 kB\n") == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"controller": "host"}, "controller: 'host' is not host:port"),
        ({"controller": ":1"}, "controller: ':1' is not host:port"),
        ({"cgroup_root": "../x"}, "cgroup_root: '../x' leads out of the cgroup mount"),
        ({"period_s": "0.01"}, "period_s: '0.01' is outside 0.05..1.0"),
        ({"longest_pause_s": "nan"}, "longest_pause_s: 'nan' is not a finite number"),
    ],
)
def test_settings_that_cannot_be_used(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(Settings, None, {}, **given)


def test_metrics_tell_what_the_agent_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode(tmp_path, monkeypatch)
    uids = [node.uid(), node.uid()]
    first, _ = (node.add(uid) for uid in uids)
    agent = node.agent()
    agent.obey(orders(pods=[pod(uids[0]), pod(uids[1], enforce=False)]))
    agent.step(0.0)
    key = next(key for key, held in agent.held.items() if held.enforced)
    agent.obey(orders(cpu=cpu((key, 1, 20_000))))
    node.kernels[first.path].quota_us = 5
    agent.step(0.1)
    text = generate_latest(AgentMetrics(agent, lambda: True).registry).decode()
    agent.stop()
    for line in (
        'containers{mode="enforce"} 1.0',
        'containers{mode="shadow"} 1.0',
        'foreign_writes_total{what="quota"} 1.0',
        "stream_up 1.0",
        "oom_kills_total 0.0",
        "tick_seconds_count 0.0",
    ):
        assert f"surgekit_limit_agent_{line}\n" in text


class FailingAgent:
    """One tick in three succeeds, until none does."""

    def __init__(self, process: Process, clock: list[float]) -> None:
        self.process, self.clock, self.ticks, self.stopped = process, clock, 0, False

    def step(self, now_s: float) -> None:
        self.ticks += 1
        if self.ticks % 3 or self.ticks > 30:
            raise RuntimeError("a fault of ours")

    def wait(self, until_s: float) -> None:
        self.clock[0] = until_s

    def stop(self) -> None:
        self.stopped = True

    def hello(self) -> None: ...


def test_a_failing_tick_is_not_the_end_but_ten_seconds_of_them_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]

    class Time:
        @staticmethod
        def monotonic() -> float:
            return clock[0]

        @staticmethod
        def sleep(seconds: float) -> None:
            clock[0] += seconds

    monkeypatch.setattr(controller, "time", Time)
    cgroups = tmp_path / "cgroup"
    cgroups.mkdir()
    settings = Settings(controller="127.0.0.1:9", journal=tmp_path / "journal", cgroup_mount=cgroups)
    process = Process(settings)
    agent = FailingAgent(process, clock)
    process._agent.stop()
    process._agent = agent  # type: ignore[assignment]
    monkeypatch.setattr(process._link, "start", lambda hello: None)
    assert not process.alive(clock[0])  # the link's thread does not run
    with pytest.raises(RuntimeError, match="a fault of ours"):
        process.run()
    assert agent.stopped
    assert 130 <= agent.ticks <= 132, "10 s of 0.1 s after the last good one, the thirtieth"
    assert process._metrics.faults == agent.ticks - 10


def test_health_pages_say_that_no_controller_answers(tmp_path: Path) -> None:
    (tmp_path / "cgroup").mkdir()
    settings = Settings(
        controller="127.0.0.1:9", journal=tmp_path / "journal", cgroup_mount=tmp_path / "cgroup"
    )
    process = Process(settings)
    client = pages(process).test_client()
    assert (client.get("/readyz").status_code, client.get("/readyz").text) == (503, "no controller answers")
    assert "surgekit_limit_agent_stream_up 0.0" in client.get("/metrics").text
    process._agent.stop()
