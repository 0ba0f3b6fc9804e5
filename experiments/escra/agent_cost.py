"""Measures what the node agent costs: CPU time of its process, with containers on real cgroups (v1, root).

    python -m experiments.escra.agent_cost [CONTAINERS [TICKS]]

Ticks come every 100 ms as on a node. In each, a tenth of the containers gets another quota and another memory
limit, and every report is encoded. The stream itself is not included: gRPC adds to it for each message.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from limit_allocator.agent.node_agent import NodeAgent
from limit_allocator.agent.node_memory import NodeMemory
from limit_allocator.agent.starts import Starts
from limit_allocator.allocation.model import PAGE_BYTES, PERIOD_US, first_sequence
from limit_allocator.cgroups.layout import Hierarchy
from limit_allocator.cgroups.originals import Originals
from limit_allocator.wire.messages import Orders, Pod, encode

A_POD = 2  # containers, beside the sandbox
QUOTA_US, MEMORY_BYTES = PERIOD_US // 2, 256 << 20
_TREES = ("cpu", "cpuacct", "memory")


class _Inbox:
    """Nothing arrives by itself: orders are given to the agent directly."""

    def __init__(self) -> None:
        self._file = os.eventfd(0)

    def fileno(self) -> int:
        return self._file

    def take(self) -> Sequence[Orders]:
        return ()


@contextmanager
def _containers(hierarchy: Hierarchy, number: int) -> Iterator[list[str]]:
    """Empty containers of pods with a sandbox; yields the pods' uids."""
    uids = [
        f"{secrets.token_hex(4)}-0000-4000-8000-{secrets.token_hex(6)}" for _ in range(-(-number // A_POD))
    ]
    try:
        for at in range(number + len(uids)):
            path = f"kubepods/pod{uids[at % len(uids)]}/{secrets.token_hex(32)}"
            for tree in _TREES:
                (hierarchy.tree(tree) / path).mkdir(parents=True)
            if at < number:
                (hierarchy.tree("memory") / path / "memory.limit_in_bytes").write_text(str(MEMORY_BYTES))
                (hierarchy.tree("cpu") / path / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
        yield uids
    finally:
        for tree in _TREES:
            for above, _, _ in os.walk(hierarchy.tree(tree), topdown=False):
                with suppress(FileNotFoundError):
                    Path(above).rmdir()


def _orders(agent: NodeAgent, tick: int, pods: tuple[Pod, ...] | None) -> Orders:
    """Other limits for a tenth of the containers."""
    keys = np.array(list(agent.held)[tick % 10 :: 10], np.int64)
    sequence = keys * 0 + first_sequence(1) + 1 + tick
    cpu = np.stack([keys, sequence, keys * 0 + QUOTA_US // 2 + 100 * (tick % 50)])
    memory = np.stack([keys, sequence, keys * 0 + MEMORY_BYTES // 2 + PAGE_BYTES * (tick % 50), keys * 0])
    return Orders(term=1, start=1, pods=pods, cpu=cpu.tobytes(), memory=memory.tobytes())


def measure(containers: int, ticks: int) -> dict[str, float]:
    """Shares of a core, milliseconds of a tick, bytes of a container and second."""
    hierarchy = Hierarchy(root=f"surgekit-cost-{secrets.token_hex(4)}")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as journal, _containers(hierarchy, containers) as uids:
        originals = Originals(Path(journal), hierarchy)
        starts = Starts.begin(Path(journal), "boot")
        agent = NodeAgent("cost", originals, starts, _Inbox(), NodeMemory(0))
        pods = tuple(Pod(uid=uid, application="shop", growth_bytes=20 << 20, enforce=True) for uid in uids)
        agent.obey(_orders(agent, 0, pods))
        agent.begin_stream()
        agent.step(time.monotonic())
        for tick in range(10):  # everything is joined
            agent.obey(_orders(agent, tick, None))
        used_s = began_s = sent = steps_s = 0.0
        for tick in range(10, ticks + 60):
            if tick == 60:  # early warnings have moved
                began_s, used_s, sent, steps_s = time.monotonic(), time.process_time(), 0.0, 0.0
            next_s = time.monotonic() + 0.1
            before_s = time.thread_time()
            report = agent.step(time.monotonic())
            steps_s += time.thread_time() - before_s
            sent += len(encode(report)) if report else 0
            agent.obey(_orders(agent, tick, None))
            while time.monotonic() < next_s:
                report = agent.wait(next_s)
                sent += len(encode(report)) if report else 0
        took_s = time.monotonic() - began_s
        used_s = time.process_time() - used_s
        held = len(agent.held)
        agent.stop()
    return {
        "containers": held,
        "agent_core_share": used_s / took_s,
        "step_ms": 1e3 * steps_s / ticks,
        "bytes_per_container_and_second": sent / held / took_s,
    }


def main() -> None:
    containers, ticks = ([int(word) for word in sys.argv[1:3]] + [200, 300][len(sys.argv) - 1 :])[:2]
    for name, value in measure(containers, ticks).items():
        sys.stdout.write(f"{name:32} {value:.4g}\n")


if __name__ == "__main__":
    main()
