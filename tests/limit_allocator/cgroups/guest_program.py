"""What the guest runs on a real cgroup v2 hierarchy: the agent's own code. Prints one line of JSON."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from limit_allocator.cgroups.container import Container
from limit_allocator.cgroups.drift import Drift
from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy, find
from limit_allocator.cgroups.memory_events import MemoryEvents
from limit_allocator.cgroups.originals import Originals
from tests.limit_allocator.cgroups.node import MIB, Node, grow

JOURNAL = Path("/tmp/journal")  # noqa: S108 (the guest's own)
NODE = Node(Hierarchy(root="surgekit-test"))
ORIGINALS = Originals(JOURNAL, NODE.hierarchy)
FILES = ("cpu.max", "cpu.max.burst", "memory.max", "memory.high")
AGENT = """
import sys, time
from limit_allocator.cgroups.guard import hold
from tests.limit_allocator.cgroups.guest_program import JOURNAL, ORIGINALS, ContainerCgroup, MIB
lock, container = hold(JOURNAL, wait=True), ORIGINALS.adopt(ContainerCgroup(sys.argv[1]))
container.set_memory_limit(48 * MIB)
container.arm()
print("ready", flush=True)
time.sleep(600)
"""


def _container(limit_mib: int = 0) -> tuple[ContainerCgroup, Container]:
    cgroup = NODE.add()
    if limit_mib:
        _write(cgroup, "memory.max", limit_mib * MIB)
    container = ORIGINALS.adopt(cgroup)
    assert isinstance(container, Container)
    return cgroup, container


def _write(cgroup: ContainerCgroup, name: str, value: object) -> None:
    NODE.file(cgroup, name).write_text(str(value))


def _state(cgroup: ContainerCgroup) -> dict[str, str]:
    return {name: NODE.file(cgroup, name).read_text().strip() for name in FILES}


def cpu() -> dict[str, Any]:
    """Throttled, then not."""
    cgroup, container = _container()
    found = find(NODE.hierarchy) == [cgroup]
    readings: list[Any] = []
    for quota_us in (20_000, 400_000):
        result = container.set_quota(quota_us)
        load = NODE.start(cgroup, "spin", 1000)
        before: Any = container.cpu()
        load.begin()
        load.report()
        after: Any = container.cpu()
        load.end()
        readings.append(
            {
                "result": str(result),
                "quota_us": after.quota_us,
                "used_us": after.used_us - before.used_us,
                "periods": after.nr_periods - before.nr_periods,
                "throttled": after.nr_throttled - before.nr_throttled,
                "throttled_us": after.throttled_us - before.throttled_us,
            }
        )
    return {"found": found, "readings": readings}


def burst() -> list[dict[str, str]]:
    """A quota below the burst, and back."""
    cgroup = NODE.add()
    _write(cgroup, "cpu.max", "50000 100000")
    _write(cgroup, "cpu.max.burst", 40_000)
    container = ORIGINALS.adopt(cgroup)
    assert isinstance(container, Container)
    states = []
    for quota_us in (30_000, 45_000):
        states.append({"result": str(container.set_quota(quota_us)), **_state(cgroup)})
    container.burst = 1.0
    for quota_us in (60_000, 20_000):
        states.append({"result": str(container.set_quota(quota_us)), **_state(cgroup)})
    return states


def growth(mode: str, amount: int, limit_mib: int = 64, reaction_s: float = 0.0) -> dict[str, Any]:
    """A process grows past its limit, and the limit follows."""
    cgroup, container = _container(limit_mib)
    load = NODE.start(cgroup, mode, amount)
    grown = grow(load, container, 20 * MIB, reaction_s)
    counts = {str(kind): count for kind, count in grown.counts.items()}
    alive = bool(grown.report)
    load.end()
    NODE.remove(cgroup)
    container.close()
    return {
        "alive": alive, "kills": grown.kills, "raises": grown.raises, "counts": counts, **grown.report,
    }  # fmt: skip


def without_us(mode: str, amount: int) -> dict[str, Any]:
    """The same growth under the same limit, not armed."""
    cgroup, container = _container(64)
    load = NODE.start(cgroup, mode, amount)
    load.begin()
    report = load.report()
    return {"alive": bool(report), "kills": container.oom_kills(), **report}


def lowering() -> dict[str, Any]:
    """Refused under use, without a kill; taken above it."""
    cgroup, container = _container(96)
    container.arm()
    load = NODE.start(cgroup, "memset", 40)
    load.begin()
    load.report()
    before = _state(cgroup)
    refused = str(container.set_memory_limit(30 * MIB))
    same = _state(cgroup) == before
    taken = str(container.set_memory_limit(64 * MIB))
    alive = load.process.poll() is None
    return {"refused": refused, "same": same, "taken": taken, "alive": alive, **_state(cgroup)}


def drift() -> list[Any]:
    """As systemd does at daemon-reload."""
    cgroup, container = _container(64)
    container.set_quota(50_000)
    container.set_memory_limit(48 * MIB)
    container.arm()
    drift, ours = Drift(), _state(cgroup)
    found: list[Any] = []
    for name, value in (("cpu.max", "5000 100000"), ("memory.high", "max"), ("memory.max", 64 * MIB)):
        _write(cgroup, name, value)
        readings: Any = container.cpu(), container.memory()
        found.append([foreign.what for foreign in drift.correct(container, *readings)])
        found.append(_state(cgroup) == ours)
    return found


def pause() -> dict[str, Any]:
    """Nobody raises: after the longest pause the kernel decides."""
    cgroup, container = _container(32)
    events = MemoryEvents(longest_pause_s=2.0)
    events.watch(container)
    load = NODE.start(cgroup, "memset", 64)
    load.begin()
    began_s, kinds = time.monotonic(), []
    while load.process.poll() is None and time.monotonic() < began_s + 30:
        events.wait(0.05)
        kinds += [str(event.kind) for event in events.collect(time.monotonic())]
    seconds = time.monotonic() - began_s
    return {
        "kinds": sorted(set(kinds)),
        "seconds": seconds,
        "status": load.process.returncode,
        **_state(cgroup),
    }


def journal() -> bool:
    """Write-back equals the originals, also after several changes."""
    cgroup = NODE.add()
    for name, value in (("cpu.max", "50000 100000"), ("cpu.max.burst", 40_000), ("memory.max", 96 * MIB)):
        _write(cgroup, name, value)
    _write(cgroup, "memory.high", 90 * MIB)
    before = _state(cgroup)
    container = ORIGINALS.adopt(cgroup)
    assert isinstance(container, Container)
    container.set_quota(20_000)
    container.arm()
    container.set_memory_limit(32 * MIB)
    container.set_memory_limit(64 * MIB)
    changed = _state(cgroup)
    ORIGINALS.write_back(container)
    return _state(cgroup) == before and all(changed[name] != before[name] for name in FILES)


def guard() -> dict[str, Any]:
    """memory.high is undone after the agent's SIGKILL."""
    cgroup = NODE.add()
    _write(cgroup, "memory.max", 64 * MIB)
    module = [sys.executable, "-m", "limit_allocator.cgroups.guard", "--journal", str(JOURNAL)]
    with subprocess.Popen([*module, "--root", NODE.hierarchy.root]) as guarding:
        argv = [sys.executable, "-c", AGENT, cgroup.path]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as agent:
            assert agent.stdout
            agent.stdout.readline()
            time.sleep(3)  # the guard has started, too
            armed = _state(cgroup)
            agent.send_signal(signal.SIGKILL)
            killed_s = time.monotonic()
        while _state(cgroup)["memory.high"] != "max" and time.monotonic() < killed_s + 10:
            time.sleep(0.01)
        seconds = time.monotonic() - killed_s
        guarding.kill()
    return {"armed": armed, "seconds": seconds, **_state(cgroup)}


STEPS: dict[str, Callable[[], Any]] = {
    "cpu": cpu,
    "burst": burst,
    "steps": lambda: growth("steps", 132),
    "memset": lambda: growth("memset", 132),
    "populate": lambda: growth("populate", 132),
    "read": lambda: growth("read", 132),
    "unarmed": lambda: without_us("memset", 132),
    "lowering": lowering,
    "drift": drift,
    "pause": pause,
    "journal": journal,
    "guard": guard,
}
RUNS = 2


def unsaved() -> dict[str, list[int]]:
    """Kills in some runs, by threads that grow at once and the agent's reaction time."""
    return {
        f"{count} threads, {reaction_s * 1e3:.0f} ms": [
            int(growth("threads", count, 32, reaction_s)["kills"] > 0) for _ in range(RUNS)
        ]
        for reaction_s in (0.0, 0.2)
        for count in (8, 32)
    }


def main(names: list[str]) -> None:
    steps = STEPS | {"unsaved": unsaved}
    said = json.dumps({name: steps[name]() for name in names or STEPS})
    sys.stdout.write(f"RESULT {said}\n")
    NODE.close()


if __name__ == "__main__":
    main(sys.argv[1:])
