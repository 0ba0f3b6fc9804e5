"""The controller's fast loop in a process of its own on one core, and a swarm of agents over real gRPC.

Streams have mutual TLS, as in a cluster. What the controller costs is CPU time of its process (gRPC's threads
and TLS included), per report that arrived: a busy machine delays reports, but does not make them dearer.

    python -m experiments.escra.swarm_over_grpc [--containers 5000 10000] [--seconds 20] [--json FILE]
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
_WARM_UP_S = 10.0


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
        self._reports = self._commands = 0
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
        """Since the last call."""
        with self._lock:
            ticks, self._tick_s = self._tick_s, []
            reports, self._reports = self._reports, 0
            commands, self._commands = self._commands, 0
        return {
            "cpu_s": process_time(),
            "at_s": monotonic(),
            "reports": reports,
            "commands": commands,
            "ticks": len(ticks),
            "tick_ms": (1000 * np.percentile(ticks or [0.0], [50, 99, 100])).tolist(),
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
            self._reports += 1
            return report(session, message, now_s)

        fleet.tick, fleet.report = counted_tick, counted_report  # type: ignore[method-assign]


def _serve(containers: int, per_application: int, tls: Path) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    controller = _Controller(containers, per_application, tls)
    threading.Thread(target=controller.run, daemon=True).start()
    sys.stdout.write(json.dumps({"port": controller.server.port}) + "\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        sys.stdout.write(json.dumps(controller.figures()) + "\n")
        sys.stdout.flush()


async def _live(agent: SwarmAgent, port: int, credentials: grpc.ChannelCredentials, offset_s: float) -> None:
    await asyncio.sleep(offset_s)
    async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
        attach: Any = channel.stream_stream(f"/{SERVICE}/{METHOD}")
        call = attach()
        await call.write(encode(agent.hello()))
        hearing = asyncio.create_task(_hear(agent, call))
        due_s = monotonic()
        while not hearing.done():
            report = agent.report()
            if report is not None:
                await call.write(encode(report))
            due_s = max(due_s + _TICK_S, monotonic() - _TICK_S)
            await asyncio.sleep(max(due_s - monotonic(), 0.0))
        await hearing


async def _hear(agent: SwarmAgent, call: Any) -> None:
    while (content := await call.read()) is not grpc.aio.EOF:
        agent.obey(decode_orders(content))
    raise RuntimeError(f"{agent.node}: {await call.code()}: {await call.details()}")


def measure(containers: int, seconds: float, per_application: int, changing: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        tls = Path(directory)
        ensure(tls, ["localhost"], [_AGENT], datetime.now(UTC))
        command = [sys.executable, "-m", "experiments.escra.swarm_over_grpc", "--serve", directory]
        command += ["--containers", str(containers), "--per-application", str(per_application)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            try:
                return asyncio.run(_measure(server, tls, containers, seconds, per_application, changing))
            finally:
                server.kill()


async def _measure(
    server: subprocess.Popen[str], tls: Path, containers: int, seconds: float, per_application: int,
    changing: float,
) -> dict[str, Any]:  # fmt: skip
    port = json.loads(await asyncio.to_thread(_line, server))["port"]
    names = ("ca.crt", f"{_AGENT}.key", f"{_AGENT}.crt")
    credentials = grpc.ssl_channel_credentials(*((tls / name).read_bytes() for name in names))
    agents = make_agents(containers, per_application, changing)
    living = [
        asyncio.create_task(_live(agent, port, credentials, _TICK_S * i / len(agents)))
        for i, agent in enumerate(agents)
    ]
    try:
        await asyncio.sleep(_WARM_UP_S)
        before = await _figures(server)
        await asyncio.sleep(seconds)
        after = await _figures(server)
        for each in living:
            if each.done():
                await each
    finally:
        for each in living:
            each.cancel()
        await asyncio.gather(*living, return_exceptions=True)
    wall_s, cpu_s = after["at_s"] - before["at_s"], after["cpu_s"] - before["cpu_s"]
    reports = after["reports"]
    core = cpu_s / reports * len(agents) / _TICK_S
    p50, p99, most = after["tick_ms"]
    return {
        "containers": containers,
        "agents": len(agents),
        "seconds": wall_s,
        "reports_of_expected": reports / (wall_s / _TICK_S * len(agents)),
        "core_share_measured": cpu_s / wall_s,
        "core_share": core,
        "containers_per_core": containers / core,
        "changed_share": after["commands"] / containers / (reports / len(agents)),
        "decision_cpu_ms": {"p50": p50, "p99": p99, "max": most},
        "decisions_per_second": after["ticks"] / wall_s,
        "bytes_per_container_second": {
            "up": (after["received_bytes"] - before["received_bytes"]) / containers / wall_s,
            "down": (after["sent_bytes"] - before["sent_bytes"]) / containers / wall_s,
        },
    }


async def _figures(server: subprocess.Popen[str]) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(await asyncio.to_thread(_ask, server))
    return figures


def _ask(server: subprocess.Popen[str]) -> str:
    if server.stdin is not None:
        server.stdin.write("figures\n")
        server.stdin.flush()
    return _line(server)


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
        "--changing", type=float, default=0.03, help="share that needs another limit each tick"
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=Path, metavar="CERTIFICATES", help="be the controller")
    given = parser.parse_args()
    if given.serve:
        _serve(given.containers[0], given.per_application, given.serve)
        return
    measured = [measure(n, given.seconds, given.per_application, given.changing) for n in given.containers]
    text = json.dumps(measured, indent=2)
    sys.stdout.write(text + "\n")
    if given.json:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
