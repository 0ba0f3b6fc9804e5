"""The controller's fast loop in a process of its own on one core, and a swarm of agents over real gRPC.

Streams have mutual TLS, as in a cluster. What the controller costs is CPU time of its process, gRPC's threads
and TLS included. So that it does not depend on who else uses the machine, a tick lasts until the controller
has taken all reports of the one before, and at least 100 ms.

    python -m experiments.escra.swarm_over_grpc [--containers 5000 10000] [--ticks 100] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, process_time, thread_time
from typing import Any

import grpc
import numpy as np

from experiments.escra.swarm_agents import SwarmAgent, applications, make_agents
from limit_allocator.leader_session import LeaderSession
from limit_allocator.metrics import LimitMetrics
from limit_allocator.wire.messages import Orders, Report, decode_orders, encode
from limit_allocator.wire.server import METHOD, SERVICE, AgentServer
from surgekit.tls.files import ensure

__all__ = ["measure"]

_AGENT = "surgekit-limit-agent"
_TICK_S = 0.1
_STATUS_EVERY_S = 0.5
_WARM_UP = 40  # ticks
_CHANGING = 0.03  # share that needs another limit each tick; `changed_share` says how many limits change


class _Controller:
    """The fast loop, and of the slow one only what lets commands go: statuses are taken as written."""

    def __init__(self, containers: int, per_application: int, tls: Path) -> None:
        self._wake, self._lock = threading.Event(), threading.Lock()
        self.server = AgentServer(
            "127.0.0.1:0", tls, _AGENT, accepts=lambda: True, on_arrival=self._wake.set
        ).start()
        self._session = LeaderSession(self.server, LimitMetrics(), 1, _TICK_S)
        self._wanted = applications(containers, per_application)
        self._session.fleet.set_applications(self._wanted)
        self.reports = self._commands = 0
        self._tick_s: list[float] = []
        self._count(self._session)

    def run(self) -> None:
        status_at_s = 0.0
        while True:
            wait_s = self._session.step()
            if monotonic() >= status_at_s:
                status_at_s = monotonic() + _STATUS_EVERY_S
                fleet = self._session.fleet
                with self._session.lock:
                    for application in self._wanted:
                        nodes = fleet.nodes_with_limits(application.name)
                        fleet.confirm_nodes(application.name, nodes)
            self._wake.wait(wait_s)
            self._wake.clear()

    def figures(self) -> dict[str, Any]:
        """Totals; decisions since the last call."""
        with self._lock:
            tick_s, self._tick_s = self._tick_s, []
        return {
            "cpu_s": process_time(),
            "reports": self.reports,
            "commands": self._commands,
            "tick_s": tick_s,
            "received_bytes": self.server.received_bytes,
            "sent_bytes": self.server.sent_bytes,
        }

    def _count(self, session: LeaderSession) -> None:
        fleet = session.fleet
        tick, report = fleet.tick, fleet.report

        def counted_tick(now_s: float) -> dict[int, Orders]:
            began = thread_time()
            orders = tick(now_s)
            took = thread_time() - began
            with self._lock:
                self._tick_s.append(took)
                self._commands += sum(len(o.cpu) // 24 for o in orders.values())
            return orders

        def counted_report(session: int, message: Report, now_s: float) -> bool:
            self.reports += 1
            return report(session, message, now_s)

        fleet.tick, fleet.report = counted_tick, counted_report  # type: ignore[method-assign,assignment]


def _serve(containers: int, per_application: int, tls: Path) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    controller = _Controller(containers, per_application, tls)
    threading.Thread(target=controller.run, daemon=True).start()
    sys.stdout.write(json.dumps({"port": controller.server.port}) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        answer = controller.figures() if line == "figures\n" else {"reports": controller.reports}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


class _Stream:
    def __init__(self, agent: SwarmAgent, port: int, credentials: grpc.ChannelCredentials) -> None:
        self.agent = agent
        self._channel = grpc.aio.secure_channel(f"localhost:{port}", credentials)
        self._call: Any = self._channel.stream_stream(f"/{SERVICE}/{METHOD}")()

    async def open(self) -> None:
        await self._call.write(encode(self.agent.hello()))
        self.agent.obey(decode_orders(await self._call.read()))
        self._hearing = asyncio.create_task(self._hear())

    async def report(self) -> None:
        if self._hearing.done():
            await self._hearing
        report = self.agent.report()
        if report is not None:
            await self._call.write(encode(report))

    async def close(self) -> None:
        self._hearing.cancel()
        await self._channel.close()

    async def _hear(self) -> None:
        while (content := await self._call.read()) is not grpc.aio.EOF:
            self.agent.obey(decode_orders(content))
        raise RuntimeError(f"{self.agent.node}: {await self._call.code()}: {await self._call.details()}")


def measure(
    containers: int, ticks: int = 100, per_application: int = 100, changing: float = _CHANGING
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        tls = Path(directory)
        ensure(tls, ["localhost"], [_AGENT], datetime.now(UTC))
        command = [sys.executable, "-m", "experiments.escra.swarm_over_grpc", "--serve", directory]
        command += ["--containers", str(containers), "--per-application", str(per_application)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            try:
                return asyncio.run(_measure(server, tls, containers, ticks, per_application, changing))
            finally:
                server.kill()


async def _measure(
    server: subprocess.Popen[str],
    tls: Path,
    containers: int,
    ticks: int,
    per_application: int,
    changing: float,
) -> dict[str, Any]:
    port = json.loads(await asyncio.to_thread(_line, server))["port"]
    names = ("ca.crt", f"{_AGENT}.key", f"{_AGENT}.crt")
    credentials = grpc.ssl_channel_credentials(*((tls / name).read_bytes() for name in names))
    streams = [
        _Stream(agent, port, credentials) for agent in make_agents(containers, per_application, changing)
    ]
    await asyncio.gather(*(stream.open() for stream in streams))
    await _run(server, streams, 0, _WARM_UP)
    before = await _ask(server, "figures")
    await _run(server, streams, _WARM_UP, ticks)
    after = await _ask(server, "figures")
    await asyncio.gather(*(stream.close() for stream in streams))
    seconds = ticks * _TICK_S  # as if every tick took what it should
    grown = {name: after[name] - before[name] for name in after if name != "tick_s"}
    core = grown["cpu_s"] / seconds
    p50, p99 = np.percentile(after["tick_s"], [50, 99])
    return {
        "containers": containers,
        "agents": len(streams),
        "ticks": ticks,
        "core_share": core,
        "containers_per_core": containers / core,
        "changed_share": grown["commands"] / containers / ticks,
        "decision_cpu_ms": {
            "p50": 1000 * float(p50), "p99": 1000 * float(p99), "max": 1000 * max(after["tick_s"]),
        },
        "decisions_per_tick": len(after["tick_s"]) / ticks,
        "bytes_per_container_second": {
            "up": grown["received_bytes"] / containers / seconds,
            "down": grown["sent_bytes"] / containers / seconds,
        },
    }  # fmt: skip


async def _run(server: subprocess.Popen[str], streams: list[_Stream], done: int, ticks: int) -> None:
    for tick in range(done, done + ticks):
        due_s = monotonic() + _TICK_S
        for i, stream in enumerate(streams):  # agents' ticks are spread
            await stream.report()
            await asyncio.sleep(max(due_s - _TICK_S * (1 - i / len(streams)) - monotonic(), 0.0))
        while (await _ask(server, "reports"))["reports"] < (tick + 1) * len(streams):
            await asyncio.sleep(_TICK_S / 10)
        await asyncio.sleep(max(due_s - monotonic(), 0.0))


async def _ask(server: subprocess.Popen[str], what: str) -> dict[str, Any]:
    if server.stdin is not None:
        server.stdin.write(f"{what}\n")
        server.stdin.flush()
    answer: dict[str, Any] = json.loads(await asyncio.to_thread(_line, server))
    return answer


def _line(server: subprocess.Popen[str]) -> str:
    """Its next answer, between what it logs."""
    for line in server.stdout or ():
        if line.startswith("{"):
            return line
    raise RuntimeError("the controller ended")


def main() -> None:
    parser = argparse.ArgumentParser(prog="swarm_over_grpc")
    parser.add_argument("--containers", type=int, nargs="+", default=[5_000, 10_000])
    parser.add_argument("--per-application", type=int, default=100, help="containers of an application")
    parser.add_argument(
        "--changing", type=float, default=_CHANGING, help="share that needs another limit each tick"
    )
    parser.add_argument("--ticks", type=int, default=100)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=Path, metavar="CERTIFICATES", help="be the controller")
    given = parser.parse_args()
    if given.serve:
        _serve(given.containers[0], given.per_application, given.serve)
        return
    measured = [measure(n, given.ticks, given.per_application, given.changing) for n in given.containers]
    text = json.dumps(measured, indent=2)
    sys.stdout.write(text + "\n")
    if given.json:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
